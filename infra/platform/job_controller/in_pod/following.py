"""Steps of followed jobs that the jobs' records do not contain yet."""

from collections.abc import Collection
from dataclasses import dataclass, field

from . import progress, steps
from .api import Api
from .health import Heart
from .job import ManagedJob
from .logs import Logs, Source
from .progress import LOG_CHARACTERS, LOG_LINES, Seen
from .record import Record
from .steps import Step

MOST_STEPS = 2000
"""Steps per job to keep until they are recorded, which takes `progress.WRITE_SECONDS`: the first and the latest ones."""


@dataclass
class _Followed:
    source: Source
    steps: list[Step] = field(default_factory=list)
    tail: list[str] = field(default_factory=list)
    is_too_slow: bool = False


class Following:
    """Steps by job UID. Losing these steps is harmless: a new controller reads the logs again."""

    def __init__(self, api: Api) -> None:
        self._logs = Logs(api)
        self._followed: dict[str, _Followed] = {}

    def start(self) -> Heart:
        self._logs.start()
        return self._logs.heart

    def read_job_log(self, job: ManagedJob, record: Record) -> Seen | None:
        """Return what is known about the job's log. `record` is the stored record."""
        source, pattern = progress.find_log(record, job), progress.read_pattern(job)
        if source is None or pattern is None:
            self._followed.pop(job.uid, None)
            return None
        followed = self._followed.get(job.uid)
        if followed is None or followed.source.uid != source.uid:
            followed = self._followed[job.uid] = _Followed(source)
        new = self._logs.take(source)
        try:
            followed.steps += steps.find_steps(new.lines, pattern[0])
        except steps.TooSlow:
            followed.is_too_slow = True
        new_steps = [step for step in followed.steps if step.at > source.since]
        followed.steps = [*new_steps[:1], *new_steps[1:][1 - MOST_STEPS :]]
        followed.tail = [*followed.tail, *(steps.read_visible_part(text)[:LOG_CHARACTERS] for _, text in new.lines[-LOG_LINES:])][
            -LOG_LINES:
        ]
        return Seen(source.uid, tuple(followed.steps), tuple(followed.tail), new.complete, followed.is_too_slow)

    def end_round(self, jobs: Collection[str] | None = None) -> None:
        """Continue to read only the logs of the followed jobs. Forget jobs whose UID is not in `jobs`."""
        if jobs is not None:
            self._followed = {uid: followed for uid, followed in self._followed.items() if uid in jobs}
        self._logs.follow({uid: followed.source for uid, followed in self._followed.items()})

    def forget_job(self, uid: str) -> None:
        self._followed.pop(uid, None)
