"""`validate`: report every problem in a stack file or job file, or summarize the stack."""

from pathlib import Path
from typing import Annotated

import typer

from cli import options
from cli.clusters.kubernetes_access import Access
from cli.console import make_console, print_json
from cli.errors import CommandError, NotFound
from cli.exit_codes import USAGE
from cli.stacks.validate import aws_summary, existing_summary, foreign_manifest, job_file
from cli.stacks.validate.verdict import Verdict
from infra.config import preflight, stack_file
from infra.config.stack_file import RawStack
from infra.settings.stack import Settings
from infra.versions import FSX_CSI_DRIVER, not_verified

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
    kubeconfig: options.Kubeconfig = None,
    context: options.Context = None,
    namespace: options.Namespace = None,
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
        access = Access(kubeconfig, context)
        return foreign_manifest.run(path, manifests, access, namespace, offline=offline, as_json=as_json)
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
    verdict = _of_existing(path, raw, offline) if stack_file.is_existing(raw.values) else _of_aws(path, raw, offline)
    if as_json:
        print_json(verdict.as_json())
    else:
        verdict.show_on(make_console())
    return verdict.code


def _of_aws(path: Path, raw: RawStack, offline: bool) -> Verdict:
    examined = preflight.examine_aws(raw, offline=offline)
    settings, facts = examined.settings, examined.facts
    return Verdict(
        path,
        examined,
        offline,
        AWS_LEFT_OUT,
        unchecked=facts.unchecked if facts else (),
        unverified=_unverified(settings) if settings else {},
        pools=lambda: [row.as_json() for row in aws_summary.rows(settings, facts)] if settings else [],
        show=lambda console: aws_summary.show(console, settings, facts) if settings else None,
    )


def _unverified(settings: Settings) -> dict[str, str]:
    if not settings.is_eks:
        return {}
    unused = () if settings.storage.lustre else (FSX_CSI_DRIVER,)
    platform, own = settings.platform, {*settings.eks.addon_versions, *unused}
    return not_verified(settings.eks.kubernetes_version, own, monitoring=platform.monitoring and settings.installs_platform)


def _of_existing(path: Path, raw: RawStack, offline: bool) -> Verdict:
    examined = preflight.examine_existing(raw, offline=offline)
    settings, facts = examined.settings, examined.facts
    return Verdict(
        path,
        examined,
        offline,
        CLUSTER_LEFT_OUT,
        unchecked=existing_summary.unchecked(settings, facts) if settings and facts else (),
        unverified={},
        pools=lambda: existing_summary.rows(settings, facts) if settings and facts else [],
        show=lambda console: existing_summary.show(console, settings, facts) if settings else None,
    )
