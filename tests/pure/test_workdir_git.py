"""`--workdir` runs nothing that a folder's git configuration, hooks, attributes or the environment name."""

import hashlib
import os
import subprocess
from pathlib import Path
from typing import Final

import pytest

from cli.errors import CommandError
from cli.jobs.workdir.selection import select

PROGRAM_KEYS: Final = (
    *("core.fsmonitor", "core.sshCommand", "core.pager", "core.editor", "core.askPass", "core.gitProxy"),
    *("core.alternateRefsCommand", "sequence.editor", "diff.external", "diff.evil.command", "diff.evil.textconv"),
    *("filter.evil.clean", "filter.evil.smudge", "filter.evil.process", "merge.evil.driver", "mergetool.evil.cmd"),
    *("difftool.evil.cmd", "credential.helper", "gpg.program", "gpg.ssh.program", "gpg.ssh.defaultKeyCommand"),
    *("uploadpack.packObjectsHook", "remote.origin.uploadpack", "remote.origin.receivepack", "remote.origin.vcs"),
    *("pager.ls-files", "pager.config", "pager.init", "alias.ls-files", "alias.init", "alias.config", "alias.rev-parse"),
    *("trailer.evil.cmd", "trailer.evil.command", "interactive.diffFilter", "web.browser", "browser.evil.cmd", "man.evil.cmd"),
    *("submodule.inner.update", "tar.evil.command", "sendemail.sendmailCmd", "imap.tunnel", "receive.procReceiveRefs"),
    *("instaweb.httpd", "guitool.evil.cmd", "blame.evil", "init.templateDir", "trace2.normalTarget", "help.browser"),
)
HOOKS: Final = (
    *("post-index-change", "fsmonitor-watchman", "post-checkout", "pre-commit", "reference-transaction", "post-update"),
    *("query-watchman", "pre-auto-gc", "update"),
)
VARIABLES: Final = (
    *("GIT_EXTERNAL_DIFF", "GIT_SSH_COMMAND", "GIT_SSH", "GIT_PAGER", "GIT_EDITOR", "GIT_SEQUENCE_EDITOR", "GIT_ASKPASS"),
    *("GIT_PROXY_COMMAND", "GIT_TRACE", "GIT_TRACE2", "GIT_TRACE_SETUP"),
)


def git(folder: Path, *words: str) -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run(
        ["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], cwd=folder, check=True, capture_output=True
    )


class Trap:
    """A program that leaves a file behind when it runs."""

    def __init__(self, folder: Path) -> None:
        self.trace, self.program = folder / "trace", folder / "program"
        self.program.write_text(f"#!/bin/sh\necho ran >> '{self.trace}'\n")
        self.program.chmod(0o755)

    def configuration(self, keys: tuple[str, ...]) -> str:
        """Return a configuration in which each key names the program."""
        lines = []
        for key in keys:
            section, _, rest = key.partition(".")
            inner, _, name = rest.rpartition(".")
            value = f"!{self.program}" if section in ("alias", "submodule") else self.program
            lines += [f'[{section} "{inner}"]' if inner else f"[{section}]", f"\t{name} = {value}"]
        return "\n".join([*lines, "[core]", f"\thooksPath = {self.program.parent}/hooks", ""])

    def set_in(self, git_dir: Path, keys: tuple[str, ...] = PROGRAM_KEYS) -> None:
        """Make a git directory run the program wherever it can."""
        with (git_dir / "config").open("a") as file:
            file.write(self.configuration(keys))
        for hooks in (git_dir / "hooks", self.program.parent / "hooks"):
            hooks.mkdir(exist_ok=True)
            for hook in HOOKS:
                (hooks / hook).write_text(self.program.read_text())
                (hooks / hook).chmod(0o755)


@pytest.fixture
def trap(tmp_path: Path) -> Trap:
    (folder := tmp_path / "trap").mkdir()
    return Trap(folder)


def repository(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "train.py").write_text("1")
    (folder / "tracked.bin").write_text("2")
    git(folder, "init", "-q")
    git(folder, "add", "train.py", "tracked.bin")
    git(folder, "commit", "-qm", "x")
    (folder / ".gitignore").write_text("*.bin\nout/\n")
    (folder / ".gitattributes").write_text("* filter=evil diff=evil merge=evil\n")
    (folder / "new.bin").write_text("3")
    (folder / "train.py").write_text("4")
    return folder


SENT = [".gitattributes", ".gitignore", "tracked.bin", "train.py"]


def names(folder: Path) -> list[str]:
    return [file.path for file in select(folder).files]


def test_no_program_of_a_repositorys_configuration_runs(tmp_path: Path, trap: Trap) -> None:
    folder = repository(tmp_path / "code")
    trap.set_in(folder / ".git")
    assert names(folder) == SENT
    assert not trap.trace.exists()
    subprocess.run(["git", "ls-files", "--others"], cwd=folder, check=False, capture_output=True)
    assert trap.trace.exists(), "git itself runs a program, so the trap works"


def test_no_key_that_git_knows_changes_what_is_sent(tmp_path: Path, trap: Trap) -> None:
    listed = subprocess.run(["git", "help", "--config"], capture_output=True, text=True, check=True).stdout
    keys = tuple(line.replace("<", "").replace(">", "").replace("*", "evil") for line in listed.split() if "." in line)
    assert len(keys) > 300
    folder = repository(tmp_path / "code")
    trap.set_in(folder / ".git", keys)
    assert names(folder) == SENT
    assert not trap.trace.exists()


@pytest.mark.parametrize("place", ["below", "above", "included", "worktree"])
def test_no_program_of_another_configuration_runs(tmp_path: Path, trap: Trap, place: str) -> None:
    folder = repository(tmp_path / "code")
    expected = SENT
    if place == "below":
        inner = repository(folder / "inner")
        trap.set_in(inner / ".git")
        expected = sorted([*SENT, *(f"inner/{name}" for name in SENT)])
    elif place == "above":
        trap.set_in(folder / ".git")
        folder = folder / "job"
        folder.mkdir()
        (folder / "a.py").write_text("1")
        (folder / "a.bin").write_text("1")
        expected = ["a.py"]
    elif place == "included":
        (tmp_path / "more").write_text(trap.configuration(PROGRAM_KEYS))
        git(folder, "config", "include.path", str(tmp_path / "more"))
    else:
        git(folder, "worktree", "add", "-q", str(tmp_path / "tree"))
        trap.set_in(folder / ".git")
        folder, expected = tmp_path / "tree", ["tracked.bin", "train.py"]
    assert names(folder) == expected
    assert not trap.trace.exists()


def test_a_folder_that_looks_like_a_bare_repository_runs_nothing(tmp_path: Path, trap: Trap) -> None:
    git(tmp_path, "init", "-q", "--bare", "code")
    trap.set_in(tmp_path / "code")
    git_config = tmp_path / "code" / "config"
    git_config.write_text(git_config.read_text().replace("bare = true", "bare = false\n\tworktree = ."))
    assert {"HEAD", "config"} <= set(names(tmp_path / "code"))
    assert not trap.trace.exists()


def test_no_program_of_the_users_configuration_or_environment_runs(
    tmp_path: Path, trap: Trap, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = repository(tmp_path / "code")
    (home := tmp_path / "home").mkdir()
    (home / ".gitconfig").write_text(trap.configuration(PROGRAM_KEYS))
    monkeypatch.setenv("HOME", str(home))
    for name in VARIABLES:
        monkeypatch.setenv(name, str(trap.trace if "TRACE" in name else trap.program))
    for name, value in {"COUNT": "1", "KEY_0": "core.fsmonitor", "VALUE_0": str(trap.program)}.items():
        monkeypatch.setenv(f"GIT_CONFIG_{name}", value)
    monkeypatch.setenv("GIT_DIR", str(tmp_path))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "index"))
    assert names(folder) == SENT
    assert not trap.trace.exists()


@pytest.mark.parametrize("entry", [".", "", "bin"])
def test_a_program_in_the_folder_is_not_mistaken_for_git(
    tmp_path: Path, trap: Trap, monkeypatch: pytest.MonkeyPatch, entry: str
) -> None:
    folder = repository(tmp_path / "code")
    place = folder / entry / "git"
    place.parent.mkdir(exist_ok=True)
    place.symlink_to(trap.program)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PATH", f"{entry}{os.pathsep}{os.environ['PATH']}")
    assert names(folder) == SENT
    assert not trap.trace.exists()


def test_a_tracked_file_that_became_a_folder_is_sent_once(tmp_path: Path) -> None:
    folder = repository(tmp_path / "code")
    (folder / "train.py").unlink()
    (folder / "train.py").mkdir()
    (folder / "train.py" / "a.py").write_text("1")
    assert names(folder) == [*SENT[:3], "train.py/a.py"]


@pytest.mark.parametrize("file", [".gitconfig", "included"])
def test_files_that_the_user_ignores_everywhere_are_not_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str) -> None:
    folder = repository(tmp_path / "code")
    (home := tmp_path / "home").mkdir()
    (home / "ignored").write_text("*.swp\n")
    (home / ".gitconfig").write_text("[include]\n\tpath = ~/included\n")
    (home / file).write_text("[core]\n\texcludesFile = ~/ignored\n")
    monkeypatch.setenv("HOME", str(home))
    (folder / "a.swp").write_text("1")
    (folder / ".git" / "info").mkdir(exist_ok=True)
    (folder / ".git" / "info" / "exclude").write_text("private.txt\n")
    (folder / "private.txt").write_text("1")
    assert names(folder) == SENT


@pytest.mark.parametrize("form", [["--object-format=sha256"], ["--separate-git-dir=../elsewhere"]], ids=["SHA-256", "elsewhere"])
def test_tracked_files_of_any_form_of_repository_are_sent(tmp_path: Path, form: list[str]) -> None:
    (folder := tmp_path / "code").mkdir()
    (folder / "a.bin").write_text("1")
    git(folder, "init", "-q", *form)
    git(folder, "add", "a.bin")
    (folder / ".gitignore").write_text("*.bin\n")
    assert names(folder) == [".gitignore", "a.bin"]


def test_tracked_files_of_a_split_index_are_sent(tmp_path: Path) -> None:
    folder = repository(tmp_path / "code")
    git(folder, "update-index", "--split-index")
    (folder / "late.bin").write_text("1")
    git(folder, "add", "-f", "late.bin")
    assert names(folder) == sorted([*SENT, "late.bin"])


@pytest.mark.parametrize(
    ("genuine", "forged"),
    [
        ("xx/secret.txt", "../secret.txt"),
        ("xx/yy/zz/s", "xx/../../s"),
        ("gitx/config", ".git/config"),
        ("gitx/config", ".GIT/config"),
        ("in/yy/zz/secret.txt", "in/../../secret.txt"),
        ("etcx/passwd", "/etc/passwd"),
        ("dirs/passwd", "link/passwd"),
        ("xx", ".."),
    ],
)
def test_a_forged_index_sends_nothing_outside_the_folder(tmp_path: Path, genuine: str, forged: str) -> None:
    for secret in ("secret.txt", "s"):
        (tmp_path / secret).write_text("private")
    folder = repository(tmp_path / "code")
    blob = git(folder, "hash-object", "-w", "train.py").stdout.decode().strip()
    git(folder, "update-index", "--add", "--cacheinfo", f"100644,{blob},{genuine}")
    index = folder / ".git" / "index"
    content = index.read_bytes()[:-20].replace(genuine.encode(), forged.encode())
    index.write_bytes(content + hashlib.sha1(content).digest())
    (folder / "link").symlink_to("/etc")
    assert forged.encode() in git(folder, "ls-files", "-z").stdout.split(b"\0"), "git itself lists the forged name"
    assert names(folder) == SENT


def test_listing_changes_nothing_in_the_repository(tmp_path: Path) -> None:
    folder = repository(tmp_path / "code")
    before = {path: path.stat().st_mtime_ns for path in (folder / ".git").rglob("*")}
    select(folder)
    assert {path: path.stat().st_mtime_ns for path in (folder / ".git").rglob("*")} == before


def test_a_broken_index_is_one_sentence(tmp_path: Path) -> None:
    folder = repository(tmp_path / "code")
    (folder / ".git" / "index").write_bytes(b"DIRC" + os.urandom(40))
    with pytest.raises(CommandError, match=f"^workdir: git cannot list {folder}: "):
        select(folder)


@pytest.mark.parametrize("pointer", [b"", b"\xff\xfe", b"gitdir: \x00", b"gitdir: a" * 40, b"gitdir: ."], ids=repr)
def test_a_pointer_to_no_repository_is_ignored(tmp_path: Path, pointer: bytes) -> None:
    (tmp_path / ".git").write_bytes(pointer)
    (tmp_path / "a.py").write_text("1")
    assert names(tmp_path) == ["a.py"]
