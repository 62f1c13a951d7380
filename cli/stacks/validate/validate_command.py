"""`validate`: report every problem in a stack file or job file, or summarize the stack."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from cli import options
from cli.clusters.kubernetes_access import Access
from cli.console import Listing, make_console, print_result, to_json
from cli.errors import CommandError, NotFound, format_problem, serialize_problem, summarize_problems
from cli.exit_codes import OK, REFUSED, UNREACHABLE, USAGE
from cli.stacks.validate import aws_summary, foreign_manifest, job_file
from infra import preflight
from infra.config import stack_file
from infra.config.stack_file import RawStack
from infra.facts.existing_cluster import ClusterFacts
from infra.plan.cluster_description import describe_existing_cluster
from infra.preflight import Examined
from infra.settings.existing import ExistingSettings
from infra.validation.existing_cluster import list_nodes_without_gpus
from infra.versions import MONITORING_NOT_VERIFIED

AWS_LEFT_OUT = (
    "whether AWS offers the types, zones, versions and add-ons; whether resources that the file references by ID exist and fit; "
    "quotas; free addresses of existing subnets"
)
CLUSTER_LEFT_OUT = "the cluster itself: its version, nodes, labels, GPUs and storage classes"


@dataclass(frozen=True)
class Verdict:
    """Result of `validate` for any kind of stack, as text, as JSON and as an exit code."""

    path: Path
    examined: Examined[Any, Any]
    offline: bool
    left_out: str
    """Text that lists the checks skipped with --offline."""
    unchecked: Sequence[str]
    """One sentence per check that could not be completed although AWS or the cluster was queried."""
    unverified: Mapping[str, str]
    """Maps a pinned version that no source confirms to what is known about the version."""
    pools: Callable[[], list[Mapping[str, object]]]
    """Returns the pools; called only if the stack has no problems."""
    show: Callable[[Console], None]
    """Prints the summary; called only if the stack has no problems."""

    @property
    def code(self) -> int:
        if self.examined.problems:
            return REFUSED
        return OK if self.offline or self.examined.facts else UNREACHABLE

    @property
    def is_valid(self) -> bool:
        return self.code == OK and self.examined.settings is not None

    def as_json(self) -> dict[str, object]:
        return {
            "file": str(self.path),
            "ok": self.code == OK,
            "problems": [serialize_problem(problem) for problem in (*self.examined.problems, *self.examined.warnings)],
            "notAsked": self.examined.not_queried,
            "unchecked": list(self.unchecked),
            "notVerified": dict(self.unverified),
            "pools": self.pools() if self.is_valid else [],
        }

    def print_to(self, console: Console) -> None:
        for problem in self.examined.warnings:
            console.print(format_problem(problem), style="yellow")
        for problem in self.examined.problems:
            console.print(format_problem(problem), style="red")
        if number := len(self.examined.problems):
            console.print(summarize_problems(self.path.name, number, "created"), style="bold")
        if self.is_valid:
            self.show(console)
            number = len(self.examined.warnings)
            fine = "no problems found" if not number else f"no errors, {number} warning{'' if number == 1 else 's'}"
            console.print(f"{self.path.name}: {fine}", style="bold green")
        if self.offline:
            console.print(f"not checked: {self.left_out}", style="yellow")
        elif self.examined.not_queried:
            file = "only the file was checked" if self.examined.problems else "the file looks fine, but only the file was checked"
            console.print(f"{file}: {self.examined.not_queried}", style="yellow")
        for pin, verified in self.unverified.items():
            console.print(f"not verified: {pin} ({verified})", style="yellow")
        for sentence in self.unchecked:
            console.print(f"not checked: {sentence}", style="yellow")


def command(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="STACK|FILE", help="Stack name, or path of a stack file or job file (ends in .yaml or .yml, or contains a /)."
        ),
    ] = None,
    stack: Annotated[str | None, typer.Option("--stack", "-s", help="Same as STACK.", show_default=False)] = None,
    config_dir: options.ConfigDir = options.STACK_FILES,
    offline: Annotated[bool, typer.Option("--offline", help="Check only the file; do not query AWS or the cluster.")] = False,
    *,
    access: Access,
    as_json: options.Json = False,
) -> int:
    """Creates nothing. Queries AWS, or the existing cluster, unless --offline. A job file is checked without a cluster.
    For a Kubernetes manifest, reports why its pods would not run in a job namespace without changes.

    Exits with 3 if there are problems, and with 5 if there are none but AWS or the cluster could not be queried.
    """
    if (name is None) == (stack is None):
        raise CommandError("give one stack or file, like `validate local` or `validate job.yaml`", USAGE)
    if stack is not None or not _is_file_name(name or ""):
        return validate_stack(stack or name or "", config_dir, offline=offline, as_json=as_json)
    path = Path(name or "")
    if not path.is_file():
        raise NotFound(f"there is no file {path}")
    if manifests := foreign_manifest.read_documents(path):
        return foreign_manifest.validate_manifests(path, manifests, access, offline=offline, as_json=as_json)
    if job_file.is_job_file(path):
        return job_file.validate_job_file(path, as_json=as_json)
    return _check_stack(path, offline=offline, as_json=as_json)


def _is_file_name(name: str) -> bool:
    return name.endswith((".yaml", ".yml")) or "/" in name


def validate_stack(stack: str, folder: Path, *, offline: bool, as_json: bool) -> int:
    """Print the problems or the summary of a stack; return the exit code. Raises NoSuchStack."""
    return _check_stack(stack_file.find_stack_file(stack, folder), offline=offline, as_json=as_json)


def _check_stack(path: Path, *, offline: bool, as_json: bool) -> int:
    raw = stack_file.read_stack_file(path)
    validate = validate_existing_stack if stack_file.uses_existing_cluster(raw.values) else validate_aws_stack
    verdict = validate(path, raw, offline)
    return print_result(verdict.as_json(), lambda: verdict.print_to(make_console()), as_json=as_json, code=verdict.code)


def validate_aws_stack(path: Path, raw: RawStack, offline: bool) -> Verdict:
    examined = preflight.examine_aws_stack(raw, offline=offline)
    settings, facts = examined.settings, examined.facts
    has_monitoring = settings and settings.is_eks and settings.platform.monitoring and settings.installs_platform
    return Verdict(
        path,
        examined,
        offline,
        AWS_LEFT_OUT,
        unchecked=facts.unchecked_sentences if facts else (),
        unverified=MONITORING_NOT_VERIFIED if has_monitoring else {},
        pools=lambda: to_json(list(aws_summary.list_rows(settings, facts))) if settings else [],
        show=lambda console: aws_summary.print_summary(console, settings, facts) if settings else None,
    )


def validate_existing_stack(path: Path, raw: RawStack, offline: bool) -> Verdict:
    examined = preflight.examine_existing_stack(raw, offline=offline)
    settings, facts = examined.settings, examined.facts
    unreported = list_nodes_without_gpus(settings, facts) if settings and facts else []
    pools = describe_existing_cluster(settings, facts).pools if settings and facts and not examined.problems else ()
    return Verdict(
        path,
        examined,
        offline,
        CLUSTER_LEFT_OUT,
        unchecked=[f"GPUs of {', '.join(unreported)}: no device plugin has reported the number yet"] if unreported else [],
        unverified={},
        pools=lambda: [
            {"name": pool.name, "gpus": pool.gpus, "nodes": pool.max_size, "nodeSelector": pool.labels} for pool in pools
        ],
        show=lambda console: print_existing_cluster(console, settings, facts) if settings else None,
    )


def print_existing_cluster(console: Console, settings: ExistingSettings, facts: ClusterFacts | None) -> None:
    """Print the pools as a table. Without `facts`, print only the cluster name."""
    where = f"Kubernetes {facts.version} at {facts.server}" if facts else "a Kubernetes cluster"
    console.print(f"{settings.cluster_name}: {where}")
    if facts is None:
        return
    pools = describe_existing_cluster(settings, facts).pools
    labels = [", ".join(f"{key}={value}" for key, value in pool.labels.items()) or "any node" for pool in pools]
    rows = [(pool.name, str(pool.gpus), str(pool.max_size), text) for pool, text in zip(pools, labels, strict=True)]
    console.print(Listing("pool", "GPUs", "nodes", "labels", rows=rows, right=("GPUs", "nodes")))
    console.print(f"at most {sum(pool.gpus * pool.max_size for pool in pools)} GPUs")
