"""The required minimum NCCL bus bandwidth, checked against published results."""

import pytest
from moto.ec2.models.instance_types import INSTANCE_TYPES

from infra.facts.instance_types import line_rate
from infra.jobs.nccl_verdict import floor, gpudirect_required, largest_message

GIB = 1 << 30

GOOD = [
    ("p4de.24xlarge", 2, 2 * GIB, 78.3),
    ("p5.48xlarge", 2, 16 * GIB, 487.1),
    ("p5.48xlarge", 2, 2 * GIB, 437.8),
    ("p5en.48xlarge", 16, 16 * GIB, 369.9),
    ("p6-b200.48xlarge", 2, 8 * GIB, 523.8),
]
"""Published good results: instance type, nodes, bytes, GB/s.

https://github.com/awslabs/awsome-distributed-ai/tree/main/micro-benchmarks/nccl-tests, aws-do-eks
"""

BELOW = [
    ("p4d.24xlarge", 4, 29.6, "badly configured, measured at 1 GiB: https://github.com/NVIDIA/nccl/issues/527"),
    ("p5.48xlarge", 2, 289.0, "at 128 MiB, where latency still matters: the same repository as above"),
]
"""Published results that are too slow, with the reason."""


def rate(instance_type: str) -> float:
    bandwidth = line_rate(INSTANCE_TYPES[instance_type]["NetworkInfo"]["NetworkPerformance"])
    assert bandwidth is not None
    return bandwidth


def minimum(instance_type: str, nodes: int) -> float:
    lowest = floor(instance_type, nodes, rate(instance_type))
    assert lowest is not None
    return lowest


@pytest.mark.parametrize(("instance_type", "nodes", "size", "bus"), GOOD)
def test_published_results_of_sound_clusters_reach_the_floor_and_half_of_them_does_not(
    instance_type: str, nodes: int, size: int, bus: float
) -> None:
    assert bus / 2 < minimum(instance_type, nodes) <= bus


@pytest.mark.parametrize(("instance_type", "nodes", "bus", "why_slow"), BELOW)
def test_published_slow_results_are_below_the_floor(instance_type: str, nodes: int, bus: float, why_slow: str) -> None:
    assert bus < minimum(instance_type, nodes), why_slow


@pytest.mark.parametrize("instance_type", ["p3dn.24xlarge", "p5.4xlarge", "g5.48xlarge", "g6e.48xlarge", "g7e.48xlarge"])
def test_types_without_published_results_have_no_floor(instance_type: str) -> None:
    assert floor(instance_type, 2, rate(instance_type)) is None


def test_nccl_floor_requires_gpudirect_on_types_where_the_plugin_does() -> None:
    with_gpus = [name for name, type_facts in INSTANCE_TYPES.items() if "GpuInfo" in type_facts and name.startswith(("p", "g"))]
    assert sorted(filter(gpudirect_required, with_gpus)) == [
        *("g7e.12xlarge", "g7e.24xlarge", "g7e.48xlarge"),
        *("p4d.24xlarge", "p4de.24xlarge", "p5.48xlarge", "p5e.48xlarge", "p5en.48xlarge"),
        *("p6-b200.48xlarge", "p6-b300.48xlarge"),
    ]


def test_fast_networks_get_the_messages_at_which_they_reach_their_rate() -> None:
    sizes = {name: largest_message(rate(name)) for name, *_ in GOOD}
    assert sizes == {"p4de.24xlarge": "2G", "p5.48xlarge": "16G", "p5en.48xlarge": "16G", "p6-b200.48xlarge": "16G"}
    assert largest_message(None) == "2G"
