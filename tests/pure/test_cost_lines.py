"""`init` prints the cost of a stack, and `submit` prints the cost of a job."""

from typing import Any

import pytest

from cli.stacks.cost import lines
from infra.jobs.cluster import ClusterDescription, PoolDescription
from infra.jobs.model import Job
from tests.pure.bill_world import load_stack, make_prices


def make_cluster(market: str = "on-demand", region: str = "us-west-2", instance_type: str = "p4d.24xlarge") -> ClusterDescription:
    pool = PoolDescription(
        name="train",
        instance_type=instance_type,
        market=market,
        gpus=8,
        slots=8,
        memory_mib=1_000_000,
        cpu_millis=90_000,
        max_size=4,
    )
    return ClusterDescription(cluster="gpumpi-x", region=region, pools=(pool,))


def make_job(**more: Any) -> Job:
    return Job.model_validate({"name": "j", "pool": "train", "image": "mpi:1", "command": ["hello"], "workers": 2, **more})


@pytest.mark.parametrize(
    ("options", "where", "text"),
    [
        ({}, {}, "cost: 2 x p4d.24xlarge: 43.92 USD per hour (snapshot, 2026-09-24, not verified)"),
        ({"gpusPerWorker": 4}, {}, "cost: 1 x p4d.24xlarge: 21.96 USD per hour (snapshot, 2026-09-24, not verified)"),
        ({}, {"market": "capacity-block"}, "cost: 2 x p4d.24xlarge, prepaid (Capacity Block)"),
        ({}, {"region": "mx-central-1"}, "cost: 2 x p4d.24xlarge: unknown, because there is no price for mx-central-1"),
        ({}, {"region": ""}, None),
        ({}, {"instance_type": ""}, None),
    ],
)
def test_submit_prints_the_cost_of_the_jobs_nodes(options: dict[str, Any], where: dict[str, str], text: str | None) -> None:
    assert lines.format_job_cost(make_job(**options), make_cluster(**where)) == text


def test_a_spot_pool_costs_the_spot_price() -> None:
    line = lines.format_job_cost(make_job(), make_cluster(market="spot"))
    assert line is not None and line.startswith("cost: 2 x p4d.24xlarge, spot: 16.00 USD per hour")


def test_init_prints_the_cost_of_the_stack() -> None:
    line = lines.format_stack_cost(load_stack("02-p4d-efa"), None, make_prices())
    assert line == "cost in USD per hour: 0.37 idle, 44.30 configured, 88.35 maximum (AWS Price List, 2026-11-22)"


def test_init_lists_cost_items_without_known_prices() -> None:
    line = lines.format_stack_cost(load_stack("07-targeted-odcr"), None, make_prices())
    assert "idle unknown (the size of cr-0fedcba9876543210)" in line
