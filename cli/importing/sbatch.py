"""Batch scripts of Slurm. The script stays unchanged; functions in front of it replace srun and scontrol.

https://slurm.schedmd.com/sbatch.html, https://slurm.schedmd.com/srun.html
"""

import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from importlib import resources
from typing import Any, Final

from cli.importing.draft import Draft
from cli.importing.errors import NotImportable
from cli.importing.source import Note

_DIRECTIVE: Final = re.compile(r"#SBATCH\s+(.+)")
_SHORT: Final[Mapping[str, str]] = {
    "N": "nodes",
    "n": "ntasks",
    "J": "job-name",
    "p": "partition",
    "t": "time",
    "c": "cpus-per-task",
    "o": "output",
    "e": "error",
    "A": "account",
    "D": "chdir",
    "a": "array",
    "d": "dependency",
    "q": "qos",
    "x": "exclude",
    "w": "nodelist",
    "C": "constraint",
    "G": "gpus",
}
_DROPPED: Final[Mapping[str, str]] = {
    "output": "see the log with `logs`",
    "error": "see the log with `logs`",
    "account": "the namespace's queue accounts for the job",
    "qos": "set priority to a priority class of the queue",
    "array": "submit one job per element, with another name",
    "dependency": "submit the job after the other one has ended",
    "nodelist": "the pool chooses the nodes",
    "exclude": "the pool chooses the nodes",
    "constraint": "the pool chooses the nodes",
    "mem": "a worker gets its share of the node; set resources.memory to change it",
    "cpus-per-task": "a worker gets its share of the node; set resources.cpu to change it",
    "ntasks-per-core": "ranks are placed by slots and perNode",
    "wait-all-nodes": "the launcher always waits for all workers",
    "requeue": "set maxRestarts",
    "no-requeue": "set maxRestarts: 0",
    "container-image": "a job needs an image in a registry; set image",
    "container-mounts": "mount claims with volumes",
}
_PYTORCH: Final = re.compile(r"\b(torchrun|torch\.distributed\.(run|launch)|accelerate\s+launch|deepspeed)\b")
_SCONTROL: Final = re.compile(r"scontrol\s+show\s+host\w*")
_HOST: Final = re.compile(r"\$\(\s*(?:srun[^)]*\s)?hostname\b[^)]*\)|`hostname[^`]*`|scontrol\s+show\s+host\w*")


def read(draft: Draft, text: str) -> list[Note]:
    """Read the script; return what was dropped and changed. Raises NotImportable."""
    options = dict(_options(text))
    notes = list(_apply(draft, options))
    is_torch = _PYTORCH.search(text) is not None
    draft.set("launcher", "torchrun" if is_torch else "mpijob", "from the programs that the script starts")
    shims = resources.files(__package__).joinpath("slurm_torchrun.sh" if is_torch else "slurm_mpi.sh").read_text("utf-8")
    lines = [line.rstrip() for line in text.splitlines() if not line.startswith(("#SBATCH", "#!"))]
    body = "\n".join(lines).replace("\t", "    ")  # YAML cannot represent trailing blanks in block texts
    where = (
        "it runs on every worker, and srun starts its command there"
        if is_torch
        else "it runs once, in the launcher, and srun becomes mpirun"
    )
    draft.set("command", ["bash", "-c", f"{shims}{body.strip()}\n"], f"the script runs {where}")
    if is_torch:
        notes.append(Note("script", "changed", "all of it runs on every worker; Slurm runs commands without srun on one node"))
    for number, line in enumerate(text.splitlines(), 1):
        found = (_HOST if is_torch else _SCONTROL).search(line)
        if found and not line.lstrip().startswith("#"):
            notes.append(Note(f"line {number}", "changed", f"{found[0]}: a function prints names of this job's workers"))
    return notes


def _options(text: str) -> Iterator[tuple[str, tuple[int, str]]]:
    """Yield the directives as (name, (line, value)). Directives after the first command do not count."""
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not line.startswith("#"):
            return
        if match := _DIRECTIVE.match(line):
            words = shlex.split(re.sub(r"\s#.*", "", match[1]))
            while words:
                word = words.pop(0)
                if word.startswith("--"):
                    name, _, value = word[2:].partition("=")
                elif word.startswith("-") and len(word) > 1:
                    name, value = _SHORT.get(word[1], word[1]), word[2:]
                else:
                    continue
                if not value and words and not words[0].startswith("-"):
                    value = words.pop(0)
                yield name, (number, value)


def _apply(draft: Draft, options: Mapping[str, tuple[int, str]]) -> Iterator[Note]:
    draft.set("workers", _number(options, "nodes") or 1)
    tasks = _number(options, "ntasks-per-node")
    if tasks is None and (total := _number(options, "ntasks")):
        tasks = max(1, total // draft.values["workers"])
    gpus = _number(options, "gpus-per-node") or _gres(options) or _number(options, "gpus-per-task")
    draft.set("gpusPerWorker", gpus)
    if tasks and not (tasks == 1 and gpus and gpus > 1):  # one task per node with several GPUs starts torchrun
        draft.set("slots", tasks, "from ntasks-per-node; ranks per worker")
    taken: dict[str, Callable[[str], None]] = {
        "job-name": lambda value: draft.set("name", re.sub(r"[^a-z0-9-]+", "-", value.lower()).strip("-")),
        "partition": lambda value: draft.set("pool", value, "the partition"),
        "time": lambda value: draft.set("activeDeadlineSeconds", seconds(value), f"time={value}"),
        "exclusive": lambda value: draft.set("onePerNode", True),
    }
    if (image := options.get("container-image", (0, ""))[1]).startswith("docker://") or "#" in image:
        taken["container-image"] = lambda value: draft.set("image", value.removeprefix("docker://").replace("#", "/"))
    known = {"nodes", "ntasks", "ntasks-per-node", "gpus-per-node", "gres", "gpus-per-task"}
    for name, (line, value) in options.items():
        if name in taken:
            taken[name](value)
        elif name not in known:
            text = f"--{name}={value}" if value else f"--{name}"
            yield Note(f"line {line}", "dropped", f"{text}: {_DROPPED.get(name, 'job files do not have such a field')}")


def _number(options: Mapping[str, tuple[int, str]], name: str) -> int | None:
    if name not in options:
        return None
    value = options[name][1].rpartition(":")[2]
    if not value.isdigit():
        raise NotImportable(f"line {options[name][0]}: --{name}={options[name][1]} is not a number. Use a number")
    return int(value)


def _gres(options: Mapping[str, Any]) -> int | None:
    """Return N of `gpu:N` or `gpu:TYPE:N`."""
    match = re.fullmatch(r"gpu(?::[\w.-]+?)?(?::(\d+))?", options.get("gres", (0, ""))[1])
    return int(match[1] or 1) if match else None


def seconds(time: str) -> int:
    """Convert Slurm's time: minutes, M:S, H:M:S, D-H, D-H:M, D-H:M:S.

    >>> [seconds(time) for time in ("90", "01:30", "02:00:00", "1-00", "1-00:30")]
    [5400, 90, 7200, 86400, 88200]
    """
    days, dash, rest = time.rpartition("-")
    parts = [int(part) for part in rest.split(":")]
    if dash:
        hours, minutes, secs = [*parts, 0, 0][:3]
    elif len(parts) == 1:
        hours, minutes, secs = 0, parts[0], 0
    else:
        hours, minutes, secs = [0, *parts][-3:]
    return int(days or 0) * 86400 + hours * 3600 + minutes * 60 + secs
