"""The required minimum NCCL bus bandwidth, checked against published results."""

import pytest
from moto.ec2.models.instance_types import INSTANCE_TYPES

from infra.facts.instance_types import parse_line_rate
from infra.jobs.nccl_verdict import choose_largest_message_size, minimum_bandwidth, requires_gpudirect

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


def read_line_rate(instance_type: str) -> float:
    bandwidth = parse_line_rate(INSTANCE_TYPES[instance_type]["NetworkInfo"]["NetworkPerformance"])
    assert bandwidth is not None
    return bandwidth


def find_minimum_bandwidth(instance_type: str, nodes: int) -> float:
    lowest = minimum_bandwidth(instance_type, nodes, read_line_rate(instance_type))
    assert lowest is not None
    return lowest


@pytest.mark.parametrize(("instance_type", "nodes", "size", "bus"), GOOD)
def test_published_good_bandwidth_passes_the_floor_and_half_of_it_fails(
    instance_type: str, nodes: int, size: int, bus: float
) -> None:
    assert bus / 2 < find_minimum_bandwidth(instance_type, nodes) <= bus


@pytest.mark.parametrize(("instance_type", "nodes", "bus", "why_slow"), BELOW)
def test_published_slow_bandwidth_is_below_the_floor(instance_type: str, nodes: int, bus: float, why_slow: str) -> None:
    assert bus < find_minimum_bandwidth(instance_type, nodes), why_slow


@pytest.mark.parametrize("instance_type", ["p3dn.24xlarge", "p5.4xlarge", "g5.48xlarge", "g6e.48xlarge", "g7e.48xlarge"])
def test_types_without_published_results_have_no_bandwidth_floor(instance_type: str) -> None:
    assert minimum_bandwidth(instance_type, 2, read_line_rate(instance_type)) is None


def test_gpudirect_is_required_on_the_expected_instance_types() -> None:
    with_gpus = [name for name, type_facts in INSTANCE_TYPES.items() if "GpuInfo" in type_facts and name.startswith(("p", "g"))]
    assert sorted(filter(requires_gpudirect, with_gpus)) == [
        *("g7e.12xlarge", "g7e.24xlarge", "g7e.48xlarge"),
        *("p4d.24xlarge", "p4de.24xlarge", "p5.48xlarge", "p5e.48xlarge", "p5en.48xlarge"),
        *("p6-b200.48xlarge", "p6-b300.48xlarge"),
    ]


def test_fast_networks_are_tested_with_messages_large_enough_for_full_rate() -> None:
    sizes = {name: choose_largest_message_size(read_line_rate(name)) for name, *_ in GOOD}
    assert sizes == {"p4de.24xlarge": "2G", "p5.48xlarge": "16G", "p5en.48xlarge": "16G", "p6-b200.48xlarge": "16G"}
    assert choose_largest_message_size(None) == "2G"
