"""List the files of a folder that git tracks or would add, without running anything that git's configuration names.

The configuration of a repository can name programs that git runs, such as `core.fsmonitor`, and the folder may come
from an untrusted source. Therefore git lists the files with a new git directory that has a copy of the repository's
index and no configuration.
"""

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cli.errors import CommandError

_SHA256: Final = re.compile(r"^\s*objectformat\s*=\s*\"?sha256\b", re.IGNORECASE | re.MULTILINE)
_NO_PROGRAMS: Final = ("-c", "core.fsmonitor=false", "-c", f"core.hooksPath={os.devnull}", "-c", "core.untrackedCache=false")
"""For versions of git that do not know GIT_CONFIG_GLOBAL."""


@dataclass(frozen=True)
class Repository:
    """A git repository on this machine."""

    root: Path
    """Root of the working tree."""
    git_dir: Path
    """Folder with the index."""
    common_dir: Path
    """Folder with the configuration and `info/exclude`, which all working trees of the repository share."""


def list_files(root: Path) -> Iterator[str]:
    """Yield the files that git tracks or would add. A folder outside a repository is treated as a new repository.

    Raises CommandError if git is missing or fails.
    """
    if _find_git() is None:
        raise CommandError("workdir: git is not on PATH, and only git knows which files are ignored. Install git.")
    repository = _find_repository(root)
    with tempfile.TemporaryDirectory(prefix="gpumpi-git-") as folder:
        excluding = ("--git-dir=/dev/null", "config", "--global", "--includes", "--type=path", "--get", "core.excludesFile")
        excludes = _run_git(Path(folder), *excluding, own=True)
        _create_git_directory(Path(folder), repository)
        where: tuple[str, ...] = (f"--git-dir={folder}", f"--work-tree={repository.root if repository else root}")
        if file := os.fsdecode(excludes.stdout).strip():
            where = (*where, "-c", f"core.excludesFile={file}")
        done = _run_git(root, *where, "ls-files", "--cached", "--others", "--exclude-standard", "-z")
    if done.returncode != 0:
        raise CommandError(f"workdir: git cannot list {root}: {done.stderr.decode(errors='replace').strip()}")
    for name in dict.fromkeys(os.fsdecode(part) for part in done.stdout.split(b"\0") if part):
        if not _is_inside_folder(root, name):
            continue
        path = root / name
        if path.is_dir() and not path.is_symlink():  # `name` is a submodule or a nested repository
            yield from (f"{name.rstrip('/')}/{inner}" for inner in list_files(path))
        else:
            yield name


def _find_git() -> str | None:
    """Return the path of git. Ignore relative entries of PATH: they could name a program in the folder."""
    return shutil.which("git", path=os.pathsep.join(filter(os.path.isabs, os.environ.get("PATH", "").split(os.pathsep))))


def _find_repository(folder: Path) -> Repository | None:
    """Return the repository whose working tree contains the folder, by git's rules."""
    for root in (folder, *folder.parents):
        git_dir = root / ".git"
        if _is_file(git_dir):
            pointer = git_dir.read_text(encoding="utf-8", errors="surrogateescape")
            git_dir = root / pointer.removeprefix("gitdir:").strip()
        if _is_file(git_dir / "HEAD"):
            shared = git_dir / "commondir"
            common = (
                git_dir / shared.read_text(encoding="utf-8", errors="surrogateescape").strip() if _is_file(shared) else git_dir
            )
            return Repository(root, git_dir, common)
    return None


def _is_inside_folder(root: Path, name: str) -> bool:
    """Return whether a file with this name is in the folder itself: a forged index can contain any name. As in git, a
    file behind a symbolic link is not in the folder."""
    folder = (root / name).parent
    return (
        folder.is_relative_to(root)
        and os.path.realpath(folder) == str(folder)
        and not {".git", ".."} & {*name.lower().split("/")}
    )


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # such as a broken link whose target is too long a name
        return False


def _create_git_directory(folder: Path, repository: Repository | None) -> None:
    """Create a git directory with the index and the excluded patterns of the repository, but not its configuration."""
    config = repository.common_dir / "config" if repository else Path(os.devnull)
    text = config.read_text(encoding="utf-8", errors="replace") if _is_file(config) else ""
    kind = "sha256" if _SHA256.search(text) else "sha1"
    _run_git(folder, "init", "--quiet", "--bare", "--template=", f"--object-format={kind}", str(folder))
    if repository is None:
        return
    for file in (repository.git_dir / "index", *repository.git_dir.glob("sharedindex.*")):
        if _is_file(file):
            shutil.copyfile(file, folder / file.name)
    if _is_file(excluded := repository.common_dir / "info" / "exclude"):
        (folder / "info").mkdir(exist_ok=True)
        shutil.copyfile(excluded, folder / "info" / "exclude")


def _run_git(folder: Path, *words: str, own: bool = False) -> "subprocess.CompletedProcess[bytes]":
    """Run git without any configuration; with `own`, with the user's configuration."""
    # The caller may run in a git hook, where GIT_* variables point to another repository.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment["GIT_CONFIG_NOSYSTEM"] = "1"
    if not own:
        environment["GIT_CONFIG_GLOBAL"] = os.devnull
    return subprocess.run(
        [_find_git() or "git", *_NO_PROGRAMS, *words], cwd=folder, env=environment, capture_output=True, check=False
    )
