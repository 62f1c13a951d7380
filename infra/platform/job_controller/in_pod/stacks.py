"""Concern: what the ranks of a hanging job were doing. A shell script in each worker prints this without stopping any process.

py-spy reads the memory of a rank. Linux allows this for processes of the same user. Yama (Ubuntu's default) requires
the rank's permission: amis/provisioners/install-py-spy.sh.
"""

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import Any

from . import moments, pod_exec
from .api import Api
from .attempts import Attempt, list_pod_uids
from .job import ManagedJob, is_terminal
from .record import Record

WAIT_SECONDS = 24
"""How long the ranks of a hanging job are kept for the dump. They get 5 seconds to exit, and must
end within 30 seconds of detecting the hang."""
EXEC_SECONDS, AT_ONCE, PODS, DUMPS = 16, 16, 64, 4
"""Seconds per pod, number of pods queried at once, and maximum numbers of pods per job, whose others hang in the same way,
and of jobs at a time: the answers are kept until a dump ends."""
ENOUGH_SECONDS = 18
"""After this time, the dump leaves out pods that have not answered. The controller checks every 5 seconds."""
GROUPS, LINES, CHARACTERS = 8, 24, 160
"""Limits of a dump in the record."""
SCRIPT = Path(__file__).with_name("dump_ranks.sh").read_text(encoding="utf-8")
PROGRAM = Path(__file__).with_name("dump_nccl.py").read_text(encoding="utf-8")
RANK, NCCL = re.compile(r"gpumpi-rank (\d+) (\S) ?(.*)"), "gpumpi-nccl"
UNKNOWN = "gpumpi-unknown "
FRAME, THREAD = re.compile(r" {4}(\S.*\(.+:\d+\))"), re.compile(r"Thread \S+ \(\S+\)(?::( .*))?")
COMMAND, VERSION = "Process ", "Python v"
"""Between these lines, py-spy prints the command of a rank, which may contain secrets."""
MAIN = 'Thread "MainThread"'
STOPPED = {"T": "stopped", "t": "stopped by a debugger", "D": "waits for a disk or a device", "Z": "has ended"}
"""Maps each state of a process to its meaning for a hang: https://man7.org/linux/man-pages/man5/proc_pid_status.5.html"""
PATH, MAIN_MODULE = re.compile(r"\((.+):\d+\)"), "<module> ("


@dataclass(frozen=True)
class Rank:
    """What one rank was doing."""

    number: int
    state: str
    lines: tuple[str, ...]

    @property
    def stack_frames(self) -> tuple[str, ...]:
        """Python stack of the main thread, innermost call first."""
        first = next((line for line in self.lines if line.startswith("Thread")), "")
        heading = MAIN if MAIN in self.lines else first
        start = self.lines.index(heading) + 1 if heading else 0
        matches = [FRAME.fullmatch(line) for line in self.lines[start:]]
        return tuple(match[1] for match in takewhile(bool, matches) if match)

    @property
    def location(self) -> str:
        """The state of a stopped rank, and the innermost call of its own program."""
        return " in ".join(filter(None, (STOPPED.get(self.state, ""), find_own_call(self.stack_frames))))


def find_own_call(frames: Sequence[str]) -> str:
    """Return the innermost call that is neither in Python's standard library nor in a package other than the program's own.
    If there is none, return the innermost call. py-spy prints paths relative to the folder that contains the package.

    >>> find_own_call(["synchronize (cuda/__init__.py:1162)", "step (train.py:7)", "<module> (train.py:14)"])
    'step (train.py:7)'
    >>> find_own_call(["wait (threading.py:320)", "load (mine/data.py:7)", "<module> (mine/train.py:14)"])
    'load (mine/data.py:7)'
    """
    program = next((_extract_package(frame) for frame in reversed(frames) if frame.startswith(MAIN_MODULE)), "")
    own = (frame for frame in frames if _extract_package(frame) in ("", program) and not _is_standard_library(frame))
    return next(own, next(iter(frames), ""))


def _extract_path(frame: str) -> str:
    match = PATH.search(frame)
    return match[1] if match else ""


def _extract_package(frame: str) -> str:
    return _extract_path(frame).rpartition("/")[0].partition("/")[0]


def _is_standard_library(frame: str) -> bool:
    return _extract_path(frame).partition("/")[0].removesuffix(".py") in sys.stdlib_module_names


@dataclass(frozen=True)
class Dump:
    """What the pods of a job have printed."""

    ranks: tuple[Rank, ...] = ()
    nccl: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    """Reasons why pods did not answer."""

    def groups(self) -> list[dict[str, Any]]:
        """Return groups of ranks with the same stack, smallest first: the rank that the others wait for is usually
        alone."""
        by_stack: dict[tuple[str, ...], list[Rank]] = {}
        for rank in self.ranks:
            by_stack.setdefault((rank.location, *(rank.stack_frames or rank.lines)), []).append(rank)
        ordered = sorted(by_stack.values(), key=lambda ranks: (len(ranks), ranks[0].number))
        return [
            {
                "ranks": sorted({rank.number for rank in ranks}),
                "at": ranks[0].location[:CHARACTERS],
                "lines": _truncate_lines(ranks[0].lines[:LINES]),
            }
            for ranks in ordered[:GROUPS]
        ]


def parse_dump(texts: Sequence[str]) -> Dump:
    """Parse the output of the script, one text per pod."""
    ranks: list[tuple[int, str, list[str]]] = []
    nccl: list[str] = []
    unknown = [text.removeprefix(UNKNOWN) for text in texts if text.startswith(UNKNOWN)]
    for text in (answer for answer in texts if not answer.startswith(UNKNOWN)):
        lines: list[str] = []
        in_command = False
        for line in text.split("\n"):
            in_command = (in_command or line.startswith(COMMAND)) and not line.startswith(VERSION)
            if started := RANK.fullmatch(line):
                lines = []
                ranks.append((int(started[1]), started[2], lines))
            elif line == NCCL:
                lines = nccl
            elif line.strip() and not in_command and not line.startswith(VERSION):
                lines.append(THREAD.sub(r"Thread\1", line.rstrip()))
    return Dump(tuple(Rank(number, state, tuple(lines)) for number, state, lines in ranks), tuple(nccl), tuple(unknown))


def find_attempt_to_dump(record: Record, now: str) -> Attempt | None:
    """Return the attempt whose ranks are dumped before they are ended; None if there is none, or if the time is up."""
    last: Attempt | None = record["attempts"][-1] if record["attempts"] else None
    hang = (last or {}).get("hang")
    is_open = hang is not None and "ranks" not in hang and moments.count_seconds(hang["at"], now) < WAIT_SECONDS
    return last if is_open and "verdict" not in record else None


def record_stacks(record: Record, dump: Dump | None, now: str) -> None:
    """Write what the ranks were doing into the record."""
    attempt = find_attempt_to_dump(record, now)
    if attempt is None or dump is None:
        return
    groups = dump.groups()
    more = {"nccl": _truncate_lines(dump.nccl), "unknown": _truncate_lines(dump.unknown)}
    attempt["hang"] |= {
        "ranks": groups,
        "where": describe_locations(groups),
        **{key: lines for key, lines in more.items() if lines},
    }


def _truncate_lines(lines: Sequence[str]) -> list[str]:
    return [line[:CHARACTERS] for line in lines[: 2 * LINES]]


def describe_locations(groups: Sequence[Mapping[str, Any]]) -> str:
    """Return one line that shows where the ranks were.

    >>> describe_locations([{"ranks": [1], "at": "load (data.py:7)"}, {"ranks": [0, 2, 3], "at": "step (train.py:9)"}])
    'rank 1: load (data.py:7); ranks 0, 2-3: step (train.py:9)'
    """
    named = [(format_ranges(group["ranks"]), group["at"]) for group in groups if group["at"]]
    return "; ".join(f"rank{'' if ranks.isdigit() else 's'} {ranks}: {place}" for ranks, place in named)[:500]


def format_ranges(numbers: Sequence[int]) -> str:
    """Return numbers as text, with ranges.

    >>> format_ranges([0, 2, 3, 4])
    '0, 2-4'
    """
    parts: list[list[int]] = []
    for number in sorted(numbers):
        if parts and number == parts[-1][-1] + 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    return ", ".join(f"{part[0]}-{part[-1]}" if len(part) > 1 else str(part[0]) for part in parts)


@dataclass
class Stacks:
    """Dumps of hanging jobs, created in threads because a pod may not answer."""

    api: Api
    _pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(AT_ONCE, "stacks"))
    _running: dict[tuple[str, int], list["Future[str]"]] = field(default_factory=dict)

    def dump_hanging_job(self, job: ManagedJob, record: Record, now: str) -> Dump | None:
        """Return the finished dump of a hanging job. The first call starts the dump. `record` is the stored record."""
        attempt = find_attempt_to_dump(record, now)
        for key in [
            started for started in self._running if started[0] == job.uid and (attempt is None or started[1] != attempt["number"])
        ]:
            del self._running[key]
        if attempt is None:
            return None
        key = job.uid, attempt["number"]
        if key not in self._running:
            if len(self._running) >= DUMPS:
                return None
            self._running[key] = list(self._start_dump(job, attempt))
        parts = self._running[key]
        texts = [future.result() for future in parts if future.done()]
        if silent := len(parts) - len(texts):
            if moments.count_seconds(attempt["hang"]["at"], now) < ENOUGH_SECONDS:
                return None
            texts.append(f"{UNKNOWN}{silent} of {len(parts)} pods did not answer in {ENOUGH_SECONDS} s")
        return parse_dump(texts)

    def _start_dump(self, job: ManagedJob, attempt: Attempt) -> Iterator["Future[str]"]:
        uids = list_pod_uids(attempt)
        pods = [pod["metadata"] for pod in job.worker_pods if pod["metadata"]["uid"] in uids and not is_terminal(pod)]
        for index, pod in enumerate(pods[:PODS]):
            command = ["sh", "-c", SCRIPT, "dump", PROGRAM, *(["job"] if index == 0 else [])]
            yield self._pool.submit(self._run_in_pod, pod["namespace"], pod["name"], command)

    def _run_in_pod(self, namespace: str, pod: str, command: Sequence[str]) -> str:
        try:
            return pod_exec.run_in_pod(self.api.copy(), namespace, pod, "worker", command, EXEC_SECONDS)
        except Exception as error:  # an invalid answer of one pod must not discard the answers of the other pods
            return f"{UNKNOWN}{pod}: {error}"
