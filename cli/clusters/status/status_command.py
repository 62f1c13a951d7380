"""`status`: query AWS and Kubernetes, and print one screen, once or repeatedly."""

import json
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Group
from rich.live import Live
from rich.text import Text

from cli import options
from cli.aws_queries import explain_query_error, require_region
from cli.clusters import stack_cluster
from cli.clusters.kubernetes_access import Access, Cluster
from cli.clusters.status import in_ec2_cluster, in_kubernetes
from cli.clusters.status.cluster_status import Status
from cli.clusters.status.hourly_price import add_spending
from cli.clusters.status.in_aws import EksAccount, EksDescription
from cli.clusters.status.status_screen import render_status
from cli.console import make_console, print_result
from cli.ec2.ec2_instances import DeployedEc2Cluster
from cli.errors import CommandError, NotFound
from cli.exit_codes import INTERRUPTED, OK, REFUSED, USAGE
from infra.config import stack_file
from infra.config.stack_file import RawStack
from infra.facts.clients import Denied
from infra.facts.model import FactsError
from infra.facts.regions import UnknownRegion
from infra.naming import Naming

EVERY_SECONDS: Final = 5.0

Look = Callable[[], tuple[Status, int]]
"""Returns the status and the exit code. Raises CommandError."""


def command(
    stack: options.ClusterStack = None,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help=f"Repeat every {EVERY_SECONDS:g} s; with --json, one document per line.")
    ] = False,
    config_dir: options.ConfigDir = options.STACK_FILES,
    kubeconfig: options.Kubeconfig = None,
    context: options.Context = None,
    namespace: Annotated[
        str | None, typer.Option("--namespace", "-n", help="Only jobs of this namespace.", show_default="all")
    ] = None,
    as_json: options.Json = False,
) -> int:
    """EKS: without --kubeconfig, a kubeconfig is built from what AWS reports. Without AWS credentials, only Kubernetes
    data is shown, and the missing parts are listed. EC2 clusters: shows the head node, joined and desired workers.
    """
    access = Access(kubeconfig, context, namespace)
    with tempfile.TemporaryDirectory() as folder:
        look = make_status_query(stack, config_dir, access, Path(folder))
        if watch:
            return _watch_status(look, as_json=as_json)
        status, code = look()
        now = datetime.now(UTC)
        return print_result(status.as_json(now), render_status(status, now), as_json=as_json, code=code)


def _watch_status(look: Look, *, as_json: bool, pause: Callable[[float], object] = time.sleep) -> int:
    """Poll until ^C. A failure of the first poll ends the verb; later failures are shown and polling continues."""
    last = look()
    try:
        if as_json:
            while True:
                print(json.dumps(last[0].as_json(datetime.now(UTC))), flush=True)
                pause(EVERY_SECONDS)
                last = _query_again(look, last)
        console = make_console()
        with Live(console=console, screen=console.is_terminal, auto_refresh=False) as live:
            while True:
                now = datetime.now(UTC)
                note = Text(f"{now.astimezone():%H:%M:%S}, every {EVERY_SECONDS:g} s; ^C to stop", "dim")
                live.update(Group(render_status(last[0], now), Text(), note), refresh=True)
                pause(EVERY_SECONDS)
                last = _query_again(look, last)
    except KeyboardInterrupt:
        return INTERRUPTED


def _query_again(look: Look, last: tuple[Status, int]) -> tuple[Status, int]:
    try:
        return look()
    except CommandError as error:
        return replace(last[0], unknown=(f"current status: {error}",)), error.code


# --- queries ------------------------------------------------------------------------------------------------------------


def make_status_query(stack: str | None, folder: Path, access: Access, scratch: Path, *, spending: bool = True) -> Look:
    """Return a function that queries the stack's cluster or, without a stack, the kubeconfig's cluster."""
    if stack is None:
        cluster = access.connect()
        return lambda: (in_kubernetes.read_status(cluster, access.namespace), OK)
    raw = stack_file.read_stack_file(stack_file.find_stack_file(stack, folder))
    if raw.target_kind not in ("ec2", "eks"):
        return _make_kubernetes_query(raw, access)
    if raw.target_kind == "ec2" and access != Access():
        raise CommandError(f"{stack} is an EC2 cluster: it has no kubeconfig, context or namespace", USAGE)
    is_ec2 = raw.target_kind == "ec2"
    look = (
        (lambda: (in_ec2_cluster.read_status(DeployedEc2Cluster(stack, folder)), OK))
        if is_ec2
        else _EksLook(raw, access, scratch)
    )
    return add_spending(raw, look) if spending else look


def _make_kubernetes_query(raw: RawStack, access: Access) -> Look:
    """Return a function that queries a cluster outside AWS without calling AWS."""
    cluster, name = access.connect(), Naming(raw.stack).cluster

    def query_status() -> tuple[Status, int]:
        status = _check_cluster(in_kubernetes.read_status(cluster, access.namespace), name)
        return replace(status, kind="existing" if stack_file.uses_existing_cluster(raw.values) else ""), OK

    return query_status


class _EksLook:
    """Queries AWS and Kubernetes. If one of them is unreachable, the status contains only data from the other."""

    def __init__(self, raw: RawStack, access: Access, scratch: Path) -> None:
        self._account = EksAccount(raw.stack, require_region(raw))
        self._access, self._scratch = access, scratch
        self._cluster: Cluster | None = None

    def __call__(self) -> tuple[Status, int]:
        self._account.unknown.clear()
        name = self._account.name
        try:
            cluster = self._account.cluster()
            if cluster is None:
                raise NotFound(stack_cluster.explain_missing_cluster(self._account))
            aws = self._account.status(cluster)
        except UnknownRegion:
            raise
        except (FactsError, Denied) as error:
            aws, cluster = (
                Status(name, "eks", unknown=(f"desired sizes and failed launches: {explain_query_error(error)}",)),
                None,
            )
        try:
            kubernetes = _check_cluster(in_kubernetes.read_status(self._connect(cluster), self._access.namespace), name)
        except CommandError as error:
            if cluster is None or error.code == REFUSED:
                raise
            return replace(aws, unknown=(*aws.unknown, f"ready nodes, queues, jobs and volumes: {error}")), error.code
        merged = kubernetes.merge_with(aws)
        return replace(merged, version=kubernetes.version or aws.version), OK

    def _connect(self, described: EksDescription | None) -> Cluster:
        """Connect with the given kubeconfig or, without one, with a kubeconfig built from what AWS reports.

        If AWS reports nothing, use the default kubeconfig.
        """
        if self._cluster is None:
            if described is None or self._access.kubeconfig or self._access.context:
                self._cluster = self._access.connect()
            else:
                self._cluster = stack_cluster.connect_to_described(described, self._account.region, self._scratch)
        return self._cluster


def _check_cluster(status: Status, name: str) -> Status:
    """Return the status. Raises CommandError if the kubeconfig belongs to another cluster."""
    stack_cluster.check_cluster_name(status.cluster, name)
    return status
