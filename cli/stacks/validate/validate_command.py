"""`validate`: report every problem in a stack file or job file, or summarize the stack."""

from pathlib import Path
from typing import Annotated

import typer

from cli import options
from cli.clusters.kubernetes_access import Access
from cli.console import make_console, print_json, to_json
from cli.errors import CommandError, NotFound
from cli.exit_codes import USAGE
from cli.stacks.validate import aws_summary, existing_summary, foreign_manifest, job_file
from cli.stacks.validate.verdict import Verdict
from infra import preflight
from infra.config import stack_file
from infra.config.stack_file import RawStack
from infra.settings.stack import Settings
from infra.versions import MONITORING_NOT_VERIFIED

AWS_LEFT_OUT = (
    "whether AWS offers the types, zones, versions and add-ons; whether resources that the file references by ID exist and fit; "
    "quotas; free addresses of existing subnets"
)
CLUSTER_LEFT_OUT = "the cluster itself: its version, nodes, labels, GPUs and storage classes"


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
    if stack is not None or not _is_file(name or ""):
        return run(stack or name or "", config_dir, offline=offline, as_json=as_json)
    path = Path(name or "")
    if not path.is_file():
        raise NotFound(f"there is no file {path}")
    if manifests := foreign_manifest.documents(path):
        return foreign_manifest.run(path, manifests, access, offline=offline, as_json=as_json)
    if job_file.is_job(path):
        return job_file.run(path, as_json=as_json)
    return _check_stack(path, offline=offline, as_json=as_json)


def _is_file(name: str) -> bool:
    return name.endswith((".yaml", ".yml")) or "/" in name


def run(stack: str, folder: Path, *, offline: bool, as_json: bool) -> int:
    """Print the problems or the summary of a stack; return the exit code. Raises NoSuchStack."""
    return _check_stack(stack_file.find(stack, folder), offline=offline, as_json=as_json)


def _check_stack(path: Path, *, offline: bool, as_json: bool) -> int:
    raw = stack_file.read(path)
    verdict = (
        validate_existing_stack(path, raw, offline)
        if stack_file.is_existing(raw.values)
        else validate_aws_stack(path, raw, offline)
    )
    if as_json:
        print_json(verdict.as_json())
    else:
        verdict.show_on(make_console())
    return verdict.code


def validate_aws_stack(path: Path, raw: RawStack, offline: bool) -> Verdict:
    examined = preflight.examine_aws(raw, offline=offline)
    settings, facts = examined.settings, examined.facts
    return Verdict(
        path,
        examined,
        offline,
        AWS_LEFT_OUT,
        unchecked=facts.unchecked_sentences if facts else (),
        unverified=list_unverified(settings) if settings else {},
        pools=lambda: to_json(list(aws_summary.list_rows(settings, facts))) if settings else [],
        show=lambda console: aws_summary.show(console, settings, facts) if settings else None,
    )


def list_unverified(settings: Settings) -> dict[str, str]:
    has_monitoring = settings.is_eks and settings.platform.monitoring and settings.installs_platform
    return dict(MONITORING_NOT_VERIFIED) if has_monitoring else {}


def validate_existing_stack(path: Path, raw: RawStack, offline: bool) -> Verdict:
    examined = preflight.examine_existing(raw, offline=offline)
    settings, facts = examined.settings, examined.facts
    return Verdict(
        path,
        examined,
        offline,
        CLUSTER_LEFT_OUT,
        unchecked=existing_summary.list_unchecked(settings, facts) if settings and facts else (),
        unverified={},
        pools=lambda: existing_summary.list_rows(settings, facts) if settings and facts else [],
        show=lambda console: existing_summary.show(console, settings, facts) if settings else None,
    )
