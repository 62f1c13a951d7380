"""EKS clusters and access to them: cases beyond those tested for every resource type."""

from collections.abc import Iterator
from typing import Any

import pytest

from localcloud.aws import calls, durations, faults
from localcloud.aws.faults import Fault
from localcloud.engine.aws.lifecycle import InitializationFailed, OperationFailed
from localcloud.engine.aws.resource import RESOURCES, Args
from tests.engine.life import Life
from tests.engine.world import World, new_world, one_account  # noqa: F401

CLUSTER = RESOURCES["aws:eks/cluster:Cluster"]
ENTRY = RESOURCES["aws:eks/accessEntry:AccessEntry"]
ASSOCIATION = RESOURCES["aws:eks/accessPolicyAssociation:AccessPolicyAssociation"]


@pytest.fixture
def slowly() -> Iterator[None]:
    """Shorten AWS operations to a ten-thousandth of their real duration."""
    durations.set_factor(0.0001)
    yield
    durations.set_factor(0)


def inputs(world: World, **more: Any) -> Args:
    return {"name": world.prefix, "roleArn": world.cluster_role, "vpcConfig": {"subnetIds": world.subnets[:2]}, **more}


@pytest.mark.usefixtures("slowly")
def test_creation_and_deletion_wait_for_the_cluster(world: World) -> None:
    cluster = Life(CLUSTER, world.aws, inputs(world))
    assert cluster.state["status"] == "ACTIVE"
    assert cluster.state["endpoint"].startswith("https://")
    assert cluster.state["certificateAuthority"]["data"]
    assert cluster.state["identities"][0]["oidcs"][0]["issuer"].startswith("https://")
    assert cluster.state["vpcConfig"]["clusterSecurityGroupId"].startswith("sg-")
    assert cluster.state["vpcConfig"]["vpcId"] == world.vpc
    cluster.update(inputs(world, enabledClusterLogTypes=["api"]))
    cluster.delete()
    assert world.prefix not in world.client("eks").list_clusters()["clusters"]


def test_each_kind_of_change_is_a_request_of_its_own(world: World) -> None:
    cluster = Life(CLUSTER, world.aws, inputs(world, version="1.33"))
    network = {
        "subnetIds": [*world.subnets[:2], world.another_subnet],
        "securityGroupIds": world.groups,
        "endpointPrivateAccess": True,
        "endpointPublicAccess": False,
    }
    calls.clear()
    cluster.update(
        {**inputs(world, version="1.34", enabledClusterLogTypes=["api"], deletionProtection=True), "vpcConfig": network}
    )
    assert calls.writes() == {"eks.UpdateClusterConfig": 5, "eks.UpdateClusterVersion": 1}
    assert cluster.state["platformVersion"]
    assert cluster.differences() == set()


def test_an_upgrade_that_skips_a_minor_is_refused_as_eks_does(world: World) -> None:
    cluster = Life(CLUSTER, world.aws, inputs(world, version="1.33"))
    with pytest.raises(InitializationFailed, match=r"updating EKS Cluster .*Unsupported Kubernetes minor version update"):
        cluster.update(inputs(world, version="1.35"))


def test_secrets_encryption_can_be_added_but_not_changed_or_removed(world: World) -> None:
    cluster = Life(CLUSTER, world.aws, inputs(world))
    encrypted = {"provider": {"keyArn": world.key}, "resources": ["secrets"]}
    cluster.update(inputs(world, encryptionConfig=encrypted))
    assert cluster.state["encryptionConfig"] == encrypted
    other = {"provider": {"keyArn": world.second_key}, "resources": ["secrets"]}
    with pytest.raises(InitializationFailed, match="the key that encrypts its secrets cannot be changed"):
        cluster.update(inputs(world, encryptionConfig=other))
    assert cluster.replaced(inputs(world)) == {"encryptionConfig"}


def test_a_protected_cluster_is_not_deleted(world: World) -> None:
    cluster = Life(CLUSTER, world.aws, inputs(world, deletionProtection=True))
    with pytest.raises(OperationFailed, match=r"deleting EKS Cluster .*deletion protection"):
        cluster.delete()


@pytest.mark.parametrize("more", [{}, {"version": "1.34"}], ids=["the same inputs", "another version"])
def test_creating_a_second_resource_with_the_same_name_is_refused(world: World, more: Args) -> None:
    """The same error occurs in the next `up` if the engine was killed before it received the response. In that case,
    `recover` adopts the cluster."""
    Life(CLUSTER, world.aws, inputs(world))
    with pytest.raises(OperationFailed, match="ResourceInUseException: Cluster already exists with name"):
        Life(CLUSTER, world.aws, inputs(world, **more))


def test_a_failed_update_is_completed_by_the_next_update(world: World) -> None:
    cluster = Life(CLUSTER, world.aws, inputs(world))
    faults.add(Fault("eks", "UpdateClusterConfig", "ServerException", "Internal failure.", times=20, status=400))
    new_inputs = inputs(world, enabledClusterLogTypes=["api"], tags={"Name": "it"})
    with pytest.raises(InitializationFailed, match=r"updating EKS Cluster .*UpdateClusterConfig.*Internal failure") as failed:
        cluster.update(new_inputs)
    faults.clear()
    cluster.state = failed.value.state
    assert cluster.differences(new_inputs) == {"enabledClusterLogTypes"}
    cluster.update(new_inputs)
    assert cluster.differences() == set()


def test_access_ids_match_the_official_provider(world: World) -> None:
    policy = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"
    entry = Life(ENTRY, world.aws, {"clusterName": world.cluster, "principalArn": world.pod_role})
    scope = {"type": "cluster"}
    admin = Life(ASSOCIATION, world.aws, {**entry.program_inputs(), "policyArn": policy, "accessScope": scope})
    assert entry.id == f"{world.cluster}:{world.pod_role}"
    assert admin.id == f"{world.cluster}#{world.pod_role}#{policy}"


def test_a_policy_of_a_deleted_entry_is_gone(world: World) -> None:
    policy = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"
    entry = Life(ENTRY, world.aws, {"clusterName": world.cluster, "principalArn": world.pod_role})
    admin = Life(ASSOCIATION, world.aws, {**entry.program_inputs(), "policyArn": policy, "accessScope": {"type": "cluster"}})
    entry.delete()
    assert admin.refresh() is None
    admin.delete()
