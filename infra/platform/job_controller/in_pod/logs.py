"""Reads the logs of jobs with `progress` in a separate thread, because the kubelet of a lost node does not answer."""

import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from . import moments, steps
from .api import Api, ApiError, Unreachable

READ_SECONDS = 5.0
CHUNK_BYTES, CHUNKS = 1 << 19, 4
"""Size of a request, and requests per log and round. If a job prints more, the controller falls behind, and cannot
detect that the job hangs.
"""
LINES_WAITING = 50_000
"""Maximum number of lines to keep per log until they are processed. Only the leader processes them."""


@dataclass(frozen=True)
class Source:
    """The container that writes a job's log."""

    namespace: str
    pod: str
    uid: str
    container: str
    since: str
    """Time of the last known line."""


@dataclass(frozen=True)
class NewLines:
    """Lines of a log that were read since the last `take`."""

    lines: steps.Lines
    complete: str
    """Time at which the reader last reached the end of the log; empty before that."""


@dataclass
class _Reading:
    source: Source
    last: str
    lines: list[tuple[str, str]] = field(default_factory=list)
    complete: str = ""


class Logs(threading.Thread):
    """Logs of the jobs that the controller follows."""

    def __init__(self, api: Api) -> None:
        super().__init__(daemon=True, name="logs")
        self._api, self._lock = api.copy(), threading.Lock()
        self._readings: dict[str, _Reading] = {}

    def follow(self, sources: Mapping[str, Source]) -> None:
        """From now on, read only the logs of these jobs, by job UID."""
        with self._lock:
            known, self._readings = self._readings, {}
            for job, source in sources.items():
                found = known.get(job)
                is_same = found is not None and found.source.uid == source.uid
                self._readings[job] = found if found and is_same else _Reading(source, source.since)

    def take(self, source: Source) -> NewLines:
        """Return what was read since the last call."""
        with self._lock:
            found = next((one for one in self._readings.values() if one.source.uid == source.uid), None)
            if found is None:
                return NewLines((), "")
            lines, found.lines = found.lines, []
            return NewLines(lines, found.complete)

    def run(self) -> None:
        while True:
            with self._lock:
                found = list(self._readings.values())
            for one in found:
                if len(one.lines) < LINES_WAITING:
                    self._read(one)
            time.sleep(READ_SECONDS)

    def _read(self, reading: _Reading) -> None:
        for _ in range(CHUNKS):
            now = moments.write(datetime.now(UTC))
            try:
                lines, is_whole = self._chunk(reading.source, reading.last)
            except (ApiError, Unreachable) as error:
                if (
                    not isinstance(error, ApiError) or error.status >= 500
                ):  # otherwise the container has not started, or no longer exists
                    print(f"log of {reading.source.namespace}/{reading.source.pod}: {error}", file=sys.stderr, flush=True)
                return
            with self._lock:
                reading.lines += lines
                reading.last = lines[-1][0] if lines else reading.last if is_whole else _next_second(reading.last)
                if is_whole:
                    reading.complete = now
                    return

    def _chunk(self, source: Source, last: str) -> tuple[list[tuple[str, str]], bool]:
        """Return the lines after a time, and whether there are no more."""
        query = {"container": source.container, "timestamps": "true", "limitBytes": str(CHUNK_BYTES)}
        if last:
            query["sinceTime"] = moments.write(moments.read(last))
        content = self._api.content(f"api/v1/namespaces/{source.namespace}/pods/{source.pod}/log", query)
        lines = [one for one in steps.split(content.decode(errors="replace")) if one[0] > last]
        return lines, len(content) < CHUNK_BYTES


def _next_second(last: str) -> str:
    """Return the next second: the API accepts only whole seconds, and this second has more lines than a chunk."""
    when = moments.read(last or moments.EPOCH) + timedelta(seconds=1)
    return moments.exact(moments.write(when)) or ""
