"""Import Slurm batch scripts. The commands of the script stay unchanged; shell functions defined before them replace
srun and scontrol.

https://slurm.schedmd.com/sbatch.html, https://slurm.schedmd.com/srun.html
"""

import re
from collections.abc import Callable, Iterator, Mapping
from importlib import resources
from typing import Final

from cli.jobs.importing import slurm_sizes, srun_options
from cli.jobs.importing.draft import Draft
from cli.jobs.importing.slurm_sizes import Options, Sizes
from cli.jobs.importing.source import NO_PLACE, Note, NotImportable

DIRECTIVE: Final = "#SBATCH"
_SPACES: Final = " \t\v\f\r"
_IMAGE: Final = "--container-image"
_HETEROGENEOUS: Final = ("hetjob", "packjob")
"""Separators of components: https://slurm.schedmd.com/heterogeneous_jobs.html"""
_ALIASES: Final = {"tasks-per-node": "ntasks-per-node"}
"""Maps an option name that sbatch accepts but does not document to the documented name."""
_DROPPED: Final[Mapping[str, str]] = {
    "output": "see the log with `logs`",
    "error": "see the log with `logs`",
    "account": "the namespace's queue accounts for the job",
    "qos": "set priority to a priority class of the queue",
    "array": "submit one job per array element, each with its own name",
    "dependency": "submit the job after the other one has ended",
    "nodelist": "the pool chooses the nodes",
    "exclude": "the pool chooses the nodes",
    "constraint": "the pool chooses the nodes",
    "mem": "each worker gets its share of the node; set resources.memory to change it",
    "cpus-per-task": "each worker gets its share of the node; set resources.cpu to change it",
    "ntasks-per-core": "ranks are placed by slots and perNode",
    "wait-all-nodes": "the launcher always waits for all workers",
    "requeue": "set maxRestarts",
    "no-requeue": "set maxRestarts: 0",
    "container-image": "a job needs an image in a registry; set image",
    "container-mounts": "mount claims with volumes",
}
_OF_SRUN: Final[Mapping[str, str]] = {
    "nodes": "srun starts ranks on all workers",
    "ntasks": "srun starts its command once per worker",
    "ntasks-per-node": "srun starts as many ranks per worker as the job has slots",
    "label": "set rankPrefix",
    "mpi": "the launcher starts the ranks",
    "cpu-bind": "ranks are not bound to cores",
    "kill-on-bad-exit": "the job always ends all ranks when one fails",
    "export": "ranks get all variables of the job",
    "multi-prog": "srun starts one program; choose each rank's part by SLURM_PROCID",
    "container-mount-home": "mount claims with volumes",
    "container-workdir": "set workingDir",
}
_ALL_NODES: Final = ("$SLURM_JOB_NUM_NODES", "${SLURM_JOB_NUM_NODES}", "$SLURM_NNODES", "${SLURM_NNODES}")
"""Values of `srun --nodes` that mean all nodes of the job."""
_SHELLS: Final = ("sh", "bash", "dash", "ash")
"""Shells whose scripts bash can also run."""
_PYTORCH: Final = re.compile(r"\b(torchrun|torch\.distributed\.(run|launch)|accelerate\s+launch|deepspeed)\b")
_SCONTROL: Final = re.compile(r"scontrol\s+show\s+host\w*")
_HOST: Final = re.compile(r"\$\(\s*(?:srun[^)]*\s)?hostname\b[^)]*\)|`hostname[^`]*`|scontrol\s+show\s+host\w*")


def read_script(draft: Draft, text: str) -> list[Note]:
    """Read the script; return notes on everything that was dropped or changed. Raises NotImportable."""
    before, nul, _ = text.partition("\0")
    if nul:
        raise NotImportable(f"line {before.count(chr(10)) + 1}: has a NUL character, so sbatch refuses the script. Remove it")
    shell, notes = _parse_shell(text)
    options: dict[str, tuple[int, str]] = {}
    for number, name, value in _parse_directives(text):
        if name:
            options[name] = (number, value)
        elif value in _HETEROGENEOUS:
            fix = "Import each component as a separate job"
            raise NotImportable(f"line {number}: {value} adds workers of another kind, but a job has one kind. {fix}")
        else:
            notes.append(Note(f"line {number}", "dropped", f"{value}: is not an option"))
    is_torch = _PYTORCH.search(text) is not None
    sizes = slurm_sizes.read_sizes(options)
    notes += [*sizes.notes, *_apply_options(draft, options, sizes, is_torch=is_torch)]
    draft.set("launcher", "torchrun" if is_torch else "mpijob", "from the programs that the script starts")
    shims = resources.files(__package__).joinpath("slurm_torchrun.sh" if is_torch else "slurm_mpi.sh").read_text("utf-8")
    body, changed = _extract_body(text)
    notes += changed
    where = (
        "the script runs on every worker, and srun starts its command there"
        if is_torch
        else "the script runs once, in the launcher, and srun becomes mpirun"
    )
    flags = " | ".join(srun_options.FLAGS)
    script = f"{shims.replace('@flags@', flags)}{body}\n"
    draft.set("command", [*shell, "-c", script], f"the script runs as before: {where}")
    if is_torch:
        notes.append(
            Note("script", "changed", "the whole script runs on every worker; Slurm runs commands without srun on one node")
        )
    return [*notes, *find_ignored_srun_options(text, sizes, is_torch=is_torch), *find_host_queries(text, is_torch=is_torch)]


def _parse_shell(text: str) -> tuple[list[str], list[Note]]:
    """Return the shell that runs the script, with the shell's options, and notes on the options that were dropped.
    Raises NotImportable.
    """
    first = text.partition("\n")[0]
    words = first.removeprefix("#!").split() if first.startswith("#!") else ["bash"]
    if words and words[0].endswith("/env"):
        words = [word for word in words[1:] if word != "-S"]
    program = words[0].rpartition("/")[2] if words else ""
    if program not in _SHELLS:
        raise NotImportable(
            f"line 1: {program or first} cannot run the functions that replace srun. "
            "Put the program into the image, and import a bash script that starts it, like `srun python3 train.py`"
        )
    options, notes = [], []
    for word in words[1:]:
        flags = "" if word == "--login" else word if word.startswith("--") else word.replace("l", "")
        if flags != word:
            notes.append(Note("line 1", "dropped", f"{word}: the image sets the environment, so no login shell is needed"))
        options += [flags] if flags.strip("-") else []
    return ["bash", *options], notes


def _extract_body(text: str) -> tuple[str, list[Note]]:
    """Return the script without its directives, with only the whitespace that a YAML block scalar can contain.

    Scripts with here-documents keep their whitespace, because it is data in a here-document, and `<<-` strips leading
    tabs.
    """
    lines = [line for line in text.split("\n") if not line.startswith((DIRECTIVE, "#!"))]
    body = "\n".join(lines).strip("\n")
    plain = "\n".join(line.rstrip() for line in lines).replace("\t", "    ").strip("\n")
    if "<<" in body or plain == body:
        return body, []
    return plain, [Note("script", "changed", "tabs became four spaces, and trailing spaces were removed")]


def find_ignored_srun_options(text: str, sizes: Sizes, *, is_torch: bool) -> Iterator[Note]:
    """Yield a note for each srun option that the function in place of srun ignores, except options that request what
    the job already does.
    """
    same = {"nodes": sizes.workers, "ntasks": sizes.workers, "ntasks-per-node": 1 if is_torch else sizes.tasks}
    for line, name, option in srun_options.find_options(text):
        is_read = name == "ntasks" and not is_torch
        if not is_read and srun_options.get_option_value(option).strip('"') not in (
            str(same.get(name)),
            *(_ALL_NODES if name == "nodes" else ()),
        ):
            why = _OF_SRUN.get(name) or _DROPPED.get(name) or "the function that replaces srun ignores this option"
            yield Note(f"line {line}", "dropped", f"srun {option}: {why}")


def find_host_queries(text: str, *, is_torch: bool) -> Iterator[Note]:
    for number, line in enumerate(text.split("\n"), 1):
        match = (_HOST if is_torch else _SCONTROL).search(line)
        if match and not line.lstrip().startswith("#"):
            yield Note(
                f"line {number}", "changed", f"{match[0]}: replaced by a function that prints the names of this job's workers"
            )


def _parse_directives(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield each directive as (line, name, value); a word that is not an option has an empty name.

    Slurm ignores directives after the first command. Raises NotImportable.
    """
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip() and not line.lstrip().startswith("#"):
            return
        words = _split_words(number, line.removeprefix(DIRECTIVE)) if line.startswith(DIRECTIVE) else []
        while words:
            word = words.pop(0)
            is_set = ""
            if word.startswith("--") and len(word) > 2:
                name, is_set, value = word[2:].partition("=")
                name = _ALIASES.get(name, name)
            elif word.startswith("-") and word not in ("-", "--"):
                name, value = srun_options.SHORT.get(word[1], word[1]), word[2:]
            else:
                yield number, "", word
                continue
            if not value and not is_set and words and not words[0].startswith("-"):
                value = words.pop(0)
                if value == "=":
                    raise NotImportable(f"line {number}: {word} has a space before its `=`, which sbatch refuses. Remove it")
            yield number, name, value


def _split_words(number: int, line: str) -> list[str]:
    """Split the options of a directive as sbatch does: quotes may begin inside a word, a backslash escapes the next
    character, even in quotes, and an unquoted # begins a comment. Raises NotImportable.

    https://github.com/SchedMD/slurm/blob/master/src/sbatch/opt.c (_get_argument). In image names, # has a meaning for
    enroot, so it stays even where sbatch would require a backslash.
    """
    words: list[str] = []
    word: str | None = None
    quote, characters = "", iter(line)
    for character in characters:
        if not quote and character in _SPACES:
            words += [] if word is None else [word]
            word = None
            continue
        if not quote and character == "#" and not (word and (word.startswith(f"{_IMAGE}=") or words[-1:] == [_IMAGE])):
            break
        word = word or ""  # `+=` takes linear time here, unlike an expression: lines can have megabytes
        if character == "\\":
            word += next(characters, "")
        elif quote and character == quote:
            quote = ""
        elif not quote and character in "\"'":
            quote = character
        else:
            word += character
    if quote:
        fix = f"Close it, or write \\{quote} for the character itself"
        raise NotImportable(f"line {number}: the quote {quote} is not closed, so sbatch refuses the script. {fix}")
    return words if word is None else [*words, word]


def _apply_options(draft: Draft, options: Options, sizes: Sizes, *, is_torch: bool) -> Iterator[Note]:
    draft.set("workers", sizes.workers)
    draft.set("gpusPerWorker", sizes.gpus)
    tasks = sizes.tasks
    if tasks and not (is_torch and tasks == 1 and (sizes.gpus or 0) > 1):  # one torchrun per node starts one rank per GPU
        source = "ntasks-per-node" if "ntasks-per-node" in options else "ntasks"
        draft.set("slots", tasks, f"from {source}; ranks per worker")
        if is_torch and tasks > 1:
            yield slurm_sizes.make_note(
                options, source, "changed", "srun starts its command once per worker; slots applies to torchrun"
            )
    if "time" in options:
        yield from _set_deadline(draft, options)
    if "job-name" in options:
        job_name = options["job-name"][1]
        draft.set("name", name := re.sub(r"[^a-z0-9-]+", "-", job_name.lower()).strip("-"))
        if name != job_name:
            yield slurm_sizes.make_note(options, "job-name", "changed", f"{name}, because a job's name is a DNS label")
    taken: dict[str, Callable[[str], None]] = {
        "partition": lambda value: draft.set("pool", value, "the partition"),
        "exclusive": lambda value: draft.set("onePerNode", True),
    }
    if (image := options.get("container-image", (0, ""))[1]).startswith("docker://") or "#" in image:
        taken["container-image"] = lambda value: draft.set("image", value.removeprefix("docker://").replace("#", "/"))
    for name, (_, value) in options.items():
        if name in taken:
            taken[name](value)
        elif name not in slurm_sizes.READ | {"time", "job-name"}:
            yield slurm_sizes.make_note(options, name, "dropped", _DROPPED.get(name, NO_PLACE))


def _set_deadline(draft: Draft, options: Options) -> Iterator[Note]:
    line, value = options["time"]
    try:
        limit = slurm_sizes.parse_time_limit(value)
    except ValueError:
        raise NotImportable(f"line {line}: --time={value} is not a time. Use minutes, H:M:S or D-H:M:S") from None
    draft.set("activeDeadlineSeconds", limit, f"time={value}")
    if limit is None:
        yield slurm_sizes.make_note(options, "time", "changed", "a job without activeDeadlineSeconds has no time limit")
