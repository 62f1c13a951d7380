"""Divide the time of a job into six parts, based on the job's record. Performs no I/O.

If the record contains steps (`progress` of the job), the steps determine the part of each moment:

    starting      until the first step
    training      steps that were done for the first time, without checkpoints
    checkpointing what the program reported as the time of its checkpoints, while training
    recovering    from the last step of an attempt that failed to the first step of the next one
    lost          steps that an attempt repeats, because they came after the last checkpoint; also what comes after the last
                  step of a job that failed or was canceled

Without steps, the recorded phases determine the parts, and lost time counts as `training`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, Literal, get_args

from infra.platform.job_controller.in_pod.moments import parse_time
from infra.platform.job_controller.in_pod.phases import Phase

Part = Literal["queued", "starting", "training", "checkpointing", "lost", "recovering"]
PARTS: Final[tuple[Part, ...]] = get_args(Part)
PART_OF_PHASE: Final[Mapping[str, Part]] = {
    Phase.QUEUED: "queued",
    Phase.SETUP: "starting",
    Phase.STARTING: "starting",
    Phase.RUNNING: "training",
    Phase.RESTARTING: "recovering",
    Phase.ENDING: "recovering",  # the pods of a deleted job still hold their GPUs
}
Record = Mapping[str, Any]
Mark = tuple[datetime, Part]


@dataclass(frozen=True)
class Account:
    """Time of one or several jobs by part."""

    spent: Mapping[Part, timedelta]
    has_steps: bool
    """Whether the records of all jobs contain steps. Without steps, the lost time is unknown."""
    weighted: tuple[float, float]
    """Seconds of training and seconds outside the queue, each multiplied by the number of GPUs."""

    @property
    def wall_time(self) -> timedelta:
        return sum(self.spent.values(), timedelta())

    @property
    def goodput(self) -> float | None:
        """Training time as a share of the time outside the queue, weighted by GPUs; None before a job has left the queue."""
        useful, outside_queue = self.weighted
        return useful / outside_queue if outside_queue else None

    @property
    def goodput_percentage(self) -> str:
        """The goodput as text; empty before a job has left the queue."""
        return "" if self.goodput is None else f"{100 * self.goodput:.1f} %"

    @property
    def is_lost_time_unknown(self) -> bool:
        return not self.has_steps and not self.spent["lost"]


def compute_account(record: Record, now: datetime) -> Account:
    """Return the account of one job until its end or, while it runs, until now."""
    spent: dict[Part, timedelta] = dict.fromkeys(PARTS, timedelta())
    for phase, seconds in _sum_unlisted_seconds(record).items():
        spent[PART_OF_PHASE[phase]] += timedelta(seconds=seconds)
    marks = list(_list_marks(record))
    for phase, begin, end in _list_phases(record, now):
        for part, length in _split_phase(PART_OF_PHASE[phase], begin, end, marks):
            spent[part] += length
    saved = timedelta(milliseconds=sum(attempt["steps"]["savedMs"] for attempt in _list_attempts_with_steps(record)))
    saved = min(saved, spent["training"])
    spent["training"] -= saved
    spent["checkpointing"] += saved
    weight = _compute_weight(record)
    outside_queue = sum(spent.values(), timedelta()) - spent["queued"]
    weighted = (weight * spent["training"].total_seconds(), weight * outside_queue.total_seconds())
    return Account(spent, bool(_list_attempts_with_steps(record)), weighted)


def sum_accounts(accounts: Sequence[Account]) -> Account:
    spent = {part: sum((account.spent[part] for account in accounts), timedelta()) for part in PARTS}
    useful, outside_queue = (sum(account.weighted[index] for account in accounts) for index in (0, 1))
    return Account(spent, all(account.has_steps for account in accounts), (useful, outside_queue))


def _list_phases(record: Record, now: datetime) -> Iterator[tuple[str, datetime, datetime]]:
    """Yield each phase that the record lists, with its start and end."""
    for entry in record["phases"]:
        if entry["phase"] in PART_OF_PHASE:
            begin = parse_time(entry["from"])
            yield entry["phase"], begin, max(begin, parse_time(entry["to"]) if entry["to"] else now)


def _sum_unlisted_seconds(record: Record) -> dict[str, float]:
    """Return the seconds per phase that the record contains only as totals, not in its list of phases."""
    sums = {phase: float(seconds) for phase, seconds in record["seconds"].items() if phase in PART_OF_PHASE}
    for entry in record["phases"]:
        if entry["to"] and entry["phase"] in PART_OF_PHASE:
            length = (parse_time(entry["to"]) - parse_time(entry["from"])).total_seconds()
            sums[entry["phase"]] = sums.get(entry["phase"], 0.0) - length
    return sums


def _split_phase(usual: Part, begin: datetime, end: datetime, marks: Sequence[Mark]) -> Iterator[tuple[Part, timedelta]]:
    """Split a recorded phase at the times of the job's steps. Time before the first of them, or in the queue, counts
    as the phase's usual part."""
    current, since = usual, begin
    for when, part in marks if usual != "queued" else ():
        if when > since:
            until = min(when, end)
            yield current, until - since
            since = until
        current = part
    yield current, end - since


def _list_marks(record: Record) -> Iterator[Mark]:
    """Yield the start of each part that the steps indicate, in order. Corrects small clock differences between nodes
    and the controller.
    """
    latest = parse_time(record["created"])
    for when, part in _list_unordered_marks(record) if _list_attempts_with_steps(record) else ():
        latest = max(latest, when)
        yield latest, part


def _list_unordered_marks(record: Record) -> Iterator[Mark]:
    for attempt in record["attempts"]:
        goes_on = attempt is not record["attempts"][-1] or not record["ended"]
        failed = attempt["outcome"] not in (None, "Succeeded")
        yield parse_time(attempt["from"]), "starting" if attempt["number"] == 1 else "recovering"
        if steps := attempt.get("steps"):
            yield parse_time(steps["first"]["at"]), "lost"
            if steps["regained"]:
                yield parse_time(steps["regained"]), "training"
            if failed:
                yield parse_time(steps["last"]["at"]), "recovering" if goes_on else "lost"
        elif failed and goes_on:
            yield parse_time(attempt["to"]), "recovering"
        elif attempt["outcome"] == "Succeeded" and attempt["running"]:
            yield parse_time(attempt["running"]), "training"


def _list_attempts_with_steps(record: Record) -> list[Mapping[str, Any]]:
    return [attempt for attempt in record["attempts"] if attempt.get("steps")]


def _compute_weight(record: Record) -> int:
    """Return the job's number of GPUs, or of workers if it has no GPUs."""
    each = max((worker["gpus"] for worker in record["workers"]), default=0)
    return int(max(1, record.get("size", 1)) * (each or 1))
