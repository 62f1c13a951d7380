"""Faults to measure: how each one starts, how its node is repaired, and the target times."""

import io
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from typing import Any, Final

from bench.heal.seen import BACK, CORDONED, DOWN, NEW_NODE, NOTICED, REPORTED, TOLD
from bench.timed_job import Bench
from cli.local import faults
from infra.health.faults import GPU_CONDITION, READY
from localcloud.aws.ec2.notices import INTERRUPTION
from testkit.projects import create_client

Act = Callable[[Bench, str], None]
"""Function that breaks or repairs a node, or hangs a rank of the job."""

JOB: Final = "bench-heal"
NEXT: Final = "next step"
LOST: Final = "steps done twice"
WITHIN_SECONDS: Final = 30
"""The job's `progress.within`, set to the smallest value that is allowed."""
SAVED: Final = 5
"""Steps between checkpoints."""
FAST: Final = {REPORTED: 5.0, CORDONED: 5.5, NEXT: 65.0, LOST: SAVED}
NOTICE: Final = {CORDONED: 5.0, NEXT: 65.0, LOST: SAVED}
SLOW: Final = {REPORTED: 30.0, CORDONED: 30.5, NEXT: 90.0, LOST: SAVED}
HUNG: Final = {NOTICED: 2.0 * WITHIN_SECONDS, DOWN: 2.0 * WITHIN_SECONDS + 30, LOST: SAVED}
STAGES: Final = (REPORTED, CORDONED, NOTICED, TOLD, DOWN, NEW_NODE, NEXT, BACK, LOST)


@dataclass(frozen=True)
class Fault:
    """A fault to measure, and how the broken node is repaired."""

    title: str
    break_it: Act
    condition: str = READY
    """Node condition that reports the fault."""
    repair: Act | None = None
    workers: int = 1
    """Number of workers, each on its own node. With one worker, the other node is a spare; with two, there is no spare.
    """
    goals: Mapping[str, float] = field(default_factory=lambda: FAST)
    is_hang: bool = False


def inject_fault(target: str, bench: Bench, **options: Any) -> None:
    with redirect_stdout(io.StringIO()):
        faults.command(target, home=bench.shell.cloud.folder, as_json=True, **options)


def _make_fault(**options: Any) -> Act:
    return lambda bench, node: inject_fault(node, bench, **options)


def _hang_rank(bench: Bench, _: str) -> None:
    inject_fault(JOB, bench, hang=0)


def end_spot_notice(bench: Bench, _: str) -> None:
    """Advance the local cloud's clock to the time when EC2 terminates the interrupted instance."""
    bench.shell.cloud.control().post("clock", {"seconds": INTERRUPTION.total_seconds()})


def reboot_node(bench: Bench, node: str) -> None:
    (node_object,) = [candidate for candidate in bench.client.list("Node") if candidate["metadata"]["name"] == node]
    instance = node_object["spec"]["providerID"].rpartition("/")[2]
    create_client(bench.shell.cloud, "ec2").reboot_instances(InstanceIds=[instance])


FAULTS: Final = {
    "xid": Fault("a GPU falls off the bus (Xid 79)", _make_fault(xid=79), GPU_CONDITION, reboot_node),
    "ecc": Fault("a GPU has a double-bit error (Xid 48)", _make_fault(ecc=True), GPU_CONDITION, reboot_node),
    "instance": Fault("the instance is terminated", _make_fault(instance=True)),
    "no-spare": Fault("the instance is terminated, and there is no spare node", _make_fault(instance=True), workers=2),
    "notice": Fault("a Spot Instance gets its notice", _make_fault(spot_notice=True), repair=end_spot_notice, goals=NOTICE),
    "link": Fault("the network link fails", _make_fault(link=True), repair=_make_fault(restore=True), goals=SLOW),
    "kubelet": Fault("the kubelet stops", _make_fault(kubelet=True), repair=_make_fault(restore=True), goals=SLOW),
    "hang": Fault(f"a rank hangs; progress.within is {WITHIN_SECONDS} s", _hang_rank, goals=HUNG, is_hang=True),
}
