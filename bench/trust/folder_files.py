"""Surfaces: names and links in a folder, and its git configuration -> `--workdir`."""

import io
import os
import subprocess
import tarfile
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Final

from bench.trust.inputs import draw_text
from bench.trust.judge import Judge
from cli.errors import CommandError
from cli.jobs.workdir import git_files
from cli.jobs.workdir.selection import Selection, explain_refusal, select_files
from cli.jobs.workdir.sending import write_archive

FILES: Final = 200
"""Files of a folder."""
SECRET: Final = b"outside the folder"
NAMES: Final = (
    "-rf",
    "--help",
    "a b",
    "*",
    "~",
    "$HOME",
    "`id`",
    "$(touch TRACE)",
    "\u202egnp",
    "\x1b[2J",
    "..a",
    "...",
    "%s",
    "'",
    '"',
    "a\\b",
    "\n",
    "x" * 200,
)
LINKS: Final = ("/etc/passwd", "../outside", "../../../../etc/passwd", "a/../../outside", ".", "..", "inside", "loop")
KEYS: Final = (
    *("core.fsmonitor", "core.hooksPath", "core.sshCommand", "core.pager", "core.editor", "core.askPass", "core.gitProxy"),
    *("core.alternateRefsCommand", "sequence.editor", "interactive.diffFilter", "web.browser", "trailer.{}.command"),
    *("diff.external", "diff.{}.command", "diff.{}.textconv", "filter.{}.clean", "filter.{}.smudge", "filter.{}.process"),
    *("merge.{}.driver", "credential.helper", "gpg.program", "uploadpack.packObjectsHook", "remote.{}.uploadpack"),
    *("pager.ls-files", "pager.config", "pager.init", "alias.ls-files", "alias.init", "alias.config", "init.templateDir"),
)
"""Keys that name programs."""
BREAKING_KEYS: Final = (
    *("core.worktree", "core.untrackedCache", "core.excludesFile", "core.attributesFile", "include.path", "core.bare"),
    *("extensions.worktreeConfig", "safe.directory", "trace2.normalTarget", "includeIf.gitdir:/.path"),
)
"""Keys with which git may list other files, or fail. Only some repositories have them."""
KEYS_PER_REPOSITORY: Final = 50
HOOKS: Final = (
    "post-index-change",
    "fsmonitor-watchman",
    "post-checkout",
    "pre-commit",
    "reference-transaction",
    "query-watchman",
    "update",
)


def run_git(folder: Path, *words: str) -> None:
    subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], cwd=folder, check=True, capture_output=True)


# --- names and links -------------------------------------------------------------------------------------------------------


def create_hostile_file(random: Random, root: Path) -> None:
    """Create a file or a link with a hostile name, if the file system accepts it."""
    parts = [
        random.choice((*NAMES, draw_text(random), "a", "b")).replace("/", "_").replace("\0", "_")[:80]
        for _ in range(random.randrange(1, 4))
    ]
    path = root.joinpath(*(part for part in parts if part not in ("", ".", "..")), f"f{random.randrange(10**6)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if random.randrange(3):
            path.write_bytes(b"x")
        else:
            path.symlink_to(random.choice(LINKS))
    except (OSError, UnicodeError, ValueError):
        (root / f"plain{random.randrange(10**6)}").write_bytes(b"x")


def judge_archive(judge: Judge, selection: Selection) -> None:
    """Report members of the archive that are outside its folder after unpacking, or that contain files from outside."""
    file = io.BytesIO()
    write_archive(selection, {sent.path for sent in selection.files}, file)
    file.seek(0)
    with tarfile.open(fileobj=file) as archive, TemporaryDirectory() as target:
        members = archive.getmembers()
        for member in members:
            try:
                tarfile.data_filter(member, target)
            except tarfile.FilterError as error:
                judge.report("crossed", str(error))
            judge.require(member.isfile() or member.issym(), "crossed", f"{member.name!r} is neither a file nor a link")
            content = archive.extractfile(member) if member.isfile() else None
            judge.require(
                content is None or SECRET not in content.read(), "crossed", f"{member.name!r} is from outside the folder"
            )
    judge.require(len(members) == len(selection.files) + len(selection.links), "lost", "a selected file is not in the archive")


def try_folder_names(judge: Judge, random: Random, count: int) -> None:
    for _ in range(0, count, FILES):
        with TemporaryDirectory() as text:
            folder = Path(os.path.realpath(text)) / "code"
            folder.mkdir()
            (folder.parent / "outside").write_bytes(SECRET)
            for _ in range(FILES):
                create_hostile_file(random, folder)
            (folder / "train.py").write_text("1")
            with judge.attempt(FILES, CommandError):
                selection = select_files(folder)
                judge.require("train.py" in {sent.path for sent in selection.files}, "lost", "train.py was not sent")
                refused = [name for name in selection.links if explain_refusal(folder, name)]
                judge.require(not refused, "crossed", f"links to files outside the folder: {refused}")
                judge_archive(judge, selection)


# --- git configuration -------------------------------------------------------------------------------------------------------


def draw_configuration(random: Random, program: Path) -> str:
    """Return a git configuration whose keys name a program, in a random form."""
    lines, keys = [], (*KEYS, *BREAKING_KEYS) if random.randrange(4) == 0 else KEYS
    for _ in range(KEYS_PER_REPOSITORY):
        section, _, rest = random.choice(keys).format(random.choice(("evil", "a b", "x"))).partition(".")
        inner, _, name = rest.rpartition(".")
        value = random.choice((f"{program}", f"!{program}", f"sh -c '{program}'", f"{program} %f", f"{program.parent}"))
        heading = f'[{section} "{inner}"]' if inner else f"[{section}]"
        lines += [heading, f"\t{name} = {value}"]
    return "\n".join([*lines, "[core]", f"\tfsmonitor = {program}", ""])


def set_trap(random: Random, git_dir: Path, program: Path) -> None:
    """Make a git directory run the program wherever it can."""
    with (git_dir / "config").open("a") as file:
        file.write(draw_configuration(random, program))
    (git_dir / "hooks").mkdir(exist_ok=True)
    for hook in HOOKS:
        (git_dir / "hooks" / hook).write_text(program.read_text())
        (git_dir / "hooks" / hook).chmod(0o755)


def try_git_folders(judge: Judge, random: Random, count: int) -> None:
    for _ in range(0, count, KEYS_PER_REPOSITORY):
        with TemporaryDirectory() as text:
            base = Path(os.path.realpath(text))
            trace, program, folder = base / "trace", base / "program", base / "code"
            program.write_text(f"#!/bin/sh\necho ran >> '{trace}'\n")
            program.chmod(0o755)
            nested = folder / "vendor" / "nested"
            for repository in (folder, nested):
                repository.mkdir(parents=True)
                (repository / "train.py").write_text("1")
                run_git(repository, "init", "-q")
                run_git(repository, "add", "train.py")
                (repository / ".gitattributes").write_text("* filter=evil diff=evil merge=evil\n")
                (repository / "train.py").write_text("2")
            for repository in (folder, nested):
                set_trap(random, repository / ".git", program)
            with judge.attempt(KEYS_PER_REPOSITORY, CommandError):
                names = set(git_files.list_files(folder))
                judge.require({"train.py", "vendor/nested/train.py"} <= names, "lost", f"only {sorted(names)} were listed")
            judge.require(not trace.exists(), "executed", "git ran a program of the folder")
