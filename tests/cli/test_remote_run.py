"""Commands that keep running when the SSH connection breaks. The scripts run in bash on this machine instead of on a
head node.
"""

import io
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from tenacity import retry, stop_after_delay, wait_fixed

from cli.ec2 import remote_restarts, remote_run, remote_runs
from cli.ec2.remote_run import SSH_FAILED, Lost
from cli.errors import NotFound
from cli.jobs.workdir.selection import select_files
from infra.naming import Naming


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("HOME", str(tmp_path))
    yield tmp_path
    for pid in (tmp_path / ".gpumpi" / "runs").glob("*/pid"):
        try:
            os.killpg(int(pid.read_text()), signal.SIGKILL)
        except ProcessLookupError:
            continue


def make_bash_command(script: str) -> Sequence[str]:
    return ["bash", "-c", script]


def follow_run(command: remote_run.Command, id: str) -> tuple[int, str]:
    output = io.BytesIO()
    code = remote_run.follow_log(command, id, output, wait=lambda seconds: None)
    return code, output.getvalue().decode()


@pytest.mark.parametrize("code", [0, 1, 7, 130, 255])
def test_a_run_returns_the_exit_code_of_its_command(code: int) -> None:
    remote_run.start_run(make_bash_command, "one", ["sh", "-c", f"echo out; echo err >&2; exit {code}"], None)
    assert follow_run(make_bash_command, "one") == (code, "out\nerr\n")


@pytest.mark.parametrize(("fails", "restarts", "code"), [(2, 2, 0), (3, 2, 7), (0, 2, 0)])
def test_a_failed_command_is_restarted_up_to_the_requested_number_of_times(
    tmp_path: Path, fails: int, restarts: int, code: int
) -> None:
    script = f"echo try >>{tmp_path}/tries; test $(wc -l <{tmp_path}/tries) -gt {fails} || exit 7"
    remote_run.start_run(make_bash_command, "one", ["sh", "-c", script], None, restarts)
    expected_output = "".join(
        f"run: restart {number} of {restarts} after exit code 7\n" for number in range(1, min(fails, restarts) + 1)
    )
    assert follow_run(make_bash_command, "one") == (code, expected_output)
    (run,) = remote_runs.parse_runs(
        subprocess.run(make_bash_command(remote_runs._LIST), capture_output=True, text=True, check=True).stdout
    )
    assert (run.id, run.phase, run.restarts) == ("one", "Failed" if code else "Succeeded", min(fails, restarts))
    assert run.command == ("sh", "-c", script) and run.ended is not None


SSH = """#!/bin/sh
# Stands for ssh: hosts with a file named after them do not answer.
for host in "$@"; do [ "$host" = true ] || last=$host; done
[ ! -e "$HOME/down-$last" ]
"""


@pytest.fixture
def hostfile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A hostfile with two workers. `ssh` and `hostname` are stubs."""
    programs = {"ssh": SSH, "hostname": "#!/bin/sh\necho 10.0.0.1\n"}
    for name, text in programs.items():
        (tmp_path / "bin").mkdir(exist_ok=True)
        (tmp_path / "bin" / name).write_text(text)
        (tmp_path / "bin" / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    monkeypatch.setattr(remote_restarts, "PAUSE_SECONDS", 0.05)
    file = tmp_path / "hostfile"
    file.write_text("10.0.0.2 slots=8\n10.0.0.3 slots=8\n")
    return file


def run_with_restarts(command: str, restarts: int, hostfile: Path) -> "subprocess.CompletedProcess[str]":
    script = remote_restarts.wrap_in_restart_script(shlex.join(["bash", "-c", command]), restarts, str(hostfile))
    environment = {**os.environ, "GPUMPI_RUN": str(hostfile.parent)}
    return subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False, env=environment, timeout=60)


REPLACE = """#!/bin/sh
# Stands for sed, which reads the hostfile. After each reading that follows the first wait, the cluster changes.
/usr/bin/env -i PATH=/usr/bin:/bin sed "$@"
grep -q waiting "$HOME/err" || exit 0
if mkdir "$HOME/removed"; then echo 10.0.0.2 slots=8 >"$HOME/hostfile"
elif mkdir "$HOME/joined"; then touch "$HOME/down-10.0.0.4"; echo 10.0.0.4 slots=8 >>"$HOME/hostfile"
elif mkdir "$HOME/boots"; then :
else rm -f "$HOME/down-10.0.0.4"
fi 2>/dev/null
"""


def test_a_command_that_lost_a_node_restarts_when_the_replacement_responds(tmp_path: Path, hostfile: Path) -> None:
    """The join service removes the lost node while the script checks for it. The replacement joins and answers later."""
    (tmp_path / "bin" / "sed").write_text(REPLACE)
    (tmp_path / "bin" / "sed").chmod(0o755)
    first = "if mkdir $HOME/tried 2>/dev/null; then touch $HOME/down-10.0.0.3; exit 5; fi"
    command = f"echo on $(cut -d ' ' -f 1 {hostfile}) $(cd $HOME && ls down-10.0.0.4 2>/dev/null); {first}"
    script = remote_restarts.wrap_in_restart_script(shlex.join(["bash", "-c", command]), 1, str(hostfile))
    with (tmp_path / "err").open("w") as err:
        environment = {**os.environ, "GPUMPI_RUN": str(tmp_path)}
        done = subprocess.run(["bash", "-c", script], stdout=subprocess.PIPE, stderr=err, text=True, timeout=60, env=environment)
    error_lines = (tmp_path / "err").read_text().splitlines()
    assert (done.returncode, done.stdout) == (0, "on 10.0.0.2 10.0.0.3\non 10.0.0.2 10.0.0.4\n")
    assert error_lines == [
        "run: lost 10.0.0.3",
        "run: restart 1 of 1 after exit code 5",
        "run: waiting until all 2 nodes answer",
    ]


def test_a_lost_node_is_a_failure_even_if_mpirun_exits_with_0(tmp_path: Path, hostfile: Path) -> None:
    done = run_with_restarts("touch $HOME/down-10.0.0.3", 0, hostfile)
    assert (done.returncode, done.stderr) == (1, "run: lost 10.0.0.3\n")


def test_an_mpirun_that_reports_a_lost_node_and_hangs_is_killed_and_restarted(
    tmp_path: Path, hostfile: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_restarts, "GRACE_SECONDS", 0)
    says = "PRTE has lost communication with a remote daemon."
    hangs = f"trap '' TERM; sleep 600 & echo $! >{tmp_path}/rank; echo {says}; wait; wait"
    script = f"if mkdir {tmp_path}/tried 2>/dev/null; then {hangs}; else echo trained; fi"
    remote_run.start_run(make_bash_command, "one", ["bash", "-c", f"bash -c {shlex.quote(script)}; exit"], None, 1)
    code, text = follow_run(make_bash_command, "one")
    assert (code, text.splitlines()[0], text.splitlines()[-1]) == (0, says, "trained")
    assert "run: mpirun reported a lost node 0 seconds ago and has not ended; ending it" in text
    assert "run: restart 1 of 1 after exit code 143" in text
    assert not Path(f"/proc/{(tmp_path / 'rank').read_text().strip()}").exists()


def test_a_lost_node_report_from_an_earlier_attempt_does_not_end_the_next_one(
    tmp_path: Path, hostfile: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_restarts, "GRACE_SECONDS", 0)
    first = "echo ORTE has lost communication with a remote daemon.; exit 1"
    second = "sleep 0.5; echo trained"
    script = f"if mkdir {tmp_path}/tried 2>/dev/null; then {first}; else {second}; fi"
    line = remote_restarts.wrap_in_restart_script(shlex.join(["bash", "-c", script]), 1, str(hostfile))
    log = tmp_path / "log"
    with log.open("w") as file:
        environment = {**os.environ, "GPUMPI_RUN": str(tmp_path)}
        done = subprocess.run(["bash", "-c", line], stdout=file, stderr=file, check=False, env=environment, timeout=60)
    assert (done.returncode, log.read_text().splitlines()[-1]) == (0, "trained")


def test_the_wait_for_nodes_times_out_and_the_command_runs_on_the_remaining_nodes(
    tmp_path: Path, hostfile: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_restarts, "LIMIT_SECONDS", 0)
    done = run_with_restarts(f"test -e $HOME/tried || {{ touch $HOME/tried; echo 10.0.0.2 >{hostfile}; exit 3; }}", 1, hostfile)
    assert done.returncode == 0
    assert "run: after 0 minutes, not all of the 2 nodes are back; restarting with the others" in done.stderr


def test_the_head_node_never_counts_as_lost(tmp_path: Path, hostfile: Path) -> None:
    hostfile.write_text("10.0.0.1 slots=2\n")
    (tmp_path / "down-10.0.0.1").touch()
    assert run_with_restarts("true", 1, hostfile).returncode == 0


def test_runs_are_listed_with_their_phase_newest_first(tmp_path: Path) -> None:
    remote_run.start_run(make_bash_command, "a", ["sleep", "600"], None)
    remote_run.start_run(make_bash_command, "b", ["sleep", "600"], None)
    (tmp_path / ".gpumpi/runs/b/boot").write_text("another\n")
    os.utime(tmp_path / ".gpumpi/runs/a/command", (1, 1))
    runs = remote_runs.parse_runs(
        subprocess.run(make_bash_command(remote_runs._LIST), capture_output=True, text=True, check=True).stdout
    )
    assert [(run.id, run.phase, run.reason) for run in runs] == [
        ("b", "Failed", "killed, or the head node restarted"),
        ("a", "Running", ""),
    ]


def test_arguments_reach_the_command_unchanged(tmp_path: Path) -> None:
    words = ["printf", "%s|", "two words", "$HOME", "it's", '"', "a\nb", "*", ""]
    remote_run.start_run(make_bash_command, "one", words, None)
    assert follow_run(make_bash_command, "one") == (0, "two words|$HOME|it's|\"|a\nb|*||")


def test_the_command_runs_in_the_requested_folder(tmp_path: Path) -> None:
    place = tmp_path / "a place"
    place.mkdir()
    remote_run.start_run(make_bash_command, "one", ["pwd"], str(place))
    assert follow_run(make_bash_command, "one") == (0, f"{place}\n")


def test_a_missing_working_folder_is_reported() -> None:
    with pytest.raises(Lost, match="No such file or directory"):
        remote_run.start_run(make_bash_command, "one", ["pwd"], "/not/there")


def test_a_start_request_sent_twice_starts_the_command_once(tmp_path: Path) -> None:
    for _ in range(2):
        remote_run.start_run(make_bash_command, "one", ["sh", "-c", f"echo ran >>{tmp_path}/runs"], None)
    assert follow_run(make_bash_command, "one")[0] == 0
    assert (tmp_path / "runs").read_text() == "ran\n"


def test_broken_connections_do_not_stop_the_command_or_lose_or_repeat_output(tmp_path: Path) -> None:
    """After each line, the command waits until the test lets it continue. Each connection breaks after a few lines."""
    gate = tmp_path / "gate"
    script = f"for i in 1 2 3 4 5 6 7 8; do echo line $i; until test -e {gate}$i; do sleep 0.02; done; done; exit 9"
    remote_run.start_run(make_bash_command, "one", ["sh", "-c", script], None)
    looks: list[int] = []

    def make_breaking_command(script: str) -> Sequence[str]:
        looks.append(1)
        for number in range(3 * len(looks)):
            (tmp_path / f"gate{number}").touch()
        if len(looks) > 3:
            return ["bash", "-c", script]
        # the connection breaks after two lines `head` exits, and SIGPIPE ends the remote `tail`
        return ["bash", "-c", f"({script}) | head --lines=2; exit {SSH_FAILED}"]

    code, text = follow_run(make_breaking_command, "one")
    assert (code, text) == (9, "".join(f"line {number}\n" for number in range(1, 9)))
    assert len(looks) >= 4


def test_a_command_killed_with_its_head_node_counts_as_lost_not_succeeded() -> None:
    remote_run.start_run(make_bash_command, "one", ["sh", "-c", "kill -9 -- -$$; kill -9 $PPID"], None)
    with pytest.raises(Lost, match="without an exit code"):
        follow_run(make_bash_command, "one")


def test_a_run_started_before_a_reboot_is_recognized(tmp_path: Path) -> None:
    remote_run.start_run(make_bash_command, "one", ["sleep", "600"], None)
    (tmp_path / ".gpumpi/runs/one/boot").write_text("another\n")
    with pytest.raises(Lost, match="the head node restarted"):
        follow_run(make_bash_command, "one")


def test_an_unknown_run_is_reported() -> None:
    with pytest.raises(Lost, match="the head node has no run never"):
        follow_run(make_bash_command, "never")


def test_stop_ends_all_processes_of_the_command(tmp_path: Path) -> None:
    remote_run.start_run(make_bash_command, "one", ["sh", "-c", f"sleep 600 & echo $! >{tmp_path}/child; wait"], None)

    @retry(stop=stop_after_delay(20), wait=wait_fixed(0.05), reraise=True)
    def read_child_pid() -> int:
        return int((tmp_path / "child").read_text())

    pid = read_child_pid()
    subprocess.run(make_bash_command(remote_run.render_stop_script("one")), check=True)

    @retry(stop=stop_after_delay(20), wait=wait_fixed(0.05), reraise=True)
    def assert_child_ended() -> None:
        status = Path(f"/proc/{pid}/stat")
        assert not status.exists() or status.read_text().rpartition(")")[2].split()[0] == "Z"

    assert_child_ended()


def test_a_refused_ssh_key_ends_the_start_without_retries() -> None:
    refused = [
        sys.executable,
        "-c",
        f"import sys; print('ada@i-1: Permission denied (publickey).', file=sys.stderr); sys.exit({SSH_FAILED})",
    ]
    waited: list[float] = []
    with pytest.raises(Lost, match="Permission denied"):
        remote_run.start_run(lambda script: refused, "one", ["true"], None, wait=waited.append)
    assert waited == []


class _HeadNode:
    """A head node whose commands run on this machine."""

    def command(self, *remote: str) -> list[str]:
        return ["bash", "-c", " ".join(shlex.quote(argument) for argument in remote)]


class _Cluster:
    def __init__(self, shared: Path) -> None:
        self.shared, self.naming = str(shared), Naming("hosts")


def test_a_folder_sent_with_a_run_is_deleted_with_the_run_record(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "data").write_text("sent")
    cluster: Any = _Cluster(tmp_path / "shared")
    head_node: Any = _HeadNode()
    runs = remote_runs.Runs(cluster, head_node)
    folder = runs.send(select_files(tmp_path / "code"), "one")
    remote_run.start_run(make_bash_command, "one", ["cat", "data"], folder)
    assert follow_run(make_bash_command, "one") == (0, "sent")
    capfd.readouterr()
    assert remote_runs.print_log(runs, "one", follow=False, as_json=False) == 0
    assert capfd.readouterr().out == "sent"
    assert runs.delete("one").phase == "Succeeded"
    assert runs.list() == [] and not Path(folder).parent.exists()
    with pytest.raises(NotFound):
        runs.log("one")


def test_log_with_non_text_bytes_is_printed(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    cluster: Any = _Cluster(tmp_path / "shared")
    head_node: Any = _HeadNode()
    runs = remote_runs.Runs(cluster, head_node)
    remote_run.start_run(make_bash_command, "bytes", ["printf", r"a\377b"], None)
    assert remote_run.follow_log(make_bash_command, "bytes", io.BytesIO()) == 0
    assert remote_runs.print_log(runs, "bytes", follow=False, as_json=False) == 0
    assert capfd.readouterr().out == "a\ufffdb"


def test_head_node_commands_reconnect_after_an_ssh_timeout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A loaded machine may not answer a connection within ssh's ConnectTimeout."""
    monkeypatch.setattr(remote_run, "PAUSES", (0.0, 0.0, 0.0))

    class Loaded(_HeadNode):
        """Every second connection times out."""

        def command(self, *remote: str) -> list[str]:
            late = f"echo 'Connection timed out during banner exchange' >&2; exit {SSH_FAILED}"
            odd = f"if mkdir {tmp_path}/late 2>/dev/null; then {late}; fi; rmdir {tmp_path}/late"
            return ["bash", "-c", f"{odd}; {super().command(*remote)[-1]}"]

    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "data").write_text("sent")
    (tmp_path / "code" / "data").chmod(0o755)
    cluster: Any = _Cluster(tmp_path / "shared")
    head_node: Any = Loaded()
    runs = remote_runs.Runs(cluster, head_node)
    folder = runs.send(select_files(tmp_path / "code"), "one")
    remote_run.start_run(make_bash_command, "one", ["sh", "-c", "cat data; test -x data"], folder)
    assert follow_run(make_bash_command, "one") == (0, "sent")
    capfd.readouterr()
    assert remote_runs.print_log(runs, "one", follow=False, as_json=False) == 0
    assert capfd.readouterr().out == "sent"
    assert runs.delete("one").phase == "Succeeded"
