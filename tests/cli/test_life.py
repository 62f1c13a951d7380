"""`scripts/cluster local start | status | env | reset | stop`."""

import os
import signal
from pathlib import Path

import psutil
import pytest

from localcloud.instance import SERVERS, LocalCloud
from testkit import sockets, strangers
from testkit.waiting import wait_until
from tests.cli.checkout import Checkout


def test_a_local_cloud_starts_reports_its_status_and_stops(checkout: Checkout, home: Path) -> None:
    before = checkout.run_local("status", home)
    assert before.code == 4
    hint = "start it with: scripts/cluster local start"
    assert before.err == f"cluster local status: no local cloud is running in {home}; {hint}\n"

    start = checkout.run_local("start", home).assert_success()
    assert start.err.splitlines()[0] == "local cloud started"
    assert f"--home '{home}'" in start.err, "the suggested next command contains --home"

    status = checkout.run_local("status", home).assert_success()
    assert [line.split()[:2] for line in status.out.splitlines()] == [[name, "running"] for name in SERVERS]
    servers = checkout.run_local("status", home, "--json").assert_success().parsed_output["servers"]
    assert all(server["running"] and psutil.pid_exists(server["pid"]) for server in servers)

    stop = checkout.run_local("stop", home).assert_success()
    assert stop.err == "local cloud stopped\n"
    assert not any(psutil.pid_exists(server["pid"]) for server in servers)
    assert not home.exists()
    assert checkout.run_local("stop", home).assert_success().err == "no local cloud was running\n"


def test_only_the_owner_can_read_the_folder_and_the_key(checkout: Checkout, home: Path) -> None:
    home.mkdir(mode=0o755)
    checkout.run_local("start", home, "--no-kubernetes", "--no-hosts").assert_success()
    assert (home.stat().st_mode & 0o777, (home / "key.json").stat().st_mode & 0o777) == (0o700, 0o600)
    shell = LocalCloud(home).environment()
    first = shell["AWS_ACCESS_KEY_ID"], shell["AWS_SECRET_ACCESS_KEY"]
    checkout.run_local("stop", home).assert_success()
    checkout.run_local("start", home, "--no-kubernetes", "--no-hosts").assert_success()
    shell = LocalCloud(home).environment()
    assert first[0] != shell["AWS_ACCESS_KEY_ID"]
    assert first[1] != shell["AWS_SECRET_ACCESS_KEY"]


def test_no_socket_serves_web_pages_or_programs_that_lack_the_key(checkout: Checkout, shared_cloud_home: Path) -> None:
    listening = sockets.find_listening_sockets(LocalCloud(shared_cloud_home))
    assert {server.port for server in LocalCloud(shared_cloud_home).servers()} <= {listener.port for listener in listening}
    assert strangers.list_accepted_requests(listening) == []


def test_a_second_start_keeps_the_running_servers(checkout: Checkout, home: Path) -> None:
    checkout.run_local("start", home).assert_success()
    first = LocalCloud(home).servers()
    again = checkout.run_local("start", home, "--delay-factor", "0.5").assert_success()
    assert again.err.splitlines()[:2] == ["local cloud is already running", "its delay factor is now 0.5"]
    assert LocalCloud(home).servers() == first
    assert LocalCloud(home).control().delay_factor() == 0.5


def test_two_local_clouds_do_not_interfere(checkout: Checkout, tmp_path: Path) -> None:
    homes = [tmp_path / "one", tmp_path / "two"]
    try:
        for folder in homes:
            checkout.run_local("start", folder).assert_success()
        first, second = (LocalCloud(folder) for folder in homes)
        assert {server.port for server in first.servers()}.isdisjoint(server.port for server in second.servers())
        first.control().set_delays(0.5)
        assert second.control().delay_factor() == 0

        other_shell = first.environment()
        checkout.run_local("stop", homes[1], shell=other_shell).assert_success()
        assert first.is_running()
        checkout.run_local("start", homes[1], shell=other_shell).assert_success()
        own = Path(homes[1], "bin", "pulumi")
        assert own.exists(), "a cloud started from another cloud's shell has its own pulumi"
    finally:
        for folder in homes:
            LocalCloud(folder).stop()


@pytest.mark.parametrize("victim", ["aws", "provider"])
def test_a_dead_server_is_reported_and_restarted_by_the_next_start(checkout: Checkout, home: Path, victim: str) -> None:
    """If the local AWS crashes, its account is lost. A provider has no state and restarts on its previous port, which
    open shells use."""
    checkout.run_local("start", home).assert_success()
    servers = LocalCloud(home).servers()
    killed = next(server for server in servers if server.name == victim)
    with Path(killed.log).open("a") as log:
        log.write("its last words\n")
    os.kill(killed.pid, signal.SIGKILL)
    wait_until(lambda: killed.find_process() is None)

    status = checkout.run_local("status", home)
    assert status.code == 1
    assert [line.split()[1] for line in status.out.splitlines() if line.startswith(victim)] == ["ended"]
    assert "its last words" in status.err
    env = checkout.run_local("env", home)
    assert env.code == 4
    assert f"the {victim} server exited unexpectedly" in env.err
    assert env.out == "", "a shell has nothing to evaluate"

    start = checkout.run_local("start", home).assert_success()
    if victim == "aws":
        assert start.err.splitlines()[:2] == ["cleaning up after a local cloud that did not stop cleanly", "local cloud started"]
        assert not any(server.find_process() for server in servers), "start ends servers that survived the crash"
    else:
        assert start.err.splitlines()[:2] == ["local cloud is already running", "restarted provider"]
        assert [server.port for server in LocalCloud(home).servers()] == [server.port for server in servers]
        assert all(server.find_process() for server in servers if server is not killed)
    checkout.run_local("status", home).assert_success()


def test_start_leaves_a_folder_with_other_files_alone(checkout: Checkout, home: Path) -> None:
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "precious").write_text("mine")
    start = checkout.run_local("start", home)
    assert start.code == 3
    reason = f"{home} contains files that do not belong to a local cloud. Use an empty or new folder"
    assert start.err == f"cluster local start: {reason}\n"
    checkout.run_local("stop", home).assert_success()
    assert (home / "bin" / "precious").read_text() == "mine"


def test_stop_keeps_files_not_created_by_the_local_cloud(checkout: Checkout, home: Path) -> None:
    checkout.run_local("start", home).assert_success()
    (home / "notes.txt").write_text("mine")
    checkout.run_local("stop", home).assert_success()
    assert [file.name for file in home.iterdir()] == ["notes.txt"]


def test_a_server_that_fails_to_start_leaves_nothing_running(home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from localcloud import instance
    from localcloud.processes import StartError

    monkeypatch.setitem(instance.EMULATORS, "aws", ("provider", "localcloud.no_such_module"))
    with pytest.raises(
        StartError, match=r"the provider server exited during startup. The end of .*provider\.log:\n.*No module named"
    ):
        LocalCloud(home).start(print)
    assert LocalCloud(home).servers() == []
    monkeypatch.undo()
    assert LocalCloud(home).start(print), "a failed start does not block the next one"


def test_no_ami_is_built_if_instances_are_only_simulated_records(checkout: Checkout, home: Path) -> None:
    checkout.run_local("start", home, "--no-hosts").assert_success()
    said = checkout.run_local("ami", home)
    assert (said.code, said.out) == (1, "")
    assert "Packer needs a build instance, but this local cloud has no hosts" in said.err


@pytest.mark.parametrize("verb", ["ami", "env", "reset"])
def test_commands_that_need_a_running_cloud_report_a_stopped_one(checkout: Checkout, home: Path, verb: str) -> None:
    said = checkout.run_local(verb, home)
    assert said.code == 4
    assert said.err == f"cluster local {verb}: no local cloud is running in {home}; start it with: scripts/cluster local start\n"
    assert said.out == ""


def test_a_relative_home_path_works_from_every_folder(checkout: Checkout, home: Path) -> None:
    checkout.run_local("start", home).assert_success()
    env = checkout.run_local("env", Path(os.path.relpath(home, checkout.folder))).assert_success()
    backend = next(line for line in env.out.splitlines() if line.startswith("export PULUMI_BACKEND_URL="))
    assert backend.split("file://")[1].strip("'") == str(home / "backend")
