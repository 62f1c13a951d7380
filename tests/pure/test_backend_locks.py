"""`recover` shows who locked a stack, and asks before it removes the lock of an operation that may still run."""

import io
import json
import os
import socket
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import NoCredentialsError
from typer.testing import CliRunner, Result

from cli import prompts
from cli.exit_codes import OK, REFUSED
from cli.main import app
from cli.stacks import pulumi_program, recover
from infra.recovery import backend_locks
from infra.recovery.recover_stack import Recovered

HERE = socket.gethostname()


@pytest.fixture
def pulumi_process(tmp_path: Path) -> Iterator[int]:
    """A running process with the name of Pulumi's program; it waits for its input, as an operation waits for AWS."""
    program = tmp_path / "pulumi"
    program.symlink_to("/bin/cat")
    with subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as process:
        yield process.pid
        process.kill()


@pytest.fixture
def killed_process(tmp_path: Path) -> int:
    with subprocess.Popen(["/bin/true"]) as process:
        process.wait()
    return process.pid


class Stack:
    """A stack in a folder, and the calls of `pulumi` that `recover` made."""

    def __init__(self, folder: Path) -> None:
        self.url = f"file://{folder}"
        self.locks = folder / ".pulumi" / "locks" / "organization" / "gpumpi" / "dev"
        self.locks.mkdir(parents=True)
        self.calls: list[str] = []

    def lock(self, pid: int, host: str = HERE, age: timedelta = timedelta(minutes=3), user: str = "ada") -> None:
        taken = (datetime.now(UTC) - age).strftime("%Y-%m-%dT%H:%M:%S.000000001Z")
        content = {"pid": pid, "username": user, "hostname": host, "timestamp": taken}
        (self.locks / f"{len(list(self.locks.iterdir()))}.json").write_text(json.dumps(content))

    def run_pulumi(self, *arguments: str, text: str | None = None) -> str:
        self.calls.append(arguments[0])
        return json.dumps({"url": self.url})

    @property
    def is_unlocked(self) -> bool:
        return "cancel" in self.calls


@pytest.fixture
def stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stack:
    stack = Stack(tmp_path)
    monkeypatch.setattr(pulumi_program, "run_pulumi", stack.run_pulumi)
    monkeypatch.setattr(recover, "recover", lambda *_: Recovered([], [], [], []))
    return stack


def run_recover(*options: str) -> Result:
    return CliRunner().invoke(app, ["recover", "-s", "dev", *options])


def test_lock_of_a_running_process_is_kept(stack: Stack, pulumi_process: int) -> None:
    stack.lock(pulumi_process, age=timedelta(days=2, hours=1))
    done = run_recover()
    assert (done.exit_code, stack.is_unlocked) == (REFUSED, False)
    lock = f"lock of ada@{HERE} (process {pulumi_process}), taken 2 d 1 h ago"
    assert f"the removal of the {lock}, needs confirmation" in done.stderr
    assert "Add --yes" in done.stderr


def test_recent_lock_of_another_machine_is_kept(stack: Stack, killed_process: int) -> None:
    stack.lock(killed_process, host="ci-7", age=timedelta(hours=5, minutes=50))
    done = run_recover("--json")
    assert (done.exit_code, stack.is_unlocked) == (REFUSED, False)
    assert "lock of ada@ci-7" in json.loads(done.stdout)["error"]


def test_no_lock_is_removed_while_one_lock_is_in_use(stack: Stack, killed_process: int) -> None:
    stack.lock(killed_process)
    stack.lock(7, host="ci-7")
    assert run_recover().exit_code == REFUSED
    assert not stack.is_unlocked


def test_damaged_state_file_is_not_repaired_while_its_operation_may_run(stack: Stack, tmp_path: Path) -> None:
    state = tmp_path / ".pulumi" / "stacks" / "gpumpi" / "dev.json"
    state.parent.mkdir(parents=True)
    state.write_text('{"half": ')
    state.with_name("dev.json.bak").write_text('{"version": 3}')
    stack.lock(7, host="ci-7")
    assert run_recover().exit_code == REFUSED
    assert state.read_text() == '{"half": '


@pytest.mark.parametrize(("host", "age"), [(HERE, timedelta(seconds=1)), ("ci-7", timedelta(hours=6, minutes=1))])
def test_abandoned_lock_is_shown_and_removed(stack: Stack, killed_process: int, host: str, age: timedelta) -> None:
    stack.lock(killed_process, host=host, age=age)
    done = run_recover()
    assert (done.exit_code, stack.is_unlocked) == (OK, True)
    assert f"dev: lock of ada@{host} (process {killed_process}), taken " in done.stderr


def test_lock_is_removed_if_its_process_id_belongs_to_another_program(stack: Stack) -> None:
    stack.lock(os.getpid())
    assert run_recover().exit_code == OK
    assert stack.is_unlocked


@pytest.mark.parametrize("host", [HERE, "ci-7"])
def test_yes_flag_removes_any_lock(stack: Stack, pulumi_process: int, host: str) -> None:
    stack.lock(pulumi_process, host=host)
    assert run_recover("--yes").exit_code == OK
    assert stack.is_unlocked


@pytest.mark.parametrize(("answer", "removed"), [("y", True), ("", False), ("n", False)])
def test_recover_asks_at_a_terminal_before_removing_a_lock(
    stack: Stack, monkeypatch: pytest.MonkeyPatch, answer: str, removed: bool
) -> None:
    stack.lock(7, host="ci-7")
    monkeypatch.setattr(prompts, "is_interactive", lambda: True)
    done = CliRunner().invoke(app, ["recover", "-s", "dev"], input=f"{answer}\n")
    assert (done.exit_code, stack.is_unlocked) == (OK if removed else REFUSED, removed)
    assert "lock of ada@ci-7 (process 7), taken 3 min ago" in done.stderr


def test_stack_without_lock_is_recovered_without_a_question(stack: Stack) -> None:
    assert run_recover().exit_code == OK


@pytest.mark.parametrize("content", ["", "[]", '{"pid": "x"}', '{"pid": 1, "username": "a", "hostname": "b", "timestamp": 5}'])
def test_removing_an_unreadable_lock_requires_confirmation(stack: Stack, content: str) -> None:
    (stack.locks / "a.json").write_text(content)
    assert run_recover().exit_code == REFUSED
    assert not stack.is_unlocked
    assert run_recover("--yes").exit_code == OK


@pytest.mark.parametrize("url", ["https://app.pulumi.com/ada", "gs://states", "azblob://states"])
def test_recover_requires_confirmation_if_the_backend_cannot_list_locks(stack: Stack, url: str) -> None:
    stack.url = url
    done = run_recover()
    assert (done.exit_code, stack.is_unlocked) == (REFUSED, False)


class Bucket:
    """Client of S3 with the lock of one stack."""

    def __init__(self) -> None:
        self.prefixes: list[str] = []

    def get_paginator(self, name: str) -> Any:
        return self

    def paginate(self, Bucket: str, Prefix: str) -> Any:
        self.prefixes.append(f"{Bucket}:{Prefix}")
        return [{"Contents": [{"Key": f"{Prefix}a.json"}]}, {}]

    def get_object(self, Bucket: str, Key: str) -> Any:
        content = {"pid": 7, "username": "ada", "hostname": "ci-7", "timestamp": "2026-11-21T10:00:00.5+02:00"}
        return {"Body": io.BytesIO(json.dumps(content).encode())}


def test_locks_are_read_from_a_bucket(monkeypatch: pytest.MonkeyPatch) -> None:
    bucket, queries = Bucket(), list[dict[str, str]]()
    monkeypatch.setattr(backend_locks, "_create_s3_client", lambda query: queries.append(query) or bucket)
    locks = backend_locks.read_locks("s3://states/team?region=eu-west-1&profile=ci", "gpumpi", "organization/gpumpi/dev")
    assert locks == [backend_locks.BackendLock("ada", "ci-7", 7, datetime(2026, 11, 21, 8, 0, 0, 500000, UTC))]
    assert bucket.prefixes == ["states:team/.pulumi/locks/organization/gpumpi/dev/"]
    assert queries == [{"region": "eu-west-1", "profile": "ci"}]


def test_recover_requires_confirmation_if_the_bucket_is_unreachable(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(query: dict[str, str]) -> Any:
        raise NoCredentialsError

    monkeypatch.setattr(backend_locks, "_create_s3_client", fail)
    assert backend_locks.read_locks("s3://states", "gpumpi", "dev") is None
