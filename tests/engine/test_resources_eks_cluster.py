"""EKS clusters and access to them: cases beyond those tested for every resource type."""

from collections.abc import Iterator
from typing import Any

import pytest

from localcloud.aws import calls, durations, faults
from localcloud.aws.faults import Fault
from localcloud.engine.aws.lifecycle import InitializationFailed, OperationFailed
from localcloud.engine.aws.resource import RESOURCES, Args
from tests.engine.life import Life
from tests.engine.world import World, module_account, new_world  # noqa: F401

CLUSTER = RESOURCES["aws:eks/cluster:Cluster"]
ENTRY = RESOURCES["aws:eks/accessEntry:AccessEntry"]
ASSOCIATION = RESOURCES["aws:eks/accessPolicyAssociation:AccessPolicyAssociation"]


@pytest.fixture
def shortened_delays() -> Iterator[None]:
    """Shorten AWS operations to a ten-thousandth of their real duration."""
    durations.set_factor(0.0001)
    yield
    durations.set_factor(0)


def build_cluster_inputs(world: World, **more: Any) -> Args:
    return {"name": world.prefix, "roleArn": world.cluster_role, "vpcConfig": {"subnetIds": world.subnets[:2]}, **more}


@pytest.mark.usefixtures("shortened_delays")
def test_creation_and_deletion_wait_for_the_cluster(world: World) -> None:
    cluster = Life(CLUSTER, world.aws, build_cluster_inputs(world))
    assert cluster.state["status"] == "ACTIVE"
    assert cluster.state["endpoint"].startswith("https://")
    assert cluster.state["certificateAuthority"]["data"]
    assert cluster.state["identities"][0]["oidcs"][0]["issuer"].startswith("https://")
    assert cluster.state["vpcConfig"]["clusterSecurityGroupId"].startswith("sg-")
    assert cluster.state["vpcConfig"]["vpcId"] == world.vpc
    cluster.update(build_cluster_inputs(world, enabledClusterLogTypes=["api"]))
    cluster.delete()
    assert world.prefix not in world.client("eks").list_clusters()["clusters"]


def test_each_kind_of_cluster_change_is_a_separate_request(world: World) -> None:
    cluster = Life(CLUSTER, world.aws, build_cluster_inputs(world, version="1.33"))
    network = {
        "subnetIds": [*world.subnets[:2], world.second_subnet],
        "securityGroupIds": world.groups,
        "endpointPrivateAccess": True,
        "endpointPublicAccess": False,
    }
    calls.clear_counts()
    cluster.update(
        {
            **build_cluster_inputs(world, version="1.34", enabledClusterLogTypes=["api"], deletionProtection=True),
            "vpcConfig": network,
        }
    )
    assert calls.count_writes() == {"eks.UpdateClusterConfig": 5, "eks.UpdateClusterVersion": 1}
    assert cluster.state["platformVersion"]
    assert cluster.find_differences() == set()


def test_an_upgrade_that_skips_a_minor_version_is_refused(world: World) -> None:
    cluster = Life(CLUSTER, world.aws, build_cluster_inputs(world, version="1.33"))
    with pytest.raises(InitializationFailed, match=r"updating EKS Cluster .*Unsupported Kubernetes minor version update"):
        cluster.update(build_cluster_inputs(world, version="1.35"))


def test_secrets_encryption_can_be_added_but_not_changed_or_removed(world: World) -> None:
    cluster = Life(CLUSTER, world.aws, build_cluster_inputs(world))
    encrypted = {"provider": {"keyArn": world.key}, "resources": ["secrets"]}
    cluster.update(build_cluster_inputs(world, encryptionConfig=encrypted))
    assert cluster.state["encryptionConfig"] == encrypted
    other = {"provider": {"keyArn": world.second_key}, "resources": ["secrets"]}
    with pytest.raises(InitializationFailed, match="the key that encrypts its secrets cannot be changed"):
        cluster.update(build_cluster_inputs(world, encryptionConfig=other))
    assert cluster.find_replacements(build_cluster_inputs(world)) == {"encryptionConfig"}


def test_a_cluster_with_deletion_protection_is_not_deleted(world: World) -> None:
    cluster = Life(CLUSTER, world.aws, build_cluster_inputs(world, deletionProtection=True))
    with pytest.raises(OperationFailed, match=r"deleting EKS Cluster .*deletion protection"):
        cluster.delete()


@pytest.mark.parametrize("more", [{}, {"version": "1.34"}], ids=["the same inputs", "another version"])
def test_creating_a_second_resource_with_the_same_name_is_refused(world: World, more: Args) -> None:
    """The same error occurs in the next `up` if the engine was killed before it received the response. In that case,
    `recover` adopts the cluster."""
    Life(CLUSTER, world.aws, build_cluster_inputs(world))
    with pytest.raises(OperationFailed, match="ResourceInUseException: Cluster already exists with name"):
        Life(CLUSTER, world.aws, build_cluster_inputs(world, **more))


def test_the_next_update_completes_a_failed_update(world: World) -> None:
    cluster = Life(CLUSTER, world.aws, build_cluster_inputs(world))
    faults.add_fault(Fault("eks", "UpdateClusterConfig", "ServerException", "Internal failure.", times=20, status=400))
    new_inputs = build_cluster_inputs(world, enabledClusterLogTypes=["api"], tags={"Name": "it"})
    with pytest.raises(InitializationFailed, match=r"updating EKS Cluster .*UpdateClusterConfig.*Internal failure") as failed:
        cluster.update(new_inputs)
    faults.clear_faults()
    cluster.state = failed.value.state
    assert cluster.find_differences(new_inputs) == {"enabledClusterLogTypes"}
    cluster.update(new_inputs)
    assert cluster.find_differences() == set()


def test_access_entry_ids_match_the_official_provider(world: World) -> None:
    policy = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"
    entry = Life(ENTRY, world.aws, {"clusterName": world.cluster, "principalArn": world.pod_role})
    scope = {"type": "cluster"}
    admin = Life(ASSOCIATION, world.aws, {**entry.program_inputs(), "policyArn": policy, "accessScope": scope})
    assert entry.id == f"{world.cluster}:{world.pod_role}"
    assert admin.id == f"{world.cluster}#{world.pod_role}#{policy}"


def test_a_policy_association_of_a_deleted_access_entry_is_gone(world: World) -> None:
    policy = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"
    entry = Life(ENTRY, world.aws, {"clusterName": world.cluster, "principalArn": world.pod_role})
    admin = Life(ASSOCIATION, world.aws, {**entry.program_inputs(), "policyArn": policy, "accessScope": {"type": "cluster"}})
    entry.delete()
    assert admin.refresh() is None
    admin.delete()
