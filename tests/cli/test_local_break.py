"""`local break`: its arguments and its output."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from cli import main
from localcloud.control import ControlError
from localcloud.instance import LocalCloud
from localcloud.kubernetes.nodes import gpus, kernel_log
from tests.pure.node_world import make_machine

NODE = "ip-10-0-1-7"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The folder of a local cloud whose cluster has one GPU node."""
    own = tmp_path / "kubernetes/1-demo/nodes/i-0a/own"
    for folder in (own / "etc", own / gpus.FOLDER, (own / kernel_log.FILE).parent):
        folder.mkdir(parents=True)
    (own / "etc/hostname").write_text(f"{NODE}\n")
    gpus.write_gpu_files(make_machine(kind="g5.xlarge"), own / gpus.FOLDER)
    return tmp_path


def run_local_break(home: Path, *arguments: str) -> Any:
    return CliRunner().invoke(main.app, ["local", "break", *arguments, "--home", str(home)])


@pytest.mark.parametrize(
    "faults", [[], ["--kubelet", "--link"], ["--xid", "79", "--ecc"], ["--instance", "--restore"], ["--hang", "0", "--slow", "1"]]
)
def test_break_requires_exactly_one_fault(home: Path, faults: list[str]) -> None:
    done = run_local_break(home, NODE, *faults)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith("cluster local break: give ") and len(done.stderr.splitlines()) == 1


def test_a_missing_node_or_gpu_is_reported_in_one_sentence(home: Path) -> None:
    done = run_local_break(home, "other", "--kubelet")
    assert (done.exit_code, done.stderr) == (4, f"cluster local break: other: no such node. Choose one of: {NODE}\n")
    done = run_local_break(home, NODE, "--ecc", "--gpu", "1")
    assert (done.exit_code, done.stderr) == (4, f"cluster local break: {NODE}: no GPU 1; the node has GPUs 0 to 0\n")


def test_a_double_bit_ecc_error_is_xid_48(home: Path) -> None:
    done = run_local_break(home, NODE, "--ecc", "--json")
    report = json.loads(done.stdout)
    assert (report["node"], report["gpu"], report["xid"]) == (NODE, 0, 48)
    assert f"local break {NODE} --instance --home {home}" in report["restore"]
    own = home / "kubernetes/1-demo/nodes/i-0a/own"
    assert (own / gpus.FOLDER / gpus.XIDS_FILE).read_text() == "0 48\n"
    assert "NVRM: Xid (PCI:0000:10:00): 48, " in (own / kernel_log.FILE).read_text()


def test_an_application_error_needs_no_restore(home: Path) -> None:
    done = run_local_break(home, "i-0a", "--xid", "31")
    assert done.exit_code == 0
    assert done.stderr.endswith("has reported Xid 31: GPU memory page fault.\n")


def test_break_terminates_an_instance_through_the_api(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []
    ec2 = SimpleNamespace(terminate_instances=lambda **request: calls.append(request["InstanceIds"]))
    clusters = [SimpleNamespace(name="other", region="us-east-1"), SimpleNamespace(name="demo", region="us-west-2")]
    monkeypatch.setattr(LocalCloud, "clusters", lambda self: clusters)
    monkeypatch.setattr(LocalCloud, "clients", lambda self, region: lambda service: calls.append((region, service)) or ec2)
    done = run_local_break(home, NODE, "--instance")
    assert (done.exit_code, calls) == (0, [("us-west-2", "ec2"), ["i-0a"]])
    assert done.stderr == f"Instance i-0a of {NODE} is terminated. Auto Scaling replaces it.\n"


END = datetime(2026, 11, 30, 11, 30, tzinfo=UTC)


class Account:
    """Fake control API and EC2 of a local cloud with one instance."""

    def __init__(self, reservation_type: str) -> None:
        self.asked: list[Any] = []
        self.type = reservation_type

    def send(self, method: str, path: str, body: Any = None) -> Any:
        self.asked.append((method, path, body))
        if path.endswith(("interruption", "rebalance")):
            raise ControlError("""400 {"error": "ValueError('i-0a is not a Spot Instance, so EC2 does not interrupt it')"}""")
        return {"now": (END - timedelta(hours=2)).isoformat(), "time": END.isoformat()}

    def describe_instances(self, **_: Any) -> Any:
        return {"Reservations": [{"Instances": [{"CapacityReservationId": "cr-1"}]}]}

    def describe_capacity_reservations(self, **_: Any) -> Any:
        return {"CapacityReservations": [{"ReservationType": self.type, "EndDate": END}]}


@pytest.fixture
def account(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Account:
    fake_account = Account(getattr(request, "param", "capacity-block"))
    monkeypatch.setattr(LocalCloud, "control", lambda self: fake_account)
    monkeypatch.setattr(LocalCloud, "clusters", lambda self: [SimpleNamespace(name="demo", region="us-west-2")])
    monkeypatch.setattr(LocalCloud, "clients", lambda self, region: lambda service: fake_account)
    return fake_account


def test_break_schedules_an_instance_retirement_that_health_shows(home: Path, account: Account) -> None:
    done = run_local_break(home, NODE, "--retire")
    assert account.asked == [("POST", "instances/i-0a/retirement", {})]
    assert done.stderr.startswith(f"EC2 retires i-0a of {NODE} at {END.isoformat()}. See: ")
    assert f"health {NODE} -s STACK" in done.stderr


@pytest.mark.parametrize("notice", ["--spot-notice", "--rebalance"])
def test_only_a_spot_instance_can_get_a_spot_notice(home: Path, account: Account, notice: str) -> None:
    done = run_local_break(home, NODE, notice)
    assert done.exit_code == 3
    assert done.stderr == "cluster local break: i-0a is not a Spot Instance, so EC2 does not interrupt it\n"


def test_block_ends_fault_advances_the_clock_to_the_drain_45_minutes_before_the_end(home: Path, account: Account) -> None:
    done = run_local_break(home, NODE, "--block-ends")
    assert account.asked == [("GET", "clock", None), ("POST", "clock", {"seconds": 75 * 60.0})]
    assert done.stderr == "It is 45 minutes before the end of cr-1: Auto Scaling drains its nodes.\n"


@pytest.mark.parametrize("account", ["default"], indirect=True)
def test_block_ends_fault_is_refused_for_a_node_outside_a_capacity_block(home: Path, account: Account) -> None:
    done = run_local_break(home, NODE, "--block-ends")
    assert done.exit_code == 3 and f"{NODE} is not in a Capacity Block" in done.stderr
    assert account.asked == []


class Ranks:
    """Fake control API of a local cloud that runs a job with two ranks."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    def send(self, method: str, path: str, body: Any) -> Any:
        self.asked.append((path, body))
        if body.get("rank", 0) > 1:
            raise ControlError("train: no rank 2. Choose one of: 0, 1")
        return {"ranks": [0, 1] if "train" in path else []}


@pytest.fixture
def fake_ranks(monkeypatch: pytest.MonkeyPatch) -> Ranks:
    ranks = Ranks()
    monkeypatch.setattr(LocalCloud, "control", lambda self: ranks)
    monkeypatch.setattr(LocalCloud, "is_running", lambda self: True)
    return ranks


def test_break_hangs_and_restores_a_rank_of_a_job(home: Path, fake_ranks: Ranks) -> None:
    done = run_local_break(home, "train", "--hang", "1")
    assert done.exit_code == 0 and done.stderr.startswith("Rank 1 of train has stopped. Restore it with: ")
    assert f"local break train --restore --home {home}" in done.stderr
    assert json.loads(run_local_break(home, "train", "--slow", "0", "--json").stdout)["rank"] == 0
    assert run_local_break(home, "train", "--restore").stderr == "All ranks of train continue.\n"
    path = "kubernetes/jobs/train/ranks"
    assert fake_ranks.asked == [
        (path, {"do": "hang", "rank": 1}),
        (path, {"do": "slow", "rank": 0}),
        (path, {"do": "restore"}),
    ]


def test_a_missing_rank_or_job_is_reported_in_one_sentence(home: Path, fake_ranks: Ranks) -> None:
    done = run_local_break(home, "train", "--hang", "2")
    assert (done.exit_code, done.stderr) == (3, "cluster local break: train: no rank 2. Choose one of: 0, 1\n")
    done = run_local_break(home, "other", "--restore")
    assert (done.exit_code, done.stderr) == (4, f"cluster local break: other: no such node. Choose one of: {NODE}\n")
