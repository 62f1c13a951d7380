"""Pools without GPUs on EKS: AMI, labels, taints, resources for the autoscaler, the queue and jobs."""

from typing import Any

from infra import validation
from infra.jobs.cluster import ClusterDescription
from infra.plan.cluster_description import describe_eks_cluster
from infra.plan.eks_pools import PoolPlan, plan_pools
from infra.platform import admission
from tests.pure.world import account_facts, pool, settings


def plan_cpu_pool(**more: Any) -> tuple[PoolPlan, ClusterDescription]:
    """Return the plan of a CPU pool in a stack that also has a GPU pool, and the cluster's description."""
    configured = settings(pool(), pool("cpu", **more), platform={"install": True})
    plans = plan_pools(configured, account_facts(configured))
    return plans["cpu"], describe_eks_cluster(configured, account_facts(configured), plans)


def test_cpu_type_is_valid_and_gets_standard_ami_without_gpu_taint() -> None:
    configured = settings(pool("cpu", "c7i.8xlarge"))
    assert not [problem for problem in validation.run_rules(configured, account_facts(configured)) if problem.is_error]
    spec = plan_cpu_pool(instance_type="c7i.8xlarge")[0].spec
    assert spec.ami_type == "AL2023_x86_64_STANDARD"
    assert spec.taints == () and spec.labels == {"gpumpi.io/pool": "cpu"}
    assert not any("nvidia" in tag for tag in spec.autoscaler_tags)
    assert plan_cpu_pool(instance_type="c7g.8xlarge")[0].spec.ami_type == "AL2023_ARM_64_STANDARD"


def test_a_cpu_type_with_efa_keeps_its_interfaces_and_huge_pages() -> None:
    spec = plan_cpu_pool(instance_type="c5n.18xlarge")[0].spec
    assert spec.efa_device_count == 1 and spec.huge_pages and "vpc.amazonaws.com/efa.present" in spec.labels


def test_local_disks_are_striped_and_counted_as_ephemeral_storage() -> None:
    spec = plan_cpu_pool(instance_type="c5d.9xlarge")[0].spec
    tags = {key.rpartition("/")[2]: value for key, value in spec.autoscaler_tags.items()}
    assert spec.raid0 and tags["ephemeral-storage"] == "765G"


def test_jobs_and_queue_see_a_cpu_pool_with_vcpu_slots() -> None:
    described = plan_cpu_pool(instance_type="c7i.8xlarge")[1]
    cpu_pool = described.pool("cpu")
    assert cpu_pool is not None and (cpu_pool.gpus, cpu_pool.slots, cpu_pool.taints) == (0, 32, ())
    assert admission.build_flavor(cpu_pool) == {"nodeLabels": {"gpumpi.io/pool": "cpu"}}
