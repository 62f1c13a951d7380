"""The share of a node's resources that job pods can use."""

from typing import Any

import pytest
from botocore.session import get_session

from infra.facts.registries import account_registry, eks_registry
from infra.plan.node_capacity import for_jobs
from tests.pure.world import instance_type


@pytest.mark.parametrize("name", ["g5.xlarge", "g5.8xlarge", "g6.48xlarge", "p4d.24xlarge", "p5.48xlarge"])
def test_jobs_get_most_of_a_gpu_node_but_not_all(name: str) -> None:
    instance = instance_type(name)
    offer = for_jobs(instance, huge_pages_mib=10256 if instance.efa_maximum else 0)
    usable = instance.memory_mib - (10256 if instance.efa_maximum else 0)
    assert 0.75 * usable < offer.memory_mib < 0.93 * usable
    assert 0.8 * instance.vcpus * 1000 < offer.cpu_millis < instance.vcpus * 1000 - 500


def test_what_eks_s_kubelet_keeps_is_taken_off() -> None:
    """An m7i.large has 2 CPUs and can run up to 29 pods. EKS reserves 70m of CPU, so nodes report 1930m."""
    assert for_jobs(instance_type("m7i.large")).cpu_millis == 1930 - 500


def test_hugepages_are_memory_that_is_gone() -> None:
    p4d = instance_type("p4d.24xlarge")
    assert for_jobs(p4d).memory_mib - for_jobs(p4d, huge_pages_mib=10256).memory_mib == 10256


def test_on_the_cpu_pool_the_cluster_s_own_pods_have_their_share() -> None:
    large = instance_type("m7i.large")
    assert for_jobs(large, is_system=True).cpu_millis == for_jobs(large).cpu_millis - 300
    assert for_jobs(large, is_system=True).memory_mib == for_jobs(large).memory_mib - 512


@pytest.mark.parametrize(
    ("region", "registry"),
    [
        ("us-west-2", "602401143452.dkr.ecr.us-west-2.amazonaws.com"),
        ("af-south-1", "877085696533.dkr.ecr.af-south-1.amazonaws.com"),
        ("cn-north-1", "918309763551.dkr.ecr.cn-north-1.amazonaws.com.cn"),
    ],
)
def test_eks_has_its_images_in_every_region(region: str, registry: str) -> None:
    assert eks_registry(region) == registry


PARTITIONS = get_session().get_data("partitions")["partitions"]


@pytest.mark.parametrize("partition", PARTITIONS, ids=lambda name: str(name["id"]))
def test_an_account_s_registry_has_the_dns_suffix_of_its_partition(partition: dict[str, Any]) -> None:
    suffix = partition["outputs"]["dnsSuffix"]
    assert account_registry("123456789012", "a-b-1", partition["id"]) == f"123456789012.dkr.ecr.a-b-1.{suffix}"
