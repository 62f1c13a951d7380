"""Output of `status` for given data from Kubernetes and AWS."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from rich.console import Console

from cli.clusters.status import hourly_price
from cli.clusters.status.cluster_status import PoolStatus, SpendingStatus, Status
from cli.clusters.status.node_rows import derive_pool_status, derive_queue_status, derive_volume_statuses
from cli.clusters.status.status_command import _watch_status
from cli.clusters.status.status_screen import render_status
from cli.ec2.failed_launches import FailedLaunch, find_last_failed_launch
from infra.config.stack_file import RawStack
from infra.jobs.cluster import NamespaceDescription, PoolDescription, TaintDescription, VolumeDescription

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
POOL = PoolDescription(
    name="train",
    instance_type="g5.8xlarge",
    gpus=4,
    slots=4,
    memory_mib=1,
    cpu_millis=1,
    max_size=3,
    labels={"gpumpi.io/pool": "train"},
    taints=(TaintDescription(key="nvidia.com/gpu", value="true"),),
)


def make_node(
    name: str, *, ready: bool = True, gpus: int = 4, pool: str = "train", taints: tuple[str, ...] = ()
) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "labels": {"gpumpi.io/pool": pool}},
        "spec": {"taints": [{"key": key, "effect": "NoSchedule"} for key in ("nvidia.com/gpu", *taints)]},
        "status": {"conditions": [{"type": "Ready", "status": str(ready)}], "allocatable": {"nvidia.com/gpu": str(gpus)}},
    }


def make_pod(on: str | None, *gpus: int, phase: str = "Running", before: int = 0) -> dict[str, Any]:
    asked = [{"resources": {"requests": {"nvidia.com/gpu": str(number)}}} for number in gpus]
    first = [{"resources": {"limits": {"nvidia.com/gpu": str(before)}}}] if before else []
    spec: dict[str, Any] = {"containers": [*asked, {}], "initContainers": first}
    return {"spec": spec | ({"nodeName": on} if on else {}), "status": {"phase": phase}}


def test_gpus_are_counted_on_ready_nodes_and_used_until_their_pod_ends() -> None:
    nodes = [make_node("a"), make_node("b", ready=False), make_node("c", pool="other")]
    pods = [
        make_pod("a", 1, 1),
        make_pod("a", 4, phase="Succeeded"),
        make_pod("a", 0, before=1),
        make_pod("c", 4),
        make_pod(None, 4),
    ]
    status = derive_pool_status(POOL, nodes, pods)
    assert (status.ready, status.nodes, status.gpus, status.gpus_used, status.problems) == (1, 2, 4, 3, ())


def test_ready_nodes_that_accept_no_jobs_are_reported() -> None:
    nodes = [make_node("a", taints=("node.kubernetes.io/unschedulable",)), make_node("b", gpus=3), make_node("c")]
    assert derive_pool_status(POOL, nodes, []).problems == (
        "1 node accepts no jobs: taint node.kubernetes.io/unschedulable",
        "ready nodes with fewer than 4 GPUs: 1, such as b; check its device plugin",
    )


def test_gpus_of_nodes_that_accept_no_jobs_are_not_free() -> None:
    nodes = [
        make_node("a"),
        make_node("b", taints=("gpumpi.dev/simulated",)),
        make_node("c", taints=("node.kubernetes.io/unschedulable",)),
    ]
    status = derive_pool_status(POOL, nodes, [make_pod("a", 1), make_pod("c", 2)])
    assert (status.ready, status.gpus, status.gpus_used, status.as_json(NOW)["gpusFree"]) == (3, 6, 3, 3)


def test_used_gpus_are_unknown_without_permission_to_list_pods() -> None:
    assert derive_pool_status(POOL, [make_node("a")], None).gpus_used is None


def make_workload(owner: str, *conditions: str, queue: str = "default", active: bool = True) -> dict[str, Any]:
    return {
        "metadata": {"ownerReferences": [{"uid": owner}]},
        "spec": {"queueName": queue, "active": active},
        "status": {"conditions": [{"type": condition, "status": "True"} for condition in conditions]},
    }


def test_queue_counts_admitted_and_waiting_jobs_without_file_transfer_pods() -> None:
    helper = {"metadata": {"uid": "files"}}
    admitted = [make_workload("a", "QuotaReserved"), make_workload("b", "QuotaReserved", "Admitted")]
    over = [make_workload("c", "QuotaReserved", "Admitted", "Finished"), make_workload("d", active=False)]
    uncounted = [make_workload("files", "QuotaReserved"), make_workload("files"), make_workload("e", queue="other")]
    status = derive_queue_status("mpi-jobs", "default", [*admitted, make_workload("f"), *over, *uncounted], [helper])
    assert (status.admitted, status.waiting) == (2, 1)


def test_missing_volume_claim_has_phase_missing() -> None:
    namespace = NamespaceDescription(name="jobs", volumes=(VolumeDescription(name="shared", claim="shared", mount_path="/s"),))
    assert [status.phase for status in derive_volume_statuses(namespace, [])] == ["Missing"]
    assert [status.phase for status in derive_volume_statuses(namespace, None)] == [""]


def make_activity(status: str, minutes: int, what: str = "Launching a new EC2 instance") -> dict[str, Any]:
    at = NOW - timedelta(minutes=minutes)
    return {"StatusCode": status, "Description": what, "StartTime": at, "StatusMessage": f"Refused\n{minutes} minutes ago."}


LAUNCHES = [
    ([], None),
    ([make_activity("Successful", 1)], None),
    ([make_activity("Failed", 1), make_activity("Failed", 2)], ("Refused 1 minutes ago.", False)),
    (
        [make_activity("InProgress", 0), make_activity("Successful", 1), make_activity("Failed", 2)],
        ("Refused 2 minutes ago.", True),
    ),
    (
        [make_activity("Failed", 1, "Terminating EC2 instance: i-1"), make_activity("Cancelled", 3)],
        ("Refused 3 minutes ago.", False),
    ),
    (
        [make_activity("Successful", 1, "Terminating EC2 instance: i-1"), make_activity("Failed", 3)],
        ("Refused 3 minutes ago.", False),
    ),
]


@pytest.mark.parametrize(("activities", "expected"), LAUNCHES, ids=map(str, range(len(LAUNCHES))))
def test_last_failed_launch_is_the_newest_and_is_resolved_by_a_later_success(
    activities: list[dict[str, Any]], expected: tuple[str, bool] | None
) -> None:
    launch = find_last_failed_launch(activities)
    assert (launch and (launch.reason, launch.later_launch_succeeded)) == expected


def render_status_text(status: Status) -> str:
    console = Console(width=160, record=True, file=open("/dev/null", "w"))  # noqa: SIM115, PTH123
    console.print(render_status(status, NOW))
    return console.export_text()


def test_pools_from_aws_and_kubernetes_are_merged_and_failed_queries_listed() -> None:
    launch = FailedLaunch(NOW - timedelta(minutes=5), "No capacity [us-west-2a].", False)
    aws = Status(
        "c", "eks", "ACTIVE", pools=(PoolStatus("train", wanted=3, max_size=3, last_failed_launch=launch), PoolStatus("new"))
    )
    kubernetes = Status("c", pools=(derive_pool_status(POOL, [make_node("a")], [make_pod("a", 1)]),), unknown=("queues",))
    merged = kubernetes.merge_with(aws)
    assert [(pool.name, pool.ready, pool.wanted, pool.instance_type) for pool in merged.pools] == [
        ("train", 1, 3, "g5.8xlarge"),
        ("new", None, None, ""),
    ]
    lines = render_status_text(merged).splitlines()
    assert lines[0].split() == ["c", "ACTIVE"]
    assert lines[3].split() == ["train", "g5.8xlarge", "1", "3", "1", "3", "?", "to", "3"]
    assert "train: last failed launch 5m0s ago: No capacity [us-west-2a]." in lines
    assert lines[-1] == "unknown: queues"


def test_watch_continues_after_a_failed_update(capsys: pytest.CaptureFixture[str]) -> None:
    from cli.errors import CommandError

    looks: Iterator[Status | BaseException] = iter(
        [Status("c", state="ACTIVE"), CommandError("no cluster answers", 5), KeyboardInterrupt()]
    )

    def next_status() -> tuple[Status, int]:
        outcome = next(looks)
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome, 0

    assert _watch_status(next_status, as_json=True, pause=lambda seconds: None) == 130
    first, second = capsys.readouterr().out.splitlines()
    assert '"unknown": []' in first and '"state": "ACTIVE"' in second and "current status: no cluster answers" in second


# --- spending -----------------------------------------------------------------------------------------------------------

RAW = RawStack("mine", "us-west-2", {"target": {"kind": "eks"}})
SPENT = SpendingStatus(Decimal("44.3"), NOW)


def test_the_spending_so_far_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hourly_price, "read_stack_spending", lambda _: SPENT)
    status, _ = hourly_price.add_spending(RAW, lambda: (Status("c"), 0))()
    assert "instances so far: 44.30 USD since 2026-11-21 12:00 UTC" in render_status_text(status)


def test_an_unknown_price_makes_the_spending_a_lower_bound() -> None:
    status = SpendingStatus(Decimal("44.3"), NOW, ("the on-demand price of p5e.48xlarge in us-west-2",))
    assert status.sentence() == (
        "instances so far: at least 44.30 USD since 2026-11-21 12:00 UTC; "
        "the on-demand price of p5e.48xlarge in us-west-2 is unknown"
    )
    assert status.as_json()["usd"] is None


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((), ("spending so far: no credentials found",)),
        (("failed launches: no credentials found",), ("failed launches: no credentials found",)),
    ],
)
def test_reason_already_shown_is_not_repeated(
    before: tuple[str, ...], after: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hourly_price, "read_stack_spending", lambda _: "no credentials found")
    status, _ = hourly_price.add_spending(RAW, lambda: (Status("c", unknown=before), 0))()
    assert status.unknown == after


def test_watch_reads_the_spending_once_per_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[RawStack] = []

    def read_spending(raw: RawStack) -> SpendingStatus:
        reads.append(raw)
        return SPENT

    monkeypatch.setattr(hourly_price, "read_stack_spending", read_spending)
    moments = iter([0, 30, 60, 60])
    look = hourly_price.add_spending(RAW, lambda: (Status("c"), 0), lambda: next(moments))
    assert [look()[0].spending for _ in range(3)] == [SPENT] * 3
    assert len(reads) == 2
