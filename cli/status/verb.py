"""`scripts/cluster status`: asks whoever knows, and prints one screen, once or again and again."""

import json
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from cli.cluster_access import Cluster, Failed
from cli.exit_codes import FINE, INTERRUPTED, NO_CLUSTER, NOT_FOUND, REFUSED, USAGE
from cli.plain_cluster import Failed as PlainFailed
from cli.plain_cluster import PlainCluster
from cli.status import in_kubernetes, in_plain_cluster
from cli.status.in_aws import EksAccount, EksCluster
from cli.status.model import Status
from cli.submit import Where, failed
from infra.config import stack_file
from infra.config.stack_file import RawStack
from infra.facts import FactsError
from infra.facts.clients import Denied
from infra.naming import Naming

EVERY_SECONDS: Final = 5.0

Look = Callable[[], tuple[Status, int]]
"""A status and the exit code that goes with it. Raises Failed."""


def run(stack: str | None, folder: Path, where: Where, *, watch: bool, as_json: bool) -> int:
    """Print the screen; the exit code is that of the last look."""
    try:
        with tempfile.TemporaryDirectory() as made:
            look = _look(stack, folder, where, Path(made))
            return _watched(look, as_json=as_json) if watch else _once(look, as_json=as_json)
    except Failed as error:
        return failed("status", error, as_json=as_json)


# --- once, or again and again -------------------------------------------------------------------------------------------


def _once(look: Look, *, as_json: bool) -> int:
    status, code = look()
    now = datetime.now(UTC)
    if as_json:
        print(json.dumps(status.as_json(now), indent=1))
    else:
        from rich.console import Console

        from cli.status.screen import screen

        console = Console(highlight=False)
        if not console.is_terminal:
            console.width = 300  # a pipe has no width to fit
        console.print(screen(status, now))
    return code


def _watched(look: Look, *, as_json: bool, pause: Callable[[float], object] = time.sleep) -> int:
    """Until ^C. A look that fails is said, and the next one may succeed; where the first one fails nothing is waited for."""
    last = look()
    try:
        if as_json:
            while True:
                print(json.dumps(last[0].as_json(datetime.now(UTC))), flush=True)
                pause(EVERY_SECONDS)
                last = _again(look, last)
        from rich.console import Console, Group
        from rich.live import Live
        from rich.text import Text

        from cli.status.screen import screen

        console = Console(highlight=False)
        with Live(console=console, screen=console.is_terminal, auto_refresh=False) as live:
            while True:
                now = datetime.now(UTC)
                note = Text(f"{now.astimezone():%H:%M:%S}, every {EVERY_SECONDS:g} s; ^C ends it", "dim")
                live.update(Group(screen(last[0], now), Text(), note), refresh=True)
                pause(EVERY_SECONDS)
                last = _again(look, last)
    except KeyboardInterrupt:
        return INTERRUPTED


def _again(look: Look, last: tuple[Status, int]) -> tuple[Status, int]:
    try:
        return look()
    except Failed as error:
        return replace(last[0], unknown=(f"anything new: {error}",)), error.code


# --- whom to ask --------------------------------------------------------------------------------------------------------


def _look(stack: str | None, folder: Path, where: Where, made: Path) -> Look:
    """How a stack's cluster is looked at; without a stack, the cluster of the kubeconfig."""
    if stack is None:
        cluster = where.connect()
        return lambda: (in_kubernetes.read(cluster, where.namespace), FINE)
    raw = _raw(stack, folder)
    target = raw.values.get("target")
    kind = target.get("kind") if isinstance(target, dict) else None
    if kind == "ec2":
        return _plain_look(stack, folder, where)
    if kind == "eks":
        return _EksLook(raw, where, made)
    return _kubernetes_look(raw, where, str(kind or ""))


def _raw(stack: str, folder: Path) -> RawStack:
    try:
        return stack_file.read(stack_file.find(stack, folder))
    except stack_file.NoSuchStack as error:
        raise Failed(str(error), NOT_FOUND) from None


def _plain_look(stack: str, folder: Path, where: Where) -> Look:
    if where != Where():
        raise Failed(f"{stack} is a plain EC2 cluster: it has no kubeconfig, context or namespace", USAGE)

    def look() -> tuple[Status, int]:
        try:
            return in_plain_cluster.read(PlainCluster(stack, folder)), FINE
        except PlainFailed as error:
            raise Failed(str(error), error.code) from None

    return look


def _kubernetes_look(raw: RawStack, where: Where, kind: str) -> Look:
    """A cluster that AWS knows nothing of: no call is made to it."""
    cluster, name = where.connect(), Naming(raw.stack).cluster

    def look() -> tuple[Status, int]:
        status = _of_stack(in_kubernetes.read(cluster, where.namespace), name)
        return replace(status, kind="existing" if kind == "existing" else ""), FINE

    return look


class _EksLook:
    """AWS and Kubernetes both; either may be out of reach, and then the other's part is printed."""

    def __init__(self, raw: RawStack, where: Where, made: Path) -> None:
        if not raw.region:
            raise Failed("; ".join(map(str, raw.problems)) or f"stack {raw.stack} names no region", NOT_FOUND)
        self._account = EksAccount(raw.stack, raw.region)
        self._where, self._made = where, made
        self._cluster: Cluster | None = None

    def __call__(self) -> tuple[Status, int]:
        self._account.unknown.clear()
        name, region = self._account.name, self._account.region
        try:
            found = self._account.cluster()
            if found is None:
                way_out = f"`pulumi up -s {self._account.stack}` makes it"
                raise Failed(f"there is no cluster {name} in {region}; {way_out}", NOT_FOUND)
            aws = self._account.status(found)
        except (FactsError, Denied) as error:
            reason = f"you may not call {error}" if isinstance(error, Denied) else str(error)
            aws, found = Status(name, "eks", unknown=(f"what AWS wants and could not launch: {reason}",)), None
        try:
            kubernetes = _of_stack(in_kubernetes.read(self._connected(found), self._where.namespace), name)
        except Failed as error:
            if found is None or error.code == REFUSED:
                raise
            return replace(aws, unknown=(*aws.unknown, f"what runs in it: {error}")), error.code
        merged = kubernetes.merged(aws)
        return replace(merged, version=kubernetes.version or aws.version), FINE

    def _connected(self, found: EksCluster | None) -> Cluster:
        """By the kubeconfig that is named, else by one made from AWS's answer, else by the one of the shell."""
        if self._cluster is None:
            if found is None or self._where.kubeconfig or self._where.context:
                self._cluster = self._where.connect()
            else:
                self._cluster = Cluster(self._written(found), None)
        return self._cluster

    def _written(self, found: EksCluster) -> Path:
        from infra.kubernetes.eks_kubeconfig import kubeconfig  # loads Pulumi's SDK

        if not found.endpoint:
            raise Failed(f"cluster {found.name} is {found.state} and has no endpoint yet", NO_CLUSTER)
        file = self._made / "kubeconfig"
        file.write_text(
            kubeconfig(
                name=found.name,
                endpoint=found.endpoint,
                certificate_authority=found.certificate_authority,
                region=self._account.region,
            )
        )
        return file


def _of_stack(status: Status, name: str) -> Status:
    """Raises Failed where the kubeconfig leads elsewhere."""
    if status.cluster != name:
        way_out = "name another with --kubeconfig and --context, or leave the stack out"
        raise Failed(f"the kubeconfig leads to cluster {status.cluster}, not to {name}; {way_out}", REFUSED)
    return status
