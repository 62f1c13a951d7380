"""`--workdir` does not run any program named by a folder's git configuration, hooks or attributes, or by the environment."""

import hashlib
import os
import subprocess
from pathlib import Path
from typing import Final

import pytest

from cli.errors import CommandError
from cli.jobs.workdir.selection import select_files

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


def run_git(folder: Path, *words: str) -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run(
        ["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], cwd=folder, check=True, capture_output=True
    )


class Trap:
    """A program that leaves a file behind when it runs."""

    def __init__(self, folder: Path) -> None:
        self.trace, self.program = folder / "trace", folder / "program"
        self.program.write_text(f"#!/bin/sh\necho ran >> '{self.trace}'\n")
        self.program.chmod(0o755)

    def build_configuration(self, keys: tuple[str, ...]) -> str:
        """Return a configuration in which each key names the program."""
        lines = []
        for key in keys:
            section, _, rest = key.partition(".")
            inner, _, name = rest.rpartition(".")
            value = f"!{self.program}" if section in ("alias", "submodule") else self.program
            lines += [f'[{section} "{inner}"]' if inner else f"[{section}]", f"\t{name} = {value}"]
        return "\n".join([*lines, "[core]", f"\thooksPath = {self.program.parent}/hooks", ""])

    def set_trap(self, git_dir: Path, keys: tuple[str, ...] = PROGRAM_KEYS) -> None:
        """Make a git directory run the program wherever it can."""
        with (git_dir / "config").open("a") as file:
            file.write(self.build_configuration(keys))
        for hooks in (git_dir / "hooks", self.program.parent / "hooks"):
            hooks.mkdir(exist_ok=True)
            for hook in HOOKS:
                (hooks / hook).write_text(self.program.read_text())
                (hooks / hook).chmod(0o755)


@pytest.fixture
def git_trap(tmp_path: Path) -> Trap:
    (folder := tmp_path / "trap").mkdir()
    return Trap(folder)


def make_repository(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "train.py").write_text("1")
    (folder / "tracked.bin").write_text("2")
    run_git(folder, "init", "-q")
    run_git(folder, "add", "train.py", "tracked.bin")
    run_git(folder, "commit", "-qm", "x")
    (folder / ".gitignore").write_text("*.bin\nout/\n")
    (folder / ".gitattributes").write_text("* filter=evil diff=evil merge=evil\n")
    (folder / "new.bin").write_text("3")
    (folder / "train.py").write_text("4")
    return folder


SENT = [".gitattributes", ".gitignore", "tracked.bin", "train.py"]


def list_selected_files(folder: Path) -> list[str]:
    return [file.path for file in select_files(folder).files]


def test_programs_in_repository_configuration_never_run(tmp_path: Path, git_trap: Trap) -> None:
    folder = make_repository(tmp_path / "code")
    git_trap.set_trap(folder / ".git")
    assert list_selected_files(folder) == SENT
    assert not git_trap.trace.exists()
    subprocess.run(["git", "ls-files", "--others"], cwd=folder, check=False, capture_output=True)
    assert git_trap.trace.exists(), "git itself runs a program, so the trap works"


def test_no_git_configuration_key_changes_the_files_sent(tmp_path: Path, git_trap: Trap) -> None:
    listed = subprocess.run(["git", "help", "--config"], capture_output=True, text=True, check=True).stdout
    keys = tuple(line.replace("<", "").replace(">", "").replace("*", "evil") for line in listed.split() if "." in line)
    assert len(keys) > 300
    folder = make_repository(tmp_path / "code")
    git_trap.set_trap(folder / ".git", keys)
    assert list_selected_files(folder) == SENT
    assert not git_trap.trace.exists()


@pytest.mark.parametrize("place", ["below", "above", "included", "worktree"])
def test_programs_in_nested_or_parent_repository_configuration_never_run(tmp_path: Path, git_trap: Trap, place: str) -> None:
    folder = make_repository(tmp_path / "code")
    expected = SENT
    if place == "below":
        inner = make_repository(folder / "inner")
        git_trap.set_trap(inner / ".git")
        expected = sorted([*SENT, *(f"inner/{name}" for name in SENT)])
    elif place == "above":
        git_trap.set_trap(folder / ".git")
        folder = folder / "job"
        folder.mkdir()
        (folder / "a.py").write_text("1")
        (folder / "a.bin").write_text("1")
        expected = ["a.py"]
    elif place == "included":
        (tmp_path / "more").write_text(git_trap.build_configuration(PROGRAM_KEYS))
        run_git(folder, "config", "include.path", str(tmp_path / "more"))
    else:
        run_git(folder, "worktree", "add", "-q", str(tmp_path / "tree"))
        git_trap.set_trap(folder / ".git")
        folder, expected = tmp_path / "tree", ["tracked.bin", "train.py"]
    assert list_selected_files(folder) == expected
    assert not git_trap.trace.exists()


def test_folder_that_looks_like_a_bare_repository_runs_no_program(tmp_path: Path, git_trap: Trap) -> None:
    run_git(tmp_path, "init", "-q", "--bare", "code")
    git_trap.set_trap(tmp_path / "code")
    git_config = tmp_path / "code" / "config"
    git_config.write_text(git_config.read_text().replace("bare = true", "bare = false\n\tworktree = ."))
    assert {"HEAD", "config"} <= set(list_selected_files(tmp_path / "code"))
    assert not git_trap.trace.exists()


def test_programs_in_user_configuration_or_environment_never_run(
    tmp_path: Path, git_trap: Trap, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_repository(tmp_path / "code")
    (home := tmp_path / "home").mkdir()
    (home / ".gitconfig").write_text(git_trap.build_configuration(PROGRAM_KEYS))
    monkeypatch.setenv("HOME", str(home))
    for name in VARIABLES:
        monkeypatch.setenv(name, str(git_trap.trace if "TRACE" in name else git_trap.program))
    for name, value in {"COUNT": "1", "KEY_0": "core.fsmonitor", "VALUE_0": str(git_trap.program)}.items():
        monkeypatch.setenv(f"GIT_CONFIG_{name}", value)
    monkeypatch.setenv("GIT_DIR", str(tmp_path))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "index"))
    assert list_selected_files(folder) == SENT
    assert not git_trap.trace.exists()


@pytest.mark.parametrize("entry", [".", "", "bin"])
def test_git_executable_in_the_folder_is_never_run(
    tmp_path: Path, git_trap: Trap, monkeypatch: pytest.MonkeyPatch, entry: str
) -> None:
    folder = make_repository(tmp_path / "code")
    place = folder / entry / "git"
    place.parent.mkdir(exist_ok=True)
    place.symlink_to(git_trap.program)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PATH", f"{entry}{os.pathsep}{os.environ['PATH']}")
    assert list_selected_files(folder) == SENT
    assert not git_trap.trace.exists()


def test_tracked_file_replaced_by_a_folder_is_sent_once(tmp_path: Path) -> None:
    folder = make_repository(tmp_path / "code")
    (folder / "train.py").unlink()
    (folder / "train.py").mkdir()
    (folder / "train.py" / "a.py").write_text("1")
    assert list_selected_files(folder) == [*SENT[:3], "train.py/a.py"]


@pytest.mark.parametrize("file", [".gitconfig", "included"])
def test_globally_ignored_files_are_not_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str) -> None:
    folder = make_repository(tmp_path / "code")
    (home := tmp_path / "home").mkdir()
    (home / "ignored").write_text("*.swp\n")
    (home / ".gitconfig").write_text("[include]\n\tpath = ~/included\n")
    (home / file).write_text("[core]\n\texcludesFile = ~/ignored\n")
    monkeypatch.setenv("HOME", str(home))
    (folder / "a.swp").write_text("1")
    (folder / ".git" / "info").mkdir(exist_ok=True)
    (folder / ".git" / "info" / "exclude").write_text("private.txt\n")
    (folder / "private.txt").write_text("1")
    assert list_selected_files(folder) == SENT


@pytest.mark.parametrize("form", [["--object-format=sha256"], ["--separate-git-dir=../elsewhere"]], ids=["SHA-256", "elsewhere"])
def test_tracked_files_are_sent_from_every_repository_format(tmp_path: Path, form: list[str]) -> None:
    (folder := tmp_path / "code").mkdir()
    (folder / "a.bin").write_text("1")
    run_git(folder, "init", "-q", *form)
    run_git(folder, "add", "a.bin")
    (folder / ".gitignore").write_text("*.bin\n")
    assert list_selected_files(folder) == [".gitignore", "a.bin"]


def test_tracked_files_of_a_split_index_are_sent(tmp_path: Path) -> None:
    folder = make_repository(tmp_path / "code")
    run_git(folder, "update-index", "--split-index")
    (folder / "late.bin").write_text("1")
    run_git(folder, "add", "-f", "late.bin")
    assert list_selected_files(folder) == sorted([*SENT, "late.bin"])


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
    folder = make_repository(tmp_path / "code")
    blob = run_git(folder, "hash-object", "-w", "train.py").stdout.decode().strip()
    run_git(folder, "update-index", "--add", "--cacheinfo", f"100644,{blob},{genuine}")
    index = folder / ".git" / "index"
    content = index.read_bytes()[:-20].replace(genuine.encode(), forged.encode())
    index.write_bytes(content + hashlib.sha1(content).digest())
    (folder / "link").symlink_to("/etc")
    assert forged.encode() in run_git(folder, "ls-files", "-z").stdout.split(b"\0"), "git itself lists the forged name"
    assert list_selected_files(folder) == SENT


def test_listing_files_does_not_modify_the_repository(tmp_path: Path) -> None:
    folder = make_repository(tmp_path / "code")
    before = {path: path.stat().st_mtime_ns for path in (folder / ".git").rglob("*")}
    select_files(folder)
    assert {path: path.stat().st_mtime_ns for path in (folder / ".git").rglob("*")} == before


def test_corrupt_index_gets_one_line_error(tmp_path: Path) -> None:
    folder = make_repository(tmp_path / "code")
    (folder / ".git" / "index").write_bytes(b"DIRC" + os.urandom(40))
    with pytest.raises(CommandError, match=f"^workdir: git cannot list {folder}: "):
        select_files(folder)


@pytest.mark.parametrize("pointer", [b"", b"\xff\xfe", b"gitdir: \x00", b"gitdir: a" * 40, b"gitdir: ."], ids=repr)
def test_pointer_to_a_missing_repository_is_ignored(tmp_path: Path, pointer: bytes) -> None:
    (tmp_path / ".git").write_bytes(pointer)
    (tmp_path / "a.py").write_text("1")
    assert list_selected_files(tmp_path) == ["a.py"]
