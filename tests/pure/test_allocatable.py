"""The share of a node's resources that job pods can use."""

from typing import Any

import pytest
from botocore.session import get_session

from infra.facts.registries import build_account_registry, find_eks_registry
from infra.plan.node_capacity import compute_allocatable
from tests.pure.world import instance_type


@pytest.mark.parametrize("name", ["g5.xlarge", "g5.8xlarge", "g6.48xlarge", "p4d.24xlarge", "p5.48xlarge"])
def test_jobs_get_most_but_not_all_of_a_gpu_node(name: str) -> None:
    instance = instance_type(name)
    offer = compute_allocatable(instance, huge_pages_mib=10256 if instance.efa_maximum else 0)
    usable = instance.memory_mib - (10256 if instance.efa_maximum else 0)
    assert 0.75 * usable < offer.memory_mib < 0.93 * usable
    assert 0.8 * instance.vcpus * 1000 < offer.cpu_millis < instance.vcpus * 1000 - 500


def test_kubelet_reservation_of_eks_is_subtracted() -> None:
    """An m7i.large has 2 CPUs and can run up to 29 pods. EKS reserves 70m of CPU, so nodes report 1930m."""
    assert compute_allocatable(instance_type("m7i.large")).cpu_millis == 1930 - 500


def test_hugepages_reduce_memory_available_to_jobs() -> None:
    p4d = instance_type("p4d.24xlarge")
    assert compute_allocatable(p4d).memory_mib - compute_allocatable(p4d, huge_pages_mib=10256).memory_mib == 10256


def test_system_pods_reduce_resources_available_on_system_pool() -> None:
    large = instance_type("m7i.large")
    assert compute_allocatable(large, is_system=True).cpu_millis == compute_allocatable(large).cpu_millis - 300
    assert compute_allocatable(large, is_system=True).memory_mib == compute_allocatable(large).memory_mib - 512


@pytest.mark.parametrize(
    ("region", "registry"),
    [
        ("us-west-2", "602401143452.dkr.ecr.us-west-2.amazonaws.com"),
        ("af-south-1", "877085696533.dkr.ecr.af-south-1.amazonaws.com"),
        ("cn-north-1", "918309763551.dkr.ecr.cn-north-1.amazonaws.com.cn"),
    ],
)
def test_eks_image_registry_is_known_for_every_region(region: str, registry: str) -> None:
    assert find_eks_registry(region) == registry


PARTITIONS = get_session().get_data("partitions")["partitions"]


@pytest.mark.parametrize("partition", PARTITIONS, ids=lambda name: str(name["id"]))
def test_ecr_registry_has_dns_suffix_of_its_partition(partition: dict[str, Any]) -> None:
    suffix = partition["outputs"]["dnsSuffix"]
    assert build_account_registry("123456789012", "a-b-1", partition["id"]) == f"123456789012.dkr.ecr.a-b-1.{suffix}"
