"""`cost` matches the local AWS's ledger through scaling, a termination, and the end of a Capacity Block."""

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cli import main
from cli.clusters.kubernetes_access import Access
from cli.clusters.status import hourly_price as of_status
from cli.clusters.status.cluster_status import SpendingStatus
from cli.exit_codes import UNREACHABLE
from cli.stacks.cost import cost_sources
from cli.stacks.cost.spending import Spending
from infra.config.stack_file import RawStack
from infra.facts.clients import Clients
from infra.jobs.cluster import ClusterDescription
from infra.naming import Naming
from infra.platform.job_controller.in_pod import record
from infra.preflight import examine_aws_stack
from infra.settings.stack import Settings
from localcloud.aws import clock, faults, ledger
from localcloud.aws.account import ACCOUNT
from localcloud.aws.call import backend_of
from localcloud.aws.ec2 import capacity_reservations
from localcloud.engine.mocks import MotoMocks
from tests.program.engine import deploy

REGION = "us-west-2"
MINUTE = timedelta(minutes=1)
BLOCK = "cr-0123456789abcdef0"
POOLS = [
    {"name": "train", "instanceType": "p4d.24xlarge", "maxSize": 4, "desiredSize": 2, "efa": False},
    {"name": "cheap", "instanceType": "g6.48xlarge", "maxSize": 2, "desiredSize": 1, "capacity": {"kind": "spot"}},
    {
        "name": "block",
        "instanceType": "p5.48xlarge",
        "maxSize": 2,
        "desiredSize": 2,
        "capacity": {"kind": "capacity-block", "reservationId": BLOCK},
    },
]
VALUES = {
    "target": {"kind": "eks"},
    "costCenter": "physics",
    "platform": {"install": False, "autoscaler": False},
    "storage": {"efs": "none"},
    "pools": POOLS,
}


@pytest.fixture(scope="module")
def start_time() -> datetime:
    """Current time, at which the local AWS's clock is frozen. The code that gathers facts uses the machine's clock, so
    both clocks must agree.
    """
    return datetime.now(UTC).replace(microsecond=0)


@pytest.fixture(scope="module")
def settings(start_time: datetime, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """Deployed stack with a Capacity Block that ends in 50 minutes."""
    with MotoMocks(REGION) as mocks, pytest.MonkeyPatch.context() as patch:
        patch.setattr(clock, "read_system_clock", lambda: start_time)
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        capacity_reservations.seed_reservation(
            "p5.48xlarge", f"{REGION}a", 2, reservation_id=BLOCK, kind="capacity-block", days=50 / (24 * 60)
        )
        deployed_settings, facts = examine_aws_stack(RawStack("spend", REGION, VALUES)).settings_and_facts
        deploy(deployed_settings, facts, mocks)
        yield deployed_settings


def find_scaling_group(pool: str) -> dict[str, Any]:
    scaling_groups = Clients(REGION).autoscaling.describe_auto_scaling_groups()["AutoScalingGroups"]
    return next(group for group in scaling_groups if f"-{pool}-" in group["AutoScalingGroupName"])


def scale_pool(pool: str, size: int) -> None:
    Clients(REGION).autoscaling.set_desired_capacity(
        AutoScalingGroupName=find_scaling_group(pool)["AutoScalingGroupName"], DesiredCapacity=size
    )
    clock.advance(timedelta())  # records the current time as the end of the terminated instances


def compute_stack_spending(settings: Settings, since: datetime | None = None) -> Spending:
    return cost_sources.read_spending(settings, Access(Path("/nonexistent"), None), since=since)


def sum_ledger(*types: str) -> float:
    entries = [entry for entry in ledger.list_entries() if not types or entry.instance_type in types]
    return float(sum(entry.usd(clock.now()) or 0 for entry in entries))


@pytest.fixture(scope="module")
def simulated_run(settings: Settings) -> Settings:
    """In ten minutes, pools grow and shrink, a user terminates a node, and EKS empties the Capacity Block's group."""
    clock.advance(2 * MINUTE)
    scale_pool("train", 4)
    clock.advance(1.5 * MINUTE)
    victim = find_scaling_group("train")["Instances"][0]["InstanceId"]
    Clients(REGION).ec2.terminate_instances(InstanceIds=[victim])
    clock.advance(timedelta())
    clock.advance(2 * MINUTE)
    scale_pool("train", 1)
    scale_pool("cheap", 0)
    clock.advance(4.5 * MINUTE)
    return settings


def test_calculated_spending_matches_the_ledger(simulated_run: Settings) -> None:
    assert len(ledger.list_entries()) == 2 + 2 + 2 + 1 + 1 + 2  # system nodes, train, two more, a replacement, Spot, block
    spending = compute_stack_spending(simulated_run)
    assert float(spending.total.usd) == pytest.approx(sum_ledger(), rel=0.01)
    assert float(spending.pools["train"].usd) == pytest.approx(sum_ledger("p4d.24xlarge"), rel=0.01)
    assert float(spending.pools["cheap"].usd) == pytest.approx(sum_ledger("g6.48xlarge"), rel=0.01)
    assert spending.pools["block"].usd == 0
    assert spending.pools["block"].instance_hours > 0
    assert set(spending.cost_centers) == {"physics"}


def test_nodes_of_a_capacity_block_stop_counting_when_eks_removes_them(simulated_run: Settings) -> None:
    hours = float(compute_stack_spending(simulated_run).pools["block"].instance_hours)
    seconds = sum(entry.seconds(clock.now()) for entry in ledger.list_entries() if entry.instance_type == "p5.48xlarge")
    assert hours == pytest.approx(seconds / 3600, rel=0.01)
    assert hours < 2 * 10 / 60


def test_terminated_instances_unknown_to_ec2_are_read_from_scaling_activities(simulated_run: Settings) -> None:
    before = compute_stack_spending(simulated_run)
    backend = backend_of("ec2", ACCOUNT, REGION)
    saved = dict(backend.reservations)
    over = [name for name, launch in saved.items() if any(host.state_name == "terminated" for host in launch.instances)]
    assert over
    for name in over:
        del backend.reservations[name]
    try:
        after = compute_stack_spending(simulated_run)
    finally:
        backend.reservations.update(saved)
    assert {name: pool.instance_hours for name, pool in after.pools.items()} == {
        name: pool.instance_hours for name, pool in before.pools.items()
    }
    assert after.total.usd == before.total.usd


def test_only_instance_hours_within_the_period_count(simulated_run: Settings) -> None:
    assert float(compute_stack_spending(simulated_run, since=clock.now() - MINUTE).total.instance_hours * 60) == pytest.approx(
        2 + 1
    )


def test_only_instance_costs_are_known_without_the_cluster(simulated_run: Settings) -> None:
    spending = compute_stack_spending(simulated_run)
    assert not spending.jobs and not spending.idle_gpu_hours
    assert [sentence for sentence in spending.unknown if sentence.startswith("jobs: ")]


class Recorded:
    """Cluster whose only job was deleted. The job's record shows that it used half the GPUs of each p4d node the whole
    time.
    """

    server = "https://example.com"

    def description(self) -> ClusterDescription:
        return ClusterDescription(cluster=Naming("spend").cluster, pools=())

    def list(self, *_: Any, **__: Any) -> list[Any]:
        return []

    def list_labeled(self, kind: str, label: str, namespace: str) -> Sequence[Any]:
        job_record = record.create_record("0123456789", "gone", namespace, str(clock.now()))
        for run in ledger.list_entries():
            if run.instance_type == "p4d.24xlarge":
                worker = {"uid": run.instance, "node": run.instance, "type": run.instance_type, "zone": run.zone, "pool": "train"}
                worker["pod"] = f"gone-{run.instance}"
                span = {"from": run.started.isoformat(), "to": run.ended.isoformat() if run.ended else None}
                job_record["workers"].append({**worker, "capacity": "ON_DEMAND", "gpus": 4, **span})
        return [record.build_config_map(job_record)]


def test_a_deleted_job_keeps_its_share_of_the_spending(simulated_run: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Access, "connect", lambda _: Recorded())
    spending = compute_stack_spending(simulated_run)
    (job,) = spending.jobs.values()
    assert float(job.usd) == pytest.approx(sum_ledger("p4d.24xlarge") / 2, rel=0.01)
    assert float(spending.idle_gpu_hours["train"]) == pytest.approx(float(job.gpu_hours), rel=0.01)
    assert spending.unknown == []


# --- the verb -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def stack_folder(tmp_path: Path) -> Path:
    values = {"aws:region": REGION, **{f"gpumpi:{name}": value for name, value in VALUES.items()}}
    (tmp_path / "Pulumi.spend.yaml").write_text(json.dumps({"config": values}))
    return tmp_path


def run_cost(folder: Path, *more: str) -> Any:
    kubeconfig = str(folder / "none")
    return CliRunner().invoke(main.app, ["cost", "-s", "spend", "--config-dir", str(folder), "--kubeconfig", kubeconfig, *more])


def test_the_cost_command_prints_a_row_per_pool_and_cost_center(simulated_run: Settings, stack_folder: Path) -> None:
    done = run_cost(stack_folder)
    assert done.exit_code == 0, done.output
    for row in ("pool train", "pool cheap", "pool block", "pool system", "cost center physics", "total of all instances"):
        assert row in done.stdout
    assert "unknown: jobs: " in done.stdout


def test_the_cost_command_names_the_missing_permission(simulated_run: Settings, stack_folder: Path) -> None:
    faults.add_fault(faults.Fault("ec2", "DescribeInstances", "UnauthorizedOperation"))
    done = run_cost(stack_folder)
    assert (done.exit_code, "you are not allowed to call DescribeInstances" in done.output) == (UNREACHABLE, True)


def test_the_cost_command_rejects_a_stack_for_an_existing_cluster(tmp_path: Path) -> None:
    (tmp_path / "Pulumi.spend.yaml").write_text(json.dumps({"config": {"gpumpi:target": {"kind": "existing"}}}))
    assert "has no AWS settings" in run_cost(tmp_path).output


def test_status_shows_the_spending_so_far(simulated_run: Settings, start_time: datetime, monkeypatch: pytest.MonkeyPatch) -> None:
    status = of_status.read_stack_spending(RawStack("spend", REGION, VALUES))
    assert isinstance(status, SpendingStatus)
    assert float(status.usd) == pytest.approx(sum_ledger(), rel=0.01)
    assert (status.since, status.unknown) == (start_time, ())
