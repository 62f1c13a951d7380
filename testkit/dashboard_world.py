"""A sample cluster for the dashboard's tests and screenshots, with data for every part of the page."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Any, Final

from cli.clusters.dashboard.page_data import Seen
from cli.clusters.status.cluster_status import JobLine, PoolStatus, QueueStatus, Status
from cli.ec2.failed_launches import FailedLaunch
from cli.jobs.records import JobRecord
from cli.jobs.state import JobState
from cli.nodes.health.node_health import Fault, NodeHealth
from cli.stacks.cost.spending import Spending, Spent
from infra.health.annotation import TakenOut
from infra.platform.job_controller.in_pod.phases import Phase

NOW: Final = datetime(2026, 11, 23, 12, tzinfo=UTC)
NAMESPACE: Final = "mpi-jobs"


def compute_minutes_ago(minutes: float) -> datetime:
    return NOW - timedelta(minutes=minutes)


def format_minutes_ago(minutes: float) -> str:
    return compute_minutes_ago(minutes).isoformat().replace("+00:00", "Z")


def make_job_line(name: str, workers: int, phase: str, minutes: float, waits_for: str = "") -> JobLine:
    state = JobState(
        name, NAMESPACE, "MPIJob", name, "mpijob", "train", workers, Phase(phase), "", 0, compute_minutes_ago(minutes), None
    )
    return JobLine(state, waits_for)


def is_over(phases: Sequence[tuple[str, float]]) -> bool:
    return phases[-1][0] in ("Succeeded", "Failed", "Canceled")


def make_progress(first: tuple[int, float], last: tuple[int, float], regained: float, saved_minutes: float = 0) -> dict[str, Any]:
    """Return the progress of an attempt. `first` and `last` are steps: (step number, minutes since the step).

    `regained` is the number of minutes since the attempt completed its first new step.
    """
    (begin, at), (end, until) = first, last
    return {
        "goal": None,
        "first": {"step": begin, "at": format_minutes_ago(at)},
        "last": {"step": end, "at": format_minutes_ago(until)},
        "highest": end,
        "regained": format_minutes_ago(regained),
        "savedMs": int(saved_minutes * 60_000),
        "until": format_minutes_ago(until),
    }


def make_attempts(
    phases: Sequence[tuple[str, float]], causes: Sequence[str], steps: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Return the attempts of a job. All attempts before the last one have failed, and so has the last one if the job
    failed."""
    running = [minutes for phase, minutes in phases if phase == "Running"]
    ends = [minutes for phase, minutes in phases if phase in ("Restarting", "Succeeded", "Failed")]
    begun = [minutes for phase, minutes in phases if phase == "Starting"] + [end - 0.5 for end in ends]
    rows = []
    for number, minutes in enumerate(running, 1):
        cause = causes[number - 1] if number <= len(causes) else ""
        is_hang = cause.startswith("hang: ")
        outcome = "Failed" if cause else "Succeeded" if phases[-1][0] == "Succeeded" else None
        rows.append(
            {
                "number": number,
                "from": format_minutes_ago(begun[number - 1]),
                "running": format_minutes_ago(minutes),
                "to": format_minutes_ago(ends[number - 1]) if outcome else None,
                "outcome": outcome,
                "cause": cause,
                **({"steps": steps[number - 1]} if steps else {}),
                **({"hang": {"at": format_minutes_ago(ends[number - 1]), "step": 0, "log": []}} if is_hang else {}),
            }
        )
    return rows


def make_record(
    name: str,
    phases: Sequence[tuple[str, float]],
    *,
    workers: int = 2,
    causes: Sequence[str] = (),
    reason: str = "",
    steps: Sequence[Mapping[str, Any]] = (),
) -> JobRecord:
    """Return the record of a job.

    `phases` lists the job's phases as (phase, minutes since the phase began). `steps` lists the progress of the job's
    attempts.
    """
    over = is_over(phases)
    ends = [format_minutes_ago(minutes) for _, minutes in phases[1:]] + [format_minutes_ago(phases[-1][1]) if over else None]
    seconds: dict[str, float] = {}
    for (phase, begin), (_, end) in pairwise(phases):
        seconds[phase] = seconds.get(phase, 0.0) + (begin - end) * 60
    begun = next((minutes for phase, minutes in phases if phase == "Running"), None)
    worker = {
        "pod": f"{name}-worker-0",
        "node": "one",
        "from": format_minutes_ago(begun or 0),
        "to": ends[-1],
        "gpus": 8 * workers,
    }
    gpu_seconds = (begun - phases[-1][1]) * 60 * 8 * workers if over and begun is not None else 0.0
    content: Mapping[str, Any] = {
        "version": 1,
        "namespace": NAMESPACE,
        "name": name,
        "created": format_minutes_ago(phases[0][1]),
        "pool": "train",
        "launcher": "mpijob",
        "size": workers,
        "phase": phases[-1][0],
        "phases": [
            {"phase": phase, "from": format_minutes_ago(at), "to": end} for (phase, at), end in zip(phases, ends, strict=True)
        ],
        "seconds": seconds,
        "ended": ends[-1],
        "reason": reason,
        "restarts": sum(phase == "Restarting" for phase, _ in phases),
        "failures": len(causes),
        "attempts": make_attempts(phases, causes, steps),
        "workers": [] if begun is None else [worker],
        "gpuSeconds": gpu_seconds,
    }
    return JobRecord(f"{name}-record", content)


LOST: Final = "llm-pretrain-worker-1: its node ip-10-0-1-17.us-west-2.compute.internal is not ready"
BUS: Final = "NVRM: Xid (PCI:0000:10:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus"
HANG: Final = "hang: no new step for 630 s after step 8120"
QUOTA: Final = "waits in the queue: insufficient unused quota for nvidia.com/gpu in flavor train, 8 more needed"
RECORDS: Final = (
    make_record(
        "llm-pretrain",
        [("Queued", 192), ("Starting", 185), ("Running", 176), ("Restarting", 61), ("Running", 55)],
        causes=[LOST],
        steps=[make_progress((0, 174), (28_790, 62), 174, 6), make_progress((27_700, 53), (41_250, 0.1), 48.7, 3)],
    ),
    make_record("allreduce-bench", [("Queued", 5), ("Starting", 4.9), ("Running", 4)], workers=1),
    make_record("mnist", [("Queued", 1)]),
    make_record(
        "resnet-a",
        [("Queued", 400), ("Starting", 399), ("Running", 395), ("Restarting", 310), ("Running", 307), ("Succeeded", 220)],
        causes=[HANG],
        steps=[make_progress((0, 392), (8_120, 320.5), 392), make_progress((8_000, 306), (18_000, 221), 305)],
    ),
    make_record(
        "resnet-b",
        [("Queued", 300), ("Starting", 299), ("Running", 297), ("Failed", 290)],
        causes=["resnet-b-launcher-1: exit code 1"],
        reason="BackoffLimitExceeded: Job has reached the specified backoff limit",
    ),
)


def make_node(number: int, pool: str = "train", instance_type: str = "p5.48xlarge", whole: int = 8, **more: Any) -> NodeHealth:
    return NodeHealth(
        name=f"ip-10-0-1-{number}.us-west-2.compute.internal",
        pool=pool,
        instance=f"i-0{number:016x}",
        instance_type=instance_type,
        **{"state": "healthy", "gpus": (whole, whole), **more},
    )


NODES: Final = (
    make_node(3, "system", "m7i.large", 0),
    make_node(4, "system", "m7i.large", 0),
    *(make_node(number, jobs=(f"{NAMESPACE}/llm-pretrain",)) for number in (15, 16)),
    make_node(
        17,
        state="repairing",
        is_cordoned=True,
        gpus=(7, 8),
        faults=(Fault("AcceleratedHardwareReady", "NvidiaXID79Error", BUS, compute_minutes_ago(3)),),
        taken_out=TakenOut(
            compute_minutes_ago(3), "AcceleratedHardwareReady", "NvidiaXID79Error", "replace", "repairing", compute_minutes_ago(3)
        ),
        next="the autoscaler removes it (pools with `minSize: 0`), or EKS repairs it 10 min after the fault",
    ),
    make_node(
        18,
        jobs=(f"{NAMESPACE}/allreduce-bench",),
        warnings=(Fault("AcceleratedHardwareReady", "NvidiaXID31Warning", "NVRM: Xid 31, MMU fault", compute_minutes_ago(22)),),
        next="the node is fine: the application caused it",
    ),
)
LAUNCH: Final = FailedLaunch(
    compute_minutes_ago(3), "InsufficientInstanceCapacity: not enough g6.8xlarge in us-west-2b", later_launch_succeeded=False
)
STATUS: Final = Status(
    "gpumpi-mine",
    "eks",
    "ACTIVE",
    "1.35",
    "https://0123456789ABCDEF.gr7.us-west-2.eks.amazonaws.com",
    pools=(
        PoolStatus("system", "m7i.large", ready=2, nodes=2, wanted=2, min_size=1, max_size=3, gpus=0, gpus_used=0),
        PoolStatus("train", "p5.48xlarge", ready=4, nodes=4, wanted=4, min_size=0, max_size=4, gpus=24, gpus_used=24),
        PoolStatus(
            "spare",
            "g6.8xlarge",
            ready=0,
            nodes=0,
            wanted=1,
            min_size=0,
            max_size=8,
            gpus=0,
            gpus_used=0,
            last_failed_launch=LAUNCH,
        ),
    ),
    queues=(QueueStatus(NAMESPACE, "default", admitted=2, waiting=1),),
    jobs=(
        make_job_line("llm-pretrain", 2, "Running", 192),
        make_job_line("allreduce-bench", 1, "Running", 5),
        make_job_line("mnist", 2, "Queued", 1, QUOTA),
    ),
    ended={"Succeeded": 7, "Failed": 1},
)


def _make_spending(usd: str, hours: str, gpus: int) -> Spent:
    return Spent(Decimal(usd), Decimal(hours), Decimal(hours) * gpus)


SPENDING: Final = Spending(
    since=compute_minutes_ago(60 * 27),
    until=NOW,
    total=Spent(Decimal("1312.40"), Decimal("78.10"), Decimal("192.80")),
    pools={"system": _make_spending("5.44", "54.00", 0), "train": _make_spending("1306.96", "24.10", 8)},
    namespaces={NAMESPACE: _make_spending("1180.02", "21.76", 8)},
    idle_gpu_hours={"train": Decimal("18.72")},
)
SEEN: Final = Seen(NOW, STATUS, NODES, RECORDS, SPENDING)
