"""Read the numbers of nodes, tasks and GPUs from the options of a batch script.

https://slurm.schedmd.com/sbatch.html
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from cli.jobs.importing.source import COUNT, Note, NotImportable

Options = Mapping[str, tuple[int, str]]
"""Maps the long name of an option to its line number and value."""

READ: Final = frozenset({"nodes", "ntasks", "ntasks-per-node", "gpus-per-node", "gres", "gpus-per-task", "gpus"})
"""Options that this module reads."""
_TIME: Final = re.compile(r"(?:(?P<days>\d+)-(?P<hours>\d+)(?::(?P<rest>\d+(?::\d+)?))?|(?P<clock>\d+(?::\d+){0,2}))")
_NO_LIMIT: Final = ("UNLIMITED", "INFINITE")


@dataclass
class Sizes:
    """Sizes of the job, with notes on their differences from the script."""

    workers: int = 1
    tasks: int | None = None
    """Tasks per worker; None if the script does not set them."""
    gpus: int | None = None
    """GPUs per worker; None if the script does not set them."""
    notes: list[Note] = field(default_factory=list)


def read_sizes(options: Options) -> Sizes:
    """Return the sizes. Raises NotImportable."""
    sizes = Sizes()
    _read_tasks(sizes, options)
    _read_gpus(sizes, options)
    return sizes


def make_note(options: Options, name: str, action: str, text: str) -> Note:
    line, value = options[name]
    return Note(f"line {line}", action, f"--{name}={value}: {text}" if value else f"--{name}: {text}")


# --- tasks -------------------------------------------------------------------------------------------------------------


def _read_tasks(sizes: Sizes, options: Options) -> None:
    nodes, each, total = (_parse_number(options, name) for name in ("nodes", "ntasks-per-node", "ntasks"))
    if total is None:
        sizes.workers, sizes.tasks = nodes or 1, each
        return
    sizes.workers = nodes or (-(-total // each) if each else 1)
    sizes.tasks = each if each and not nodes else -(-total // sizes.workers)
    if not nodes and not each and total > 1:
        text = f"one worker with {total} ranks, because the script has no --nodes. Set workers and slots to spread the ranks"
        sizes.notes.append(make_note(options, "ntasks", "changed", text))
    if each and each != sizes.tasks:
        sizes.notes.append(make_note(options, "ntasks-per-node", "changed", f"{sizes.tasks}, because of --ntasks and --nodes"))
    if (tasks := sizes.workers * sizes.tasks) != total:
        text = f"{sizes.workers} workers with {sizes.tasks} ranks each have {tasks} ranks. Use `srun -n {total}` in the script"
        sizes.notes.append(make_note(options, "ntasks", "changed", text))


def _parse_number(options: Options, name: str) -> int | None:
    if name not in options:
        return None
    line, value = options[name]
    if not COUNT.fullmatch(value) or not int(value):
        raise NotImportable(f"line {line}: --{name}={value} is not a number. Use a number")
    return int(value)


# --- GPUs --------------------------------------------------------------------------------------------------------------


def _read_gpus(sizes: Sizes, options: Options) -> None:
    """Set the GPUs per worker from the first option in `multiplied` that the script sets, and compare the other options
    with it.
    """
    multiplied = {
        "gpus-per-node": (1, 1),
        "gres": (1, 1),
        "gpus-per-task": (sizes.tasks or 1, 1),
        "gpus": (1, sizes.workers),
    }
    chosen = ""
    for name, (times, share) in multiplied.items():
        number = sum(_parse_gpu_counts(sizes, options, name)) if name in options else 0
        if not number:
            continue
        if not chosen:
            chosen, sizes.gpus = name, -(-number * times // share)
            if sizes.gpus * share != number * times:
                text = f"{sizes.workers} workers with {sizes.gpus} GPUs each have {sizes.gpus * share} GPUs"
                sizes.notes.append(make_note(options, name, "changed", text))
        elif (sizes.gpus or 0) * share != number * times:
            sizes.notes.append(make_note(options, name, "dropped", f"--{chosen} sets the GPUs of a worker"))


def _parse_gpu_counts(sizes: Sizes, options: Options, name: str) -> Iterator[int]:
    """Yield the number of GPUs of each entry in a list: `gpu:TYPE:N` entries of gres, `TYPE:N` of the other options."""
    line, value = options[name]
    for entry in value.split(","):
        words = entry.split(":")
        if name == "gres" and words.pop(0) != "gpu":
            text = f"--gres={entry}: a worker gets only GPUs and the network devices of its pool"
            sizes.notes.append(Note(f"line {line}", "dropped", text))
            continue
        number = words.pop() if words and COUNT.fullmatch(words[-1]) else None
        if (number is None and name != "gres") or len(words) > 1:
            raise NotImportable(f"line {line}: --{name}={value} is not a number. Use a number")
        if words:
            text = f"--{name}={entry}: the GPU type {words[0]} is a property of the pool"
            sizes.notes.append(Note(f"line {line}", "dropped", text))
        yield int(number or 1)


# --- time --------------------------------------------------------------------------------------------------------------


def parse_time_limit(time: str) -> int | None:
    """Convert a Slurm time limit (minutes, M:S, H:M:S, D-H, D-H:M, D-H:M:S) to seconds; None means no limit. Raises
    ValueError.

    >>> [parse_time_limit(time) for time in ("90", "01:30", "02:00:00", "1-00", "1-00:30", "0", "UNLIMITED")]
    [5400, 90, 7200, 86400, 88200, None, None]
    """
    if time.upper() in _NO_LIMIT:
        return None
    match = _TIME.fullmatch(time)
    if match is None:
        raise ValueError(time)
    if match["clock"]:
        parts = [int(part) for part in match["clock"].split(":")]
        hours, minutes, secs = (0, parts[0], 0) if len(parts) == 1 else [0, *parts][-3:]
    else:
        hours, minutes, secs = [int(match["hours"]), *(int(part) for part in (match["rest"] or "0").split(":")), 0][:3]
    return (int(match["days"] or 0) * 24 + hours) * 3600 + minutes * 60 + secs or None
