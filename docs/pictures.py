"""SVG pictures for the documents. `python docs/pictures.py` writes the pictures; with `--check`, it fails if one is out of date.

- architecture: the components of infra/, from `architecture` below

- demo: the table at the end of `make demo`, from docs/pictures/demo.json, which has the format of .local/demo.json

- status: the output of `scripts/cluster status` for a sample cluster

- plan: the output of `scripts/cluster plan` for stacks/Pulumi.02-p4d-efa.yaml, with snapshot prices and sample answers

demo.json was recorded by `make demo` on a fresh clone on 2026-11-23, while other work ran on the machine. To update
this file, replace it with .local/demo.json of another run.
"""

import io
import json
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

ROOT: Final = Path(__file__).resolve().parents[1]
FOLDER: Final = ROOT / "docs" / "pictures"
sys.path.insert(0, str(ROOT))

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console, RenderableType

from cli.clusters.status.cluster_status import JobLine, PoolStatus, QueueStatus, Status, VolumeStatus
from cli.clusters.status.status_screen import render_status
from cli.demo.steps import StepResult, render_table
from cli.ec2.failed_launches import FailedLaunch
from cli.jobs.state import JobState, Phase
from cli.stacks.plan.changes import Changes
from cli.stacks.plan.plan_report import Report
from cli.stacks.plan.plan_screen import render_report as plan_screen
from infra.checks.model import Answer, build_negative_answer, build_unknown_answer
from infra.config import stack_file
from infra.config.parse import parse_model
from infra.cost.prices import read_snapshot
from infra.inventory.bill import compute_bill
from infra.settings.stack import Settings

# --- terminals ---------------------------------------------------------------------------------------------------------

SVG_FORMAT: Final = (
    re.sub(r"@font-face \{\{.*?\}\}\n", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    .replace("font-family: Fira Code, monospace", "font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, monospace")
    .replace('<svg class="rich-terminal"', '<svg class="rich-terminal" xml:space="preserve"')
)
"""Template without rich's web fonts, because browsers do not load fonts for an SVG that a page embeds as an image.
`preserve` is needed because rich aligns columns with non-breaking spaces, which librsvg would trim."""


def render_terminal(name: str, command: str, content: RenderableType, width: int) -> str:
    # the caller's NO_COLOR, TERM and COLUMNS must not affect the picture
    environment = {"TERM": "xterm-256color", "COLORTERM": "truecolor"}
    console = Console(
        record=True, file=io.StringIO(), width=width, height=60, force_terminal=True, highlight=False, _environ=environment
    )
    console.print(f"[bold]$[/] {command}")
    console.print(content)
    return console.export_svg(title="gpumpi", code_format=SVG_FORMAT, unique_id=name)


def draw_demo() -> str:
    results = [StepResult(**row) for row in json.loads((FOLDER / "demo.json").read_text())]
    return render_terminal("demo", "make demo", render_table(results, sum(result.seconds for result in results)), 122)


NOW: Final = datetime(2026, 11, 22, 12, tzinfo=UTC)


def _make_job_line(name: str, workers: int, phase: Phase, minutes: int, waits_for: str = "") -> JobLine:
    created = NOW - timedelta(minutes=minutes)
    state = JobState(name, "mpi-jobs", "MPIJob", name, "mpijob", "train", workers, phase, waits_for, 0, created, None)
    return JobLine(state, waits_for)


CLUSTER: Final = Status(
    "gpumpi-mine",
    "eks",
    "ACTIVE",
    "1.35",
    "https://0123456789ABCDEF.gr7.us-west-2.eks.amazonaws.com",
    pools=(
        PoolStatus("system", "m7i.large", ready=2, nodes=2, wanted=2, min_size=1, max_size=3, gpus=0, gpus_used=0),
        PoolStatus("train", "p5.48xlarge", ready=4, nodes=4, wanted=4, min_size=0, max_size=4, gpus=32, gpus_used=24),
        PoolStatus(
            "spare",
            "g6.8xlarge",
            ready=1,
            nodes=1,
            wanted=2,
            min_size=0,
            max_size=8,
            gpus=1,
            gpus_used=0,
            last_failed_launch=FailedLaunch(
                NOW - timedelta(minutes=3),
                "InsufficientInstanceCapacity: not enough g6.8xlarge in us-west-2b",
                later_launch_succeeded=False,
            ),
        ),
    ),
    queues=(QueueStatus("mpi-jobs", "default", admitted=2, waiting=1),),
    jobs=(
        _make_job_line("llm-pretrain", 2, "Running", 192),
        _make_job_line("allreduce-bench", 1, "Running", 4),
        _make_job_line(
            "mnist",
            2,
            "Queued",
            1,
            "waits in the queue: insufficient unused quota for nvidia.com/gpu in flavor train, 8 more needed",
        ),
    ),
    ended={"Succeeded": 7, "Failed": 1},
    volumes=(VolumeStatus("shared", "/shared", "mpi-jobs", "shared", "Bound"),),
)


def draw_status() -> str:
    return render_terminal("status", "scripts/cluster status -s mine", render_status(CLUSTER, NOW), 112)


def draw_plan() -> str:
    raw = stack_file.read_stack_file(ROOT / "stacks" / "Pulumi.02-p4d-efa.yaml")
    settings = parse_model(Settings, raw.values, stack=raw.stack, region=raw.region).model
    assert settings is not None
    quota = (
        'pools[0].maxSize: 4 p4d.24xlarge need 384 vCPUs, but the quota "Running On-Demand P instances" is 192. Request an '
        "increase (`aws service-quotas request-service-quota-increase --service-code ec2 --quota-code L-417A185B "
        "--desired-value 384 --region us-west-2`) or lower maxSize."
    )
    answers = (
        *(Answer(check, "yes") for check in ("stack file", "instance types and zones", "existing VPC", "EKS clusters")),
        build_negative_answer("vCPU quotas", quota),
        build_unknown_answer("permissions", "you are not allowed to call iam:SimulatePrincipalPolicy"),
    )
    heading = "gpumpi-mine: EKS cluster, Kubernetes 1.35, in us-west-2; account 123456789012"
    cost = compute_bill(settings, None, read_snapshot(raw.region))
    report = Report(heading, "mine", raw.region, answers, cost, Changes({"create": 87}))
    return render_terminal("plan", "scripts/cluster plan -s mine", plan_screen(report, strict=False), 112)


# --- architecture ------------------------------------------------------------------------------------------------------

TITLE_PIXELS, TEXT_PIXELS, MARGIN = 8.1, 6.1, 10
"""Average character widths of titles and texts, and the inner margin of a box."""

STYLE: Final = """\
  text { font-family: -apple-system, "Segoe UI", "DejaVu Sans", Helvetica, Arial, sans-serif; fill: #1f2328 }
  .title { font-size: 14px; font-weight: 600 } .text { font-size: 12px; fill: #59636e }
  .page { fill: #ffffff } rect { stroke-width: 1.2 }
  .group { fill: #f6f8fa; stroke: #d1d9e0 } .aws { fill: #fff8e6; stroke: #d4a72c } .kubernetes { fill: #e8f1ff; stroke: #4184e4 }
  .input { fill: #eafbef; stroke: #2da44e } .arrow { stroke: #59636e; stroke-width: 1.4; fill: none } .tip { fill: #59636e }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 } .text { fill: #9aa6b2 } .page { fill: #0d1117 }
    .group { fill: #151b23; stroke: #3d444d } .aws { fill: #2b2310; stroke: #9e7a1c }
    .kubernetes { fill: #11233d; stroke: #2f6dbf }
    .input { fill: #10281a; stroke: #238636 } .arrow { stroke: #9aa6b2 } .tip { fill: #9aa6b2 }
  }"""


@dataclass(frozen=True)
class Box:
    x: int
    y: int
    width: int
    height: int
    kind: str
    title: str
    lines: tuple[str, ...] = ()

    def render_svg(self) -> str:
        room = self.width - 2 * MARGIN
        longest = max([len(self.title) * TITLE_PIXELS, *(len(line) * TEXT_PIXELS for line in self.lines)])
        assert longest <= room, f"{self.title}: {longest:.0f} pixels of text, room for {room}"
        assert 26 + 17 * len(self.lines) <= self.height, f"{self.title}: too many lines"
        parts = [f'<rect class="{self.kind}" x="{self.x}" y="{self.y}" width="{self.width}" height="{self.height}" rx="6"/>']
        parts.append(f'<text class="title" x="{self.x + MARGIN}" y="{self.y + 22}">{escape(self.title)}</text>')
        for number, line in enumerate(self.lines):
            parts.append(f'<text class="text" x="{self.x + MARGIN}" y="{self.y + 41 + 17 * number}">{escape(line)}</text>')
        return "\n".join(parts)


BOXES: Final = (
    Box(20, 20, 190, 50, "input", "Stack file", ("stacks/Pulumi.NAME.yaml",)),
    Box(240, 20, 150, 50, "group", "Settings", ("types, defaults",)),
    Box(420, 20, 150, 50, "group", "Facts", ("what AWS reports",)),
    Box(600, 20, 150, 50, "group", "Validation", ("all problems at once",)),
    Box(780, 20, 180, 50, "group", "Plan", ("zones, EFA, placement",)),
    # target eks
    Box(20, 110, 600, 480, "group", "target: eks, in your AWS account"),
    Box(36, 144, 568, 52, "aws", "Network", ("VPC, public and private subnets in 2 to 4 zones, NAT, private endpoints",)),
    Box(36, 208, 180, 90, "aws", "EksCluster", ("control plane, access,", "secrets key, logs,", "add-ons (EksAddons)")),
    Box(230, 208, 180, 90, "aws", "NodePool system", ("small CPU node group", "for operators and", "launchers")),
    Box(424, 208, 180, 90, "aws", "NodePool train", ("GPU node group, 0 to N,", "EFA interfaces, in a", "placement group")),
    Box(36, 310, 180, 74, "aws", "SharedStorage", ("EFS, one mount target", "per zone")),
    Box(230, 310, 180, 74, "aws", "KeyBucket", ("public SSH keys,", "kept for 1 day")),
    Box(424, 310, 180, 74, "aws", "PodRole", ("AWS permissions", "of job pods")),
    Box(
        36,
        404,
        568,
        74,
        "kubernetes",
        "Platform",
        (
            "device plugins (GPU, EFA), MPI operator, queue (Kueue), autoscaler,",
            "shared volume, namespaces for jobs",
        ),
    ),
    Box(
        36,
        498,
        568,
        74,
        "kubernetes",
        "Jobs: mpijob, standalone, torchrun",
        (
            "one launcher and its workers, connected over SSH: all start, or all wait.",
            "scripts/cluster submit, logs, jobs, cancel",
        ),
    ),
    # target ec2
    Box(650, 110, 310, 270, "group", "target: ec2, without Kubernetes"),
    Box(666, 144, 278, 52, "aws", "Network, storage and KeyBucket", ("the same components as on the left",)),
    Box(666, 208, 278, 74, "aws", "Ec2Master", ("one instance: SSH users log in here,", "mpiexec starts here")),
    Box(666, 300, 278, 68, "aws", "Ec2Workers", ("Auto Scaling group, 0 to N: EFA,", "placement group, join on boot")),
    # target existing
    Box(650, 400, 310, 190, "group", "target: existing"),
    Box(
        666,
        434,
        278,
        74,
        "input",
        "Your Kubernetes cluster",
        ("on premises or elsewhere, through its", "kubeconfig; nodes selected by label"),
    ),
    Box(666, 520, 278, 54, "kubernetes", "Platform and Jobs", ("the same components; nothing in AWS",)),
)
ARROWS: Final = (
    *((start, 45, start + 30, 45) for start in (210, 390, 570, 750)),
    (870, 70, 870, 110),
    (320, 90, 320, 110),
    (320, 384, 320, 404),
    (320, 478, 320, 498),
    (805, 282, 805, 300),
    (805, 508, 805, 520),
)


def draw_architecture() -> str:
    lines = [f'<path class="arrow" d="M{x} {y} L{to_x} {to_y}" marker-end="url(#tip)"/>' for x, y, to_x, to_y in ARROWS]
    lines.append('<path class="arrow" d="M870 90 L320 90"/>')  # both targets in AWS use this plan
    return "\n".join(
        [
            '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 980 610" role="img" aria-label="Architecture of gpumpi">',
            f"<style>\n{STYLE}\n</style>",
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
            '<path class="tip" d="M0 0 L8 4 L0 8 Z"/></marker></defs>',
            '<rect class="page" width="980" height="610" rx="8"/>',
            *(box.render_svg() for box in BOXES),
            *lines,
            "</svg>",
            "",
        ]
    )


# --- files -------------------------------------------------------------------------------------------------------------


def draw_pictures() -> Mapping[Path, str]:
    svgs = {"architecture": draw_architecture(), "demo": draw_demo(), "plan": draw_plan(), "status": draw_status()}
    return {FOLDER / f"{name}.svg": text for name, text in svgs.items()}


def main(arguments: list[str]) -> int:
    if arguments not in ([], ["--check"]):
        print(__doc__, file=sys.stderr)
        return 2
    stale = [path for path, text in draw_pictures().items() if not path.is_file() or path.read_text(encoding="utf-8") != text]
    for path in stale:
        if arguments:
            print(f"{path.relative_to(ROOT)} is out of date. Regenerate it with: python docs/pictures.py", file=sys.stderr)
        else:
            path.write_text(draw_pictures()[path], encoding="utf-8")
    return 1 if arguments and stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
