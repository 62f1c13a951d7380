"""Commands that keep running when the SSH connection breaks. The scripts run in bash on this machine instead of on a
head node.
"""

import io
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from tenacity import retry, stop_after_delay, wait_fixed

from cli import remote_run
from cli.remote_run import SSH_FAILED, Lost


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("HOME", str(tmp_path))
    yield tmp_path
    for pid in (tmp_path / ".gpumpi" / "runs").glob("*/pid"):
        try:
            os.killpg(int(pid.read_text()), signal.SIGKILL)
        except ProcessLookupError:
            continue


def bash(script: str) -> Sequence[str]:
    return ["bash", "-c", script]


def followed(command: remote_run.Command, id: str) -> tuple[int, str]:
    output = io.BytesIO()
    code = remote_run.follow(command, id, output, wait=lambda seconds: None)
    return code, output.getvalue().decode()


@pytest.mark.parametrize("code", [0, 1, 7, 130, 255])
def test_the_exit_code_is_that_of_the_command(code: int) -> None:
    remote_run.start(bash, "one", ["sh", "-c", f"echo out; echo err >&2; exit {code}"], None)
    assert followed(bash, "one") == (code, "out\nerr\n")


def test_arguments_arrive_unchanged(tmp_path: Path) -> None:
    words = ["printf", "%s|", "two words", "$HOME", "it's", '"', "a\nb", "*", ""]
    remote_run.start(bash, "one", words, None)
    assert followed(bash, "one") == (0, "two words|$HOME|it's|\"|a\nb|*||")


def test_the_command_runs_in_the_requested_folder(tmp_path: Path) -> None:
    place = tmp_path / "a place"
    place.mkdir()
    remote_run.start(bash, "one", ["pwd"], str(place))
    assert followed(bash, "one") == (0, f"{place}\n")


def test_a_missing_folder_is_reported() -> None:
    with pytest.raises(Lost, match="No such file or directory"):
        remote_run.start(bash, "one", ["pwd"], "/not/there")


def test_a_start_that_is_sent_twice_starts_once(tmp_path: Path) -> None:
    for _ in range(2):
        remote_run.start(bash, "one", ["sh", "-c", f"echo ran >>{tmp_path}/runs"], None)
    assert followed(bash, "one")[0] == 0
    assert (tmp_path / "runs").read_text() == "ran\n"


def test_the_command_keeps_running_and_no_output_is_lost_or_repeated_when_connections_break(tmp_path: Path) -> None:
    """After each line, the command waits until the test lets it continue. Each connection breaks after a few lines."""
    gate = tmp_path / "gate"
    script = f"for i in 1 2 3 4 5 6 7 8; do echo line $i; until test -e {gate}$i; do sleep 0.02; done; done; exit 9"
    remote_run.start(bash, "one", ["sh", "-c", script], None)
    looks: list[int] = []

    def breaking(script: str) -> Sequence[str]:
        looks.append(1)
        for number in range(3 * len(looks)):
            (tmp_path / f"gate{number}").touch()
        if len(looks) > 3:
            return ["bash", "-c", script]
        # the connection breaks after two lines: `head` exits, and SIGPIPE ends the remote tail
        return ["bash", "-c", f"({script}) | head --lines=2; exit {SSH_FAILED}"]

    code, text = followed(breaking, "one")
    assert (code, text) == (9, "".join(f"line {number}\n" for number in range(1, 9)))
    assert len(looks) >= 4


def test_a_command_killed_with_its_head_node_is_lost_and_not_a_success() -> None:
    remote_run.start(bash, "one", ["sh", "-c", "kill -9 -- -$$; kill -9 $PPID"], None)
    with pytest.raises(Lost, match="without an exit code"):
        followed(bash, "one")


def test_a_run_from_before_a_reboot_is_recognized(tmp_path: Path) -> None:
    remote_run.start(bash, "one", ["sleep", "600"], None)
    (tmp_path / ".gpumpi/runs/one/boot").write_text("another\n")
    with pytest.raises(Lost, match="the head node restarted"):
        followed(bash, "one")


def test_an_unknown_run_is_reported() -> None:
    with pytest.raises(Lost, match="the head node has no run never"):
        followed(bash, "never")


def test_a_stop_ends_all_processes_of_the_command(tmp_path: Path) -> None:
    remote_run.start(bash, "one", ["sh", "-c", f"sleep 600 & echo $! >{tmp_path}/child; wait"], None)

    @retry(stop=stop_after_delay(20), wait=wait_fixed(0.05), reraise=True)
    def child() -> int:
        return int((tmp_path / "child").read_text())

    pid = child()
    subprocess.run(bash(remote_run.stop_script("one")), check=True)

    @retry(stop=stop_after_delay(20), wait=wait_fixed(0.05), reraise=True)
    def gone() -> None:
        status = Path(f"/proc/{pid}/stat")
        assert not status.exists() or status.read_text().rpartition(")")[2].split()[0] == "Z"

    gone()


def test_a_refused_key_ends_at_once() -> None:
    refused = [
        sys.executable,
        "-c",
        f"import sys; print('ada@i-1: Permission denied (publickey).', file=sys.stderr); sys.exit({SSH_FAILED})",
    ]
    waited: list[float] = []
    with pytest.raises(Lost, match="Permission denied"):
        remote_run.start(lambda script: refused, "one", ["true"], None, wait=waited.append)
    assert waited == []
