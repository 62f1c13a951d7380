"""Send the lines that come in on stdin to a log stream of CloudWatch Logs.

Never makes the job wait or fail: reads stdin at once, and drops lines if CloudWatch accepts them too slowly.

Environment: GPUMPI_LOG_GROUP, GPUMPI_LOG_STREAM, GPUMPI_LOG_REGION, and GPUMPI_LOG_BYTES (the rest is dropped).
"""

import os
import sys
import threading
import time
from collections import deque
from contextlib import suppress
from typing import IO, Any

LONGEST = 200_000
"""Maximum bytes of one event. Longer lines become several events."""
BATCH_BYTES, BATCH_EVENTS, EVENT_OVERHEAD = 1_000_000, 10_000, 26
"""Limits of a request: https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_PutLogEvents.html"""
WAITING_BYTES = 8 << 20
"""Maximum bytes waiting to be sent, including after a failure. The buffer uses the job container's memory."""
EVERY_SECONDS = 2.0
LAST_SECONDS = 20.0
"""How long to try to send the last lines after the job has ended."""


def print_message(sentence: str) -> None:
    print(f"gpumpi: {sentence}", file=sys.stderr, flush=True)


class Lines:
    """Lines that were read but have not been sent yet."""

    def __init__(self, limit: int) -> None:
        self._waiting: deque[tuple[int, str, int]] = deque()
        self._lock = threading.Lock()
        self._read = self._bytes = self._dropped = 0
        self._limit = limit
        self.ended = threading.Event()

    def read(self, stream: IO[bytes]) -> None:
        """Read the stream to its end."""
        for line in stream:
            text = line.rstrip(b"\r\n")
            for start in range(0, max(1, len(text)), LONGEST):
                self._add_line(text[start : start + LONGEST])
        self.ended.set()

    def _add_line(self, part: bytes) -> None:
        size = len(part) + EVENT_OVERHEAD
        with self._lock:
            full = self._read > self._limit
            self._read += len(part) + 1
            if full:
                return
            if self._read > self._limit:
                part, size = b"gpumpi: the rest of this log is not kept", 100
            elif self._bytes + size > WAITING_BYTES:
                self._dropped += 1
                return
            elif self._dropped:
                self._append_event(f"gpumpi: {self._dropped} lines are missing here: CloudWatch accepted them too slowly", 100)
                self._dropped = 0
            # An event has at least one character.
            self._append_event(part.decode("utf-8", "replace") or " ", size)

    def _append_event(self, message: str, size: int) -> None:
        self._waiting.append((int(time.time() * 1000), message, size))
        self._bytes += size

    def take(self) -> "list[dict[str, Any]]":
        """Return the events of the next request, in order of time."""
        events: list[dict[str, Any]] = []
        size = 0
        with self._lock:
            while self._waiting and len(events) < BATCH_EVENTS and size + self._waiting[0][2] <= BATCH_BYTES:
                when, message, bytes_ = self._waiting.popleft()
                size += bytes_
                events.append({"timestamp": max(when, events[-1]["timestamp"] if events else 0), "message": message})
            self._bytes -= size
        return events


class Stream:
    """The log stream of this pod."""

    def __init__(self, logs: Any, group: str, name: str) -> None:
        self._logs, self._group, self._name = logs, group, name
        self._exists = False

    def put(self, events: "list[dict[str, Any]]") -> None:
        """Write events to the stream. Raises boto3's errors."""
        where = {"logGroupName": self._group, "logStreamName": self._name}
        if not self._exists:
            with suppress(self._logs.exceptions.ResourceAlreadyExistsException):  # the container was restarted
                self._logs.create_log_stream(**where)
            self._exists = True
        self._logs.put_log_events(**where, logEvents=events)


def send_lines(lines: Lines, stream: Stream, errors: "tuple[type[Exception], ...]") -> None:
    """Send lines until the job has ended and all are sent. Returns early if the last lines cannot be sent."""
    events: list[dict[str, Any]] = []
    said = False
    end = None
    while True:
        over = lines.ended.wait(EVERY_SECONDS)
        if over and end is None:
            end = time.monotonic() + LAST_SECONDS
        events = events or lines.take()
        while events:
            try:
                stream.put(events)
            except errors as error:
                # Pod Identity takes a while to work on a new node or with a new association.
                if not said:
                    print_message(f"CloudWatch does not accept this log yet: {error}")
                    said = True
                break
            events = lines.take()
        if over and not events:
            return
        if end is not None and time.monotonic() > end:
            print_message("the last lines of this log are not kept")
            return
        if over:
            time.sleep(EVERY_SECONDS)


def main() -> None:
    lines = Lines(int(os.environ["GPUMPI_LOG_BYTES"]))
    reader = threading.Thread(target=lines.read, args=(sys.stdin.buffer,), daemon=True)
    reader.start()
    try:
        import boto3
        from botocore.config import Config
        from botocore.exceptions import BotoCoreError, ClientError
    except ImportError:
        print_message("this log is not kept: python3 of the image has no boto3, which platform.jobLogs needs")
        reader.join()  # keep reading: tee must not find a closed pipe
        return
    quick = Config(connect_timeout=5, read_timeout=10, retries={"mode": "standard", "max_attempts": 3})
    logs = boto3.client("logs", region_name=os.environ["GPUMPI_LOG_REGION"], config=quick)
    stream = Stream(logs, os.environ["GPUMPI_LOG_GROUP"], os.environ["GPUMPI_LOG_STREAM"])
    send_lines(lines, stream, (BotoCoreError, ClientError))


if __name__ == "__main__":
    main()
