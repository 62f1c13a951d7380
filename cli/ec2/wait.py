"""`wait` and `scale`: wait until all nodes have joined and are in the hostfile, and show why a node could not join."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Final

import typer

from cli import options
from cli.console import print_json, say
from cli.ec2 import hostfile_check
from cli.ec2.ec2_instances import BootLog, DeployedEc2Cluster, Ec2Node, WorkerGroup
from cli.ec2.head_node_ssh import check_key_file_exists
from cli.ec2.hostfile_check import Look, Unseen
from cli.errors import CommandError
from cli.exit_codes import FAILED, OK, REFUSED
from cli.installation import program_name as program

DEFAULT_MINUTES: Final = 40.0
"""Default time limit. It exceeds the join time limit of workers with 4 TiB of memory (`infra.plan.ec2_cluster`)."""
POLL_SECONDS: Final = 5.0
HOSTFILE_SECONDS: Final = 120.0
"""Time allowed for the head node to update its hostfile. The join service polls AWS every ten seconds."""
MAX_FAILED_WORKERS: Final = 3
"""Number of failed workers at which the verb stops waiting, because the next worker would also fail."""
TAIL_LINES: Final = 40


@dataclass(frozen=True)
class Snapshot:
    """State of an EC2 cluster at one poll."""

    group: WorkerGroup
    nodes: list[Ec2Node]
    head_node_joined: bool
    difference: str = ""
    """Difference between the head node's hostfile and what AWS reports, as text."""

    @property
    def workers_in_service(self) -> int:
        return sum(not node.is_head_node and node.state == "InService" for node in self.nodes)

    @property
    def leaving_workers(self) -> int:
        return sum(not node.is_head_node and node.state.startswith("Terminat") for node in self.nodes)

    @property
    def has_joined(self) -> bool:
        """Whether AWS reports that all nodes have joined."""
        workers = sum(not node.is_head_node for node in self.nodes) - self.workers_in_service
        return self.head_node_joined and self.workers_in_service == self.group.desired and workers == 0

    def __str__(self) -> str:
        parts = [
            f"head node {'joined' if self.head_node_joined else 'boots'}",
            f"{self.workers_in_service} of {self.group.desired} workers joined",
        ]
        leaving = [f"{self.leaving_workers} leaving"] if self.leaving_workers else []
        return ", ".join([*parts, *leaving, *([self.difference] if self.difference else [])])


def command(
    stack: options.Stack,
    minutes: options.Minutes = DEFAULT_MINUTES,
    identity: options.Identity = None,
    config_dir: options.ConfigDir = options.STACK_FILES,
    as_json: options.Json = False,
) -> int:
    """The cluster is ready when all desired nodes have joined and the head node's hostfile lists exactly these nodes.

    Without an SSH key in the stack, the verb checks only the status reported by AWS, and prints a note.
    """
    ready = wait_and_print_progress(DeployedEc2Cluster(stack, config_dir), minutes, identity)
    if as_json:
        head_node = next(node.id for node in ready.nodes if node.is_head_node)
        print_json({"ready": True, "workers": ready.workers_in_service, "master": head_node})
    return OK


def scale(
    size: Annotated[int, typer.Argument(metavar="N", help="Number of workers, from minSize to maxSize.")],
    stack: options.Stack,
    wait_for_nodes: Annotated[
        bool,
        typer.Option(
            "--wait/--no-wait", help="Wait until new workers have joined, removed ones are gone, and the hostfile is up to date."
        ),
    ] = True,
    minutes: options.Minutes = DEFAULT_MINUTES,
    identity: options.Identity = None,
    config_dir: options.ConfigDir = options.STACK_FILES,
    as_json: options.Json = False,
) -> int:
    """Later runs of `pulumi up` keep this size."""
    cluster = DeployedEc2Cluster(stack, config_dir)
    group = cluster.group()
    if not group.minimum <= size <= group.maximum:
        bound = "minSize" if size < group.minimum else "maxSize"
        fix = f"Use {group.minimum} to {group.maximum}, or change pools[0].{bound} and run `pulumi up -s {stack}`."
        raise CommandError(f"{size} is not between minSize and maxSize. {fix}", REFUSED)
    cluster.scale(size)
    if wait_for_nodes:
        wait_and_print_progress(cluster, minutes, identity)
    if as_json:
        print_json({"workers": size, "ready": wait_for_nodes})
    return OK


def wait_and_print_progress(cluster: DeployedEc2Cluster, minutes: float, identity: Path | None) -> Snapshot:
    """Wait until the cluster is ready, and print progress on stderr. Raises CommandError."""
    check_key_file_exists(identity)
    return wait_until_ready(cluster, minutes * 60, say, partial(hostfile_check.compare_hostfile, identity=identity))


def wait_until_ready(
    cluster: DeployedEc2Cluster,
    seconds: float,
    report: Callable[[str], None],
    look: Look,
    *,
    pause: Callable[[float], object] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> Snapshot:
    """Wait until the cluster is ready.

    Raises CommandError after `seconds`, or earlier if the cluster cannot become ready.
    """
    began, failures, last = clock(), _Failures(report), ""
    joined_since: float | None = None
    while True:
        snapshot = _read_snapshot(cluster)
        if snapshot.has_joined:
            snapshot = replace(snapshot, difference=find_hostfile_difference(cluster, snapshot, look, report))
        if str(snapshot) != last:
            last = str(snapshot)
            report(f"{clock() - began:4.0f} s: {last}")
        if snapshot.has_joined and not snapshot.difference:
            return snapshot
        failures.check(cluster, snapshot)
        now = clock()
        joined_since = (now if joined_since is None else joined_since) if snapshot.has_joined else None
        if joined_since is not None and now - joined_since > HOSTFILE_SECONDS:
            fix = f"`{program()} ssh -s {cluster.stack} -- systemctl status gpumpi-join` shows why"
            minutes = f"{HOSTFILE_SECONDS / 60:g}"
            raise CommandError(f"all nodes have joined, but after {minutes} minutes {snapshot.difference}; {fix}", FAILED)
        if now - began > seconds:
            raise CommandError(f"not ready after {seconds / 60:g} minutes: {snapshot}", FAILED)
        pause(POLL_SECONDS)


def find_hostfile_difference(cluster: DeployedEc2Cluster, snapshot: Snapshot, look: Look, report: Callable[[str], None]) -> str:
    """Return how the hostfile differs from the nodes. If the hostfile cannot be read, report why and return ""."""
    try:
        return look(cluster, snapshot.nodes)
    except Unseen as reason:
        report(f"the head node's hostfile was not checked: {reason}")
        return ""


def _read_snapshot(cluster: DeployedEc2Cluster) -> Snapshot:
    group, nodes = cluster.group(), cluster.nodes()
    head_node = next((node for node in nodes if node.is_head_node), None)
    joined = head_node is not None and head_node.state == "running" and cluster.read_notice(head_node) is not None
    return Snapshot(group, nodes, joined)


class _Failures:
    """Reports each failed boot and each failed launch once, and raises CommandError after too many failures."""

    def __init__(self, report: Callable[[str], None]) -> None:
        self._report = report
        self._seen: set[str] = set()
        self._reasons: dict[str, str] = {}
        """Maps each instance to the last reported reason why it has not joined yet."""
        self._is_first_check = True
        self._failed_workers = 0

    def check(self, cluster: DeployedEc2Cluster, snapshot: Snapshot) -> None:
        """Report failed boots, nodes that have not joined yet, and launches that failed during the wait.

        At the first call, ignore the boot logs of instances that no longer exist.
        """
        existing = {node.id for node in snapshot.nodes}
        for boot_log in cluster.read_boot_logs():
            if boot_log.instance_id in self._seen:
                continue
            self._seen.add(boot_log.instance_id)
            if self._is_first_check and boot_log.instance_id not in existing:
                continue  # this log is from an instance that was terminated before the wait began
            self._report(format_boot_log(boot_log))
            if any(node.is_head_node and node.id == boot_log.instance_id for node in snapshot.nodes):
                raise CommandError(f"the head node {boot_log.instance_id} could not boot; its log is above", FAILED)
            self._failed_workers += 1
            if self._failed_workers == MAX_FAILED_WORKERS:
                raise CommandError(f"{MAX_FAILED_WORKERS} workers could not join; their logs are above", FAILED)
        for waiting in cluster.read_waiting_reasons():
            if waiting.instance_id in existing and not self._is_already_reported(waiting):
                self._report(f"{waiting.instance_id} has not joined yet ({waiting.written}): {waiting.text.strip()}")
        for id, message in cluster.failed_launches().items():
            if id not in self._seen and not self._is_first_check:
                self._report(f"a launch failed: {message}")
            self._seen.add(id)
        self._is_first_check = False

    def _is_already_reported(self, waiting: BootLog) -> bool:
        """Return whether this reason was already reported for this node, and record it."""
        is_repeated = self._reasons.get(waiting.instance_id) == waiting.text
        self._reasons[waiting.instance_id] = waiting.text
        return is_repeated


def format_boot_log(boot_log: BootLog) -> str:
    lines = boot_log.text.splitlines()[-TAIL_LINES:]
    heading = f"{boot_log.instance_id} could not join ({boot_log.written}); the end of its log:"
    return "\n".join([heading, *(f"  | {line}" for line in lines)])
