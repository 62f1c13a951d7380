"""Reads the logs of jobs with `progress` in a separate thread, because the kubelet of a lost node does not answer."""

import http.client
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from . import moments, steps
from .api import Api, ApiError, build_resource_path
from .health import Heart

READ_SECONDS = 5.0
CHUNK_BYTES, CHUNKS = 1 << 19, 4
"""Size of a request, and requests per log and round. If a job prints more, the controller falls behind, and cannot
detect that the job hangs.
"""
WAITING, ALL_WAITING = 1 << 21, 1 << 24
"""Maximum number of characters to keep per log and in total until they are processed. A log over the limit is read on once
its lines have been processed; until then, the controller cannot detect that its job hangs."""
LINE_OVERHEAD = 200
"""Memory of a line in addition to its text, in characters."""
LONG_LINE = 1 << 12
"""Number of characters of a line that the container runtime may have written in parts: containerd writes parts of 16 KiB,
and a character has up to 4 bytes. The time of such a line is the time of its first part."""


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
    part: tuple[str, int] = ("", 0)
    """Time of the last line if it has no line feed yet, and how many of its characters are in `lines`."""

    @property
    def size(self) -> int:
        return sum(len(text) + LINE_OVERHEAD for _, text in self.lines)

    def add(self, lines: steps.Lines) -> None:
        """Add complete lines. Whether a long line ended after the log was last read to its end."""
        read_until = moments.parse_exact_time(self.complete) or ""
        self.lines += [(max(at, read_until) if len(text) >= LONG_LINE else at, text) for at, text in lines]

    def add_partial_line(self, at: str, text: str, now: str) -> None:
        """Add the new characters of the log's last line: a program may print only carriage returns for hours."""
        begin, length = at or self.last, self.part[1] if self.part[0] == (at or self.last) else 0
        if len(text) > length:
            self.lines.append((max(begin, moments.parse_exact_time(self.complete or now) or ""), text[length:]))
        self.part = begin, len(text)

    @property
    def resume_time(self) -> str:
        """Time from which to continue if a whole chunk contains no new line: after this second, which has more lines
        than a chunk, or after the part of a line that was already read. The API accepts only whole seconds."""
        following = moments.parse_time(self.last or moments.EPOCH) + timedelta(seconds=1)
        return max(moments.parse_exact_time(moments.format_time(following)) or "", moments.parse_exact_time(self.complete) or "")


class Logs(threading.Thread):
    """Logs of the jobs that the controller follows."""

    def __init__(self, api: Api) -> None:
        super().__init__(daemon=True, name="logs")
        self._api, self._lock, self.heart = api.copy(), threading.Lock(), Heart()
        self._readings: dict[str, _Reading] = {}
        self._turn = 0
        """Position of the log that is read next."""

    def follow(self, sources: Mapping[str, Source]) -> None:
        """From now on, read only the logs of these jobs, by job UID."""
        with self._lock:
            former, self._readings = self._readings, {}
            for job, source in sources.items():
                reading = former.get(job)
                is_same = reading is not None and reading.source.uid == source.uid
                self._readings[job] = reading if reading and is_same else _Reading(source, source.since)

    def take(self, source: Source) -> NewLines:
        """Return what was read since the last call."""
        with self._lock:
            reading = next((candidate for candidate in self._readings.values() if candidate.source.uid == source.uid), None)
            if reading is None:
                return NewLines((), "")
            lines, reading.lines = reading.lines, []
            return NewLines(lines, reading.complete)

    def run(self) -> None:
        while True:
            self.heart.beat()
            self.read_all()
            time.sleep(READ_SECONDS)

    def read_all(self) -> None:
        """Read all logs while there is memory for their lines. The next call begins with the logs that got none."""
        with self._lock:
            readings = list(self._readings.values())
        self._turn = self._turn % len(readings) if readings else 0
        waiting = sum(reading.size for reading in readings)
        for reading in [*readings[self._turn :], *readings[: self._turn]]:
            if waiting >= ALL_WAITING:
                return
            before = reading.size
            if before < WAITING:
                self._try_to_read(reading)
                waiting += reading.size - before
            self._turn += 1
            self.heart.beat()

    def _try_to_read(self, reading: _Reading) -> None:
        """Read a log. Whatever a log contains, the other logs are read too."""
        try:
            self._read_log(reading)
        except Exception as error:
            if isinstance(error, ApiError) and error.status < http.client.INTERNAL_SERVER_ERROR:
                return  # the container has not started, or no longer exists
            about = f"log of {reading.source.namespace}/{reading.source.pod}"
            print(f"{about}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)

    def _read_log(self, reading: _Reading) -> None:
        for _ in range(CHUNKS):
            now = moments.format_time(datetime.now(UTC))
            text, is_whole = self._read_chunk(reading.source, reading.last)
            lines = [line for line in steps.split_lines(text) if line[0] > reading.last]
            with self._lock:
                reading.add(lines)
                reading.last = lines[-1][0] if lines else reading.last if is_whole else reading.resume_time
                if is_whole:
                    reading.add_partial_line(*steps.split_unfinished_line(text), now)
                    reading.complete = now
                if is_whole or reading.size >= WAITING:
                    return

    def _read_chunk(self, source: Source, last: str) -> tuple[str, bool]:
        """Return the log since the second of a time, and whether there is no more."""
        query = {"container": source.container, "timestamps": "true", "limitBytes": str(CHUNK_BYTES)}
        if last:
            query["sinceTime"] = moments.format_time(moments.parse_time(last))
        content = self._api.read_content(
            build_resource_path("api/v1/namespaces/{}/pods/{}/log", source.namespace, source.pod), query
        )
        return content.decode(errors="replace"), len(content) < CHUNK_BYTES
