"""Divide the time of a job among six phases, based on the job's record. Pure.

If the record contains steps (`progress` of the job), the steps determine the phase of each moment:

    starting      until the first step
    training      steps that were done for the first time, without checkpoints
    checkpointing what the program reported as the time of its checkpoints, while training
    recovering    from the last step of an attempt that failed to the first step of the next one
    lost          steps that an attempt repeats, because they came after the last checkpoint; also what comes after the last
                  step of a job that failed or was canceled

Without steps, the controller's phases decide, and lost time is part of `training`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, Literal

from cli.jobs.times import moment

Phase = Literal["queued", "starting", "training", "checkpointing", "lost", "recovering"]
PHASES: Final[tuple[Phase, ...]] = ("queued", "starting", "training", "checkpointing", "lost", "recovering")

OF_RECORD: Final[Mapping[str, Phase]] = {
    "Queued": "queued",
    "Setup": "starting",
    "Starting": "starting",
    "Running": "training",
    "Restarting": "recovering",
}
Record = Mapping[str, Any]
Mark = tuple[datetime, Phase]


@dataclass(frozen=True)
class Account:
    """Time of one or several jobs by phase."""

    spent: Mapping[Phase, timedelta]
    has_steps: bool
    """Whether the records of all jobs contain steps. Without steps, the lost time is unknown."""
    weighted: tuple[float, float]
    """Seconds of training and outside the queue, each multiplied by the number of GPUs."""

    @property
    def wall(self) -> timedelta:
        return sum(self.spent.values(), timedelta())

    @property
    def goodput(self) -> float | None:
        """Training time as a share of the time outside the queue, weighted by GPUs; None before a job has left the queue."""
        useful, held = self.weighted
        return useful / held if held else None

    @property
    def share(self) -> str:
        """The goodput as text; empty before a job has left the queue."""
        return "" if self.goodput is None else f"{100 * self.goodput:.1f} %"

    @property
    def lost_is_unknown(self) -> bool:
        return not self.has_steps and not self.spent["lost"]


def of_job(record: Record, now: datetime) -> Account:
    """Return the account of one job until its end or, while it runs, until now."""
    spent: dict[Phase, timedelta] = dict.fromkeys(PHASES, timedelta())
    for phase, seconds in _dropped(record).items():
        spent[OF_RECORD[phase]] += timedelta(seconds=seconds)
    marks = list(_marks(record))
    for one, begin, end in _kept(record, now):
        for phase, part in _parts(OF_RECORD[one], begin, end, marks):
            spent[phase] += part
    saved = timedelta(milliseconds=sum(one["steps"]["savedMs"] for one in _with_steps(record)))
    saved = min(saved, spent["training"])
    spent["training"] -= saved
    spent["checkpointing"] += saved
    weight = _weight(record)
    held = sum(spent.values(), timedelta()) - spent["queued"]
    weighted = (weight * spent["training"].total_seconds(), weight * held.total_seconds())
    return Account(spent, bool(_with_steps(record)), weighted)


def total(accounts: Sequence[Account]) -> Account:
    spent = {phase: sum((one.spent[phase] for one in accounts), timedelta()) for phase in PHASES}
    useful, held = (sum(one.weighted[index] for one in accounts) for index in (0, 1))
    return Account(spent, all(one.has_steps for one in accounts), (useful, held))


def _kept(record: Record, now: datetime) -> Iterator[tuple[str, datetime, datetime]]:
    """Yield each phase that the record lists, with its start and end."""
    for one in record["phases"]:
        if one["phase"] in OF_RECORD:
            begin = moment(one["from"])
            yield one["phase"], begin, max(begin, moment(one["to"]) if one["to"] else now)


def _dropped(record: Record) -> dict[str, float]:
    """Return the seconds per phase that the record contains only in its sums, not in its list of phases."""
    sums = {phase: float(seconds) for phase, seconds in record["seconds"].items() if phase in OF_RECORD}
    for one in record["phases"]:
        if one["to"] and one["phase"] in OF_RECORD:
            length = (moment(one["to"]) - moment(one["from"])).total_seconds()
            sums[one["phase"]] = sums.get(one["phase"], 0.0) - length
    return sums


def _parts(usual: Phase, begin: datetime, end: datetime, marks: Sequence[Mark]) -> Iterator[tuple[Phase, timedelta]]:
    """Split a recorded phase at the marks. Time before the first mark or in the queue keeps the recorded phase."""
    current, since = usual, begin
    for when, phase in marks if usual != "queued" else ():
        if when > since:
            until = min(when, end)
            yield current, until - since
            since = until
        current = phase
    yield current, end - since


def _marks(record: Record) -> Iterator[Mark]:
    """Yield the starts of the phases that the steps indicate, in order. Corrects small clock differences between nodes
    and the controller.
    """
    latest = moment(record["created"])
    for when, phase in _unordered(record) if _with_steps(record) else ():
        latest = max(latest, when)
        yield latest, phase


def _unordered(record: Record) -> Iterator[Mark]:
    for one in record["attempts"]:
        goes_on = one is not record["attempts"][-1] or not record["ended"]
        failed = one["outcome"] not in (None, "Succeeded")
        yield moment(one["from"]), "starting" if one["number"] == 1 else "recovering"
        if steps := one.get("steps"):
            yield moment(steps["first"]["at"]), "lost"
            if steps["regained"]:
                yield moment(steps["regained"]), "training"
            if failed:
                yield moment(steps["last"]["at"]), "recovering" if goes_on else "lost"
        elif failed and goes_on:
            yield moment(one["to"]), "recovering"
        elif one["outcome"] == "Succeeded" and one["running"]:
            yield moment(one["running"]), "training"


def _with_steps(record: Record) -> list[Mapping[str, Any]]:
    return [one for one in record["attempts"] if one.get("steps")]


def _weight(record: Record) -> int:
    """Return the job's number of GPUs, or of workers if it has no GPUs."""
    each = max((one["gpus"] for one in record["workers"]), default=0)
    return int(max(1, record.get("size", 1)) * (each or 1))
