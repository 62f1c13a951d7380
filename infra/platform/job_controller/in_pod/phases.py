"""Phases of a job: the only vocabulary for them, and the only function that computes one.

The job controller writes the phases into records; `jobs`, `status`, `logs --follow`, `goodput` and the dashboard show them.
"""

from dataclasses import dataclass
from enum import StrEnum


class Phase(StrEnum):
    """Phase of a job."""

    meaning: str
    is_final: bool

    def __new__(cls, name: str, meaning: str = "", is_final: bool = False) -> "Phase":
        phase = str.__new__(cls, name)
        phase._value_, phase.meaning, phase.is_final = name, meaning, is_final
        return phase

    QUEUED = "Queued", "The job waits in the queue, or is suspended. It holds no nodes."
    SETUP = "Setup", "`setup` runs. The ranks enter the queue after it has succeeded."
    STARTING = "Starting", "The ranks do not run yet: nodes join, images are pulled, or pods become ready."
    RUNNING = "Running", "All ranks run."
    RESTARTING = "Restarting", "An attempt has ended, and the ranks of the next one do not run yet."
    ENDING = "Ending", "The job was deleted, and its pods are still terminating."
    SUCCEEDED = "Succeeded", "The job has ended without an error.", True
    FAILED = "Failed", "The job has ended with an error, or the queue has stopped it.", True
    CANCELED = "Canceled", "The job was deleted before it ended. Only its record remains.", True


class Outcome(StrEnum):
    """How an attempt or `setup` ended."""

    SUCCEEDED, FAILED, DISRUPTED = "Succeeded", "Failed", "Disrupted"


INTERRUPTIONS = (Outcome.FAILED, Outcome.DISRUPTED)


@dataclass(frozen=True)
class Signs:
    """What a job's objects and its record show about its phase."""

    verdict: Phase | None = None
    """`Succeeded` or `Failed`, as reported by Kubernetes or the job's operator; None while the job has not ended."""
    is_deleted: bool = False
    is_in_setup: bool = False
    is_suspended: bool = False
    is_stopped: bool = False
    """Whether the queue has permanently stopped the job."""
    is_running: bool = False
    was_interrupted: bool = False
    """Whether an attempt has failed or was disrupted."""


def determine_phase(signs: Signs) -> Phase:
    """Return the phase of a job that exists.

    >>> determine_phase(Signs(is_suspended=True)), determine_phase(Signs(was_interrupted=True)).is_final
    (<Phase.QUEUED: 'Queued'>, False)
    """
    if signs.verdict is not None:
        return signs.verdict
    if signs.is_deleted:
        return Phase.ENDING
    if signs.is_in_setup:
        return Phase.SETUP
    if signs.is_suspended:
        return Phase.FAILED if signs.is_stopped else Phase.QUEUED
    if signs.is_running:
        return Phase.RUNNING
    return Phase.RESTARTING if signs.was_interrupted else Phase.STARTING


def render_phase_table() -> str:
    """Return the table of phases for docs/."""
    rows = [f"| `{phase}` | {phase.meaning} | {'yes' if phase.is_final else ''} |" for phase in Phase]
    return "\n".join(["| phase | meaning | final |", "|---|---|---|", *rows]) + "\n"
