"""Divide the time of a job into six parts, based on the job's record. Pure.

If the record contains steps (`progress` of the job), the steps determine the part of each moment:

    starting      until the first step
    training      steps that were done for the first time, without checkpoints
    checkpointing what the program reported as the time of its checkpoints, while training
    recovering    from the last step of an attempt that failed to the first step of the next one
    lost          steps that an attempt repeats, because they came after the last checkpoint; also what comes after the last
                  step of a job that failed or was canceled

Without steps, the phases in the record decide, and lost time belongs to `training`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, Literal, get_args

from cli.jobs.times import moment
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
    spent: dict[Part, timedelta] = dict.fromkeys(PARTS, timedelta())
    for phase, seconds in _dropped(record).items():
        spent[PART_OF_PHASE[phase]] += timedelta(seconds=seconds)
    marks = list(_marks(record))
    for phase, begin, end in _listed(record, now):
        for part, length in _parts(PART_OF_PHASE[phase], begin, end, marks):
            spent[part] += length
    saved = timedelta(milliseconds=sum(one["steps"]["savedMs"] for one in _with_steps(record)))
    saved = min(saved, spent["training"])
    spent["training"] -= saved
    spent["checkpointing"] += saved
    weight = _weight(record)
    held = sum(spent.values(), timedelta()) - spent["queued"]
    weighted = (weight * spent["training"].total_seconds(), weight * held.total_seconds())
    return Account(spent, bool(_with_steps(record)), weighted)


def total(accounts: Sequence[Account]) -> Account:
    spent = {part: sum((one.spent[part] for one in accounts), timedelta()) for part in PARTS}
    useful, held = (sum(one.weighted[index] for one in accounts) for index in (0, 1))
    return Account(spent, all(one.has_steps for one in accounts), (useful, held))


def _listed(record: Record, now: datetime) -> Iterator[tuple[str, datetime, datetime]]:
    """Yield each phase that the record lists, with its start and end."""
    for one in record["phases"]:
        if one["phase"] in PART_OF_PHASE:
            begin = moment(one["from"])
            yield one["phase"], begin, max(begin, moment(one["to"]) if one["to"] else now)


def _dropped(record: Record) -> dict[str, float]:
    """Return the seconds per phase that the record contains only in its sums, not in its list of phases."""
    sums = {phase: float(seconds) for phase, seconds in record["seconds"].items() if phase in PART_OF_PHASE}
    for one in record["phases"]:
        if one["to"] and one["phase"] in PART_OF_PHASE:
            length = (moment(one["to"]) - moment(one["from"])).total_seconds()
            sums[one["phase"]] = sums.get(one["phase"], 0.0) - length
    return sums


def _parts(usual: Part, begin: datetime, end: datetime, marks: Sequence[Mark]) -> Iterator[tuple[Part, timedelta]]:
    """Split a recorded phase at the marks. Time before the first mark, or in the queue, is the phase's usual part."""
    current, since = usual, begin
    for when, part in marks if usual != "queued" else ():
        if when > since:
            until = min(when, end)
            yield current, until - since
            since = until
        current = part
    yield current, end - since


def _marks(record: Record) -> Iterator[Mark]:
    """Yield the starts of the parts that the steps indicate, in order. Corrects small clock differences between nodes
    and the controller.
    """
    latest = moment(record["created"])
    for when, part in _unordered(record) if _with_steps(record) else ():
        latest = max(latest, when)
        yield latest, part


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
