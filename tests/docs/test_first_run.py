"""The commands and figures in docs/guides/first-run.md."""

import re
import shlex
from pathlib import Path

import pytest
import yaml

from cli.clusters.acceptance import aws_reads, eks
from cli.clusters.acceptance.target import Bill
from cli.main import load_verb
from infra.cost.prices import read_snapshot
from infra.jobs import nccl_verdict
from tests.docs.tables import ROOT
from tests.program.engine import deploy
from tests.program.worlds import start_local_account

PAGE = (ROOT / "docs" / "guides" / "first-run.md").read_text()
IDLE = {"m7i.large": 2}
"""Maps an instance type to the number of nodes that run while all pools are empty: the system nodes."""


def read_commands() -> list[str]:
    blocks = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    return [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]


def run_command(line: str, *more: str) -> None:
    """Run a command from the page in this process."""
    _, name, *rest = shlex.split(line)
    load_verb(name).main(args=[*rest, *more], prog_name=name, standalone_mode=False)


def test_init_writes_a_stack_that_matches_the_page_and_aws_accepts_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (line,) = [command for command in read_commands() if "scripts/cluster init " in command]
    run_command(line, "--offline", "--allow", "198.51.100.7/32", "--config-dir", str(tmp_path))
    config = yaml.safe_load((tmp_path / "Pulumi.first.yaml").read_text())["config"]
    (pool,) = config["gpumpi:pools"]
    assert (config["aws:region"], pool["name"], pool["instanceType"], pool["maxSize"]) == ("us-east-1", "train", "g6.8xlarge", 2)
    assert config["gpumpi:target"]["kind"] == "eks" and "minSize" not in pool, "the pool may be empty"
    capsys.readouterr()
    run_command("scripts/cluster validate -s first", "--offline", "--config-dir", str(tmp_path))
    assert "no errors" in capsys.readouterr().out
    with start_local_account(tmp_path / "Pulumi.first.yaml") as (settings, facts, mocks):
        deploy(settings, facts, mocks)
        kind = facts.instance_types["g6.8xlarge"]
        assert (kind.gpus, kind.efa_maximum, 2 * kind.vcpus) == (1, 1, 64), "the page mentions EFA and the vCPU quota"


@pytest.mark.parametrize(
    ("region", "more", "shown"),
    [("us-east-1", {}, "0.30"), ("us-east-1", {"g6.8xlarge": 2}, "4.33"), ("us-west-2", {"p5.48xlarge": 2}, "110.38")],
)
def test_costs_on_the_first_run_page_match_the_prices(region: str, more: dict[str, int], shown: str) -> None:
    bill = Bill(region, {**IDLE, **more}, eks=True)
    assert str(bill) == f"{shown} USD/h"
    assert f"{shown} USD" in " ".join(PAGE.split())
    assert read_snapshot(region).date in " ".join(PAGE.split())


def test_the_page_starts_by_stating_that_nothing_was_run_on_aws() -> None:
    first = PAGE.split("\n## ")[0].split("\n\n")[1]
    assert first.startswith("**None of this page has been run on AWS.**")


def test_every_stack_on_the_page_exists_or_is_written_by_the_page() -> None:
    named = {name for line in read_commands() for name in re.findall(r"(?:-s|stack init) ([\w-]+)", line)}
    files = {path.name.removeprefix("Pulumi.").removesuffix(".yaml") for path in (ROOT / "stacks").glob("Pulumi.*.yaml")}
    assert named - files == {"first", "STACK"}


def test_the_page_describes_every_row_of_the_acceptance_report() -> None:
    of_smoke = {"smoke: MPI transport", "smoke: CUDA kernel", *(f"smoke: {name}" for name in nccl_verdict.NAMES[1:])}
    own = {eks.DRIVERS, eks.VERSIONS, eks.DEVICES, f"{eks.SMOKE} nccl", eks.KILLED, eks.SCALE, aws_reads.DESTROY}
    assert {name for name in of_smoke | own if f"| {name} | " not in PAGE} == set()
