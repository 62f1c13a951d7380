"""The join service runs as root, and login users own their home folders: whatever a user puts there, the service changes
and reads nothing that the user could not.
"""

import os
import pwd
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from subprocess import CompletedProcess
from types import SimpleNamespace

import pytest
from gpumpi_join import machine

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act for another user")
USER = "nobody"
PATHS = (".ssh", ".ssh/id_ed25519", ".ssh/id_ed25519.pub")
"""Every path below a home that the service uses."""
SECRET = f"ssh-ed25519 {'S' * 68} of root\n"


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that other users may enter, unlike pytest's."""
    path = Path(tempfile.mkdtemp(prefix="gpumpi-join-", dir="/tmp"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.fixture
def home(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home folder of a user without other permissions."""
    entry = pwd.getpwnam(USER)
    path = folder / "home"
    path.mkdir(mode=0o755)
    os.chown(path, entry.pw_uid, entry.pw_gid)
    here = SimpleNamespace(pw_dir=str(path), pw_uid=entry.pw_uid, pw_gid=entry.pw_gid)
    monkeypatch.setattr(machine.pwd, "getpwnam", lambda name: here)
    return path


@pytest.fixture
def outside(folder: Path) -> Path:
    """Files of root that the login user may not change. Of these, the user can read only the join program."""
    path = folder / "outside"
    (path / "folder").mkdir(parents=True)
    (path / "folder" / "file").write_text("of root\n")
    (path / "secret").write_text(SECRET)
    (path / "secret").chmod(0o600)
    (path / "program").write_text("#!/bin/sh\n")
    (path / "program").chmod(0o755)
    (path / "private").mkdir(mode=0o700)
    return path


def describe_files(folder: Path) -> dict[str, tuple[object, ...]]:
    """Return owner, mode, type and content of everything in a folder."""
    return {
        str(path): (path.lstat().st_uid, path.lstat().st_gid, path.lstat().st_mode, path.is_file() and path.read_bytes())
        for path in [folder, *sorted(folder.rglob("*"))]
    }


def chown_to_user(path: Path) -> None:
    entry = pwd.getpwnam(USER)
    os.chown(path, entry.pw_uid, entry.pw_gid, follow_symlinks=False)


def place_file(kind: str, path: Path, outside: Path) -> None:
    """Create something at the path, as its user could. A hard link to a file of root represents a machine without
    `fs.protected_hardlinks`."""
    if kind == "hard link":
        os.link(outside / "program", path)
        return
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "garbage":
        path.write_bytes(b"\xff\x00" * 100)
    elif kind == "huge file":
        with path.open("wb") as file:
            file.truncate(1 << 40)
    else:
        path.symlink_to(outside / kind.removeprefix("link to "))
    chown_to_user(path)


LINKS = ("link to secret", "link to program", "link to folder", "link to private", "link to new", "link to /dev/zero")
KINDS = (*LINKS, "hard link", "fifo", "folder", "garbage", "huge file")


@pytest.mark.parametrize("others", ["no other files", "a key", "a public key"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", PATHS)
def test_files_in_a_user_home_cannot_change_files_outside_the_home(
    home: Path, outside: Path, name: str, kind: str, others: str
) -> None:
    path = home / name
    if path.parent != home:
        path.parent.mkdir(mode=0o700)
        chown_to_user(path.parent)
        other = home / (".ssh/id_ed25519" if others == "a key" else ".ssh/id_ed25519.pub")
        if others != "no other files" and other != path:
            other.write_text(f"ssh-ed25519 {'A' * 68} of the user\n")
            chown_to_user(other)
    place_file(kind, path, outside)
    before = describe_files(outside)
    try:
        key = machine.ensure_user_key(USER)
    except OSError:
        key = ""
    assert describe_files(outside) == before
    assert "S" * 68 not in key
    assert len(key) < 20_000


def test_a_new_key_pair_is_owned_by_the_user_and_kept(home: Path) -> None:
    key = machine.ensure_user_key(USER)
    uid = pwd.getpwnam(USER).pw_uid
    expected = {".ssh": 0o700, ".ssh/id_ed25519": 0o600, ".ssh/id_ed25519.pub": 0o644}
    modes = {name: (home / name).stat().st_mode & 0o777 for name in PATHS}
    assert modes == expected
    assert {(home / name).stat().st_uid for name in PATHS} == {uid}
    assert (home / PATHS[2]).read_text().startswith(key)
    assert machine.ensure_user_key(USER) == key


def test_a_key_that_the_user_created_is_used(home: Path) -> None:
    (home / ".ssh").mkdir(mode=0o700)
    for name in PATHS[1:]:
        (home / name).write_text(f"ssh-ed25519 {'A' * 68} of the user\n")
    for name in PATHS:
        chown_to_user(home / name)
    assert machine.ensure_user_key(USER) == f"ssh-ed25519 {'A' * 68}"


def test_a_failed_key_creation_names_the_cause() -> None:
    def fail(command: object) -> "CompletedProcess[str]":
        return CompletedProcess([], 1, "", "no space left\n")

    with pytest.raises(OSError, match="no space left"):
        machine.ensure_user_key("root", run=fail)


@pytest.mark.parametrize("stream", ["", " >&2"])
def test_endless_output_of_a_program_is_cut_off(stream: str) -> None:
    """A login user or a remote host can control what ssh prints."""
    done = machine.run_command(["sh", "-c", f"cat /dev/zero{stream}"])
    assert done.returncode != 0
    assert max(len(done.stdout), len(done.stderr)) <= machine.MAX_OUTPUT_BYTES
