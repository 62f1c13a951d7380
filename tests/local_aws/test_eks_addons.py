"""EKS add-ons: versions, configuration, roles, and health, which depends on the cluster's nodes."""

import json
from typing import Any

import pytest

from localcloud.aws import events
from localcloud.aws.eks import addon_catalog, versions
from localcloud.aws.events import Event
from testkit.aws_clients import Client
from testkit.eks_world import World

DEPLOYMENTS = ("coredns", "metrics-server", "aws-efs-csi-driver", "aws-ebs-csi-driver")
DAEMON_SETS = ("vpc-cni", "kube-proxy", "eks-pod-identity-agent", "eks-node-monitoring-agent")
NAMES = DEPLOYMENTS + DAEMON_SETS


@pytest.fixture
def world(aws: Client) -> World:
    world = World(aws)
    world.cluster()
    return world


def create_addon(world: World, name: str, **settings: Any) -> dict[str, Any]:
    """Create an add-on; return its description once it has been created."""
    world.eks.create_addon(clusterName="demo", addonName=name, **settings)
    return describe_addon(world, name)


def describe_addon(world: World, name: str) -> dict[str, Any]:
    record: dict[str, Any] = world.eks.describe_addon(clusterName="demo", addonName=name)["addon"]
    return record


def update_addon(world: World, name: str, **change: Any) -> dict[str, Any]:
    started = world.eks.update_addon(clusterName="demo", addonName=name, **change)["update"]
    done: dict[str, Any] = world.eks.describe_update(name="demo", addonName=name, updateId=started["id"])["update"]
    return done


@pytest.mark.parametrize("kubernetes", list(versions.VERSIONS))
@pytest.mark.parametrize("name", NAMES)
def test_every_add_on_has_a_default_version_for_every_kubernetes_version(name: str, kubernetes: str) -> None:
    offered = addon_catalog.CATALOG[name]
    assert offered.supports(offered.default(kubernetes), kubernetes)


def test_add_on_versions_list_their_compatible_kubernetes_versions(world: World) -> None:
    [info] = world.eks.describe_addon_versions(addonName="coredns", kubernetesVersion="1.35")["addons"]
    compatibilities = {item["addonVersion"]: item["compatibilities"] for item in info["addonVersions"]}
    assert all([compatibility["clusterVersion"] for compatibility in each] == ["1.35"] for each in compatibilities.values())
    default = [version for version, [compatibility] in compatibilities.items() if compatibility["defaultVersion"]]
    assert default == ["v1.13.2-eksbuild.31"]
    assert "v1.11.4-eksbuild.60" not in compatibilities


def test_add_ons_can_be_filtered(world: World) -> None:
    addons = world.eks.describe_addon_versions(types=["storage"])["addons"]
    assert {item["addonName"] for item in addons} == {"aws-efs-csi-driver", "aws-ebs-csi-driver", "aws-fsx-csi-driver"}


@pytest.mark.parametrize("name", DAEMON_SETS)
def test_a_daemonset_add_on_is_active_without_nodes(world: World, name: str) -> None:
    created = world.eks.create_addon(clusterName="demo", addonName=name)["addon"]
    assert created["status"] == "CREATING"
    assert describe_addon(world, name)["status"] == "ACTIVE"


@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_a_deployment_add_on_is_degraded_until_a_node_can_run_it(world: World, name: str) -> None:
    before = create_addon(world, name)
    assert (before["status"], [issue["code"] for issue in before["health"]["issues"]]) == (
        "DEGRADED",
        ["InsufficientNumberOfReplicas"],
    )
    world.node_group("tainted", taints=[{"key": "nvidia.com/gpu", "value": "true", "effect": "NO_SCHEDULE"}])
    assert describe_addon(world, name)["status"] == "DEGRADED"
    world.node_group("system")
    after = describe_addon(world, name)
    assert (after["status"], after["health"]["issues"]) == ("ACTIVE", [])


def test_an_add_on_without_a_version_gets_the_default_version(world: World) -> None:
    assert create_addon(world, "vpc-cni")["addonVersion"] == "v1.22.4-eksbuild.3"


def test_configuration_values_are_kept_and_replaced_by_an_update(world: World) -> None:
    first = json.dumps(
        {"enableNetworkPolicy": "true", "env": {"WARM_IP_TARGET": "4"}, "nodeAgent": {"enablePolicyEventLogs": "true"}}
    )
    created = create_addon(world, "vpc-cni", addonVersion="v1.21.1-eksbuild.7", configurationValues=first, tags={"team": "mpi"})
    assert (created["configurationValues"], created["tags"]) == (first, {"team": "mpi"})
    done = update_addon(
        world, "vpc-cni", addonVersion="v1.22.4-eksbuild.3", configurationValues="{}", resolveConflicts="OVERWRITE"
    )
    assert (done["type"], done["status"]) == ("AddonUpdate", "Successful")
    after = describe_addon(world, "vpc-cni")
    assert (after["addonVersion"], after["configurationValues"], after["status"]) == ("v1.22.4-eksbuild.3", "{}", "ACTIVE")


def test_an_add_on_update_event_contains_the_new_values(world: World) -> None:
    heard: list[Event] = []
    create_addon(world, "vpc-cni")
    unregister = events.register_realizer(heard.append)
    try:
        update_addon(world, "vpc-cni", configurationValues='{"enableNetworkPolicy": "true"}')
    finally:
        unregister()
    (event,) = [event for event in heard if event.kind == "add-on"]
    assert (event.action, event.name) == ("changed", "demo/vpc-cni")
    assert event.details["configurationValues"] == '{"enableNetworkPolicy": "true"}'


def test_configuration_values_can_be_yaml(world: World) -> None:
    assert create_addon(world, "coredns", configurationValues="replicaCount: 3\n")["configurationValues"] == "replicaCount: 3\n"


def test_the_pod_identity_association_of_an_add_on_is_created_and_deleted_with_the_add_on(world: World) -> None:
    created = create_addon(world, "vpc-cni", podIdentityAssociations=[{"serviceAccount": "aws-node", "roleArn": world.pod_role}])
    [arn] = created["podIdentityAssociations"]
    [association] = world.eks.list_pod_identity_associations(clusterName="demo")["associations"]
    assert association["associationArn"] == arn
    assert (association["namespace"], association["serviceAccount"]) == ("kube-system", "aws-node")
    assert association["ownerArn"] == created["addonArn"]
    update_addon(world, "vpc-cni", podIdentityAssociations=[])
    assert world.eks.list_pod_identity_associations(clusterName="demo")["associations"] == []
    update_addon(world, "vpc-cni", podIdentityAssociations=[{"serviceAccount": "aws-node", "roleArn": world.pod_role}])
    assert len(world.eks.list_pod_identity_associations(clusterName="demo")["associations"]) == 1
    world.eks.delete_addon(clusterName="demo", addonName="vpc-cni")
    assert world.eks.list_addons(clusterName="demo")["addons"] == []
    assert world.eks.list_pod_identity_associations(clusterName="demo")["associations"] == []


def test_a_cluster_upgrade_does_not_change_add_ons_until_they_are_updated(world: World) -> None:
    world.cluster("older", version="1.34")
    world.eks.create_addon(clusterName="older", addonName="kube-proxy")
    world.eks.update_cluster_version(name="older", version="1.35")
    named = {"clusterName": "older", "addonName": "kube-proxy"}
    assert world.eks.describe_addon(**named)["addon"]["addonVersion"] == "v1.34.6-eksbuild.29"
    world.eks.update_addon(**named, addonVersion="v1.35.3-eksbuild.29")
    assert world.eks.describe_addon(**named)["addon"]["addonVersion"] == "v1.35.3-eksbuild.29"


def test_the_add_on_configuration_has_a_json_schema_and_names_the_service_account(world: World) -> None:
    answer = world.eks.describe_addon_configuration(addonName="vpc-cni", addonVersion="v1.22.4-eksbuild.3")
    assert json.loads(answer["configurationSchema"])["properties"]["enableNetworkPolicy"]["type"] == "string"
    [role] = answer["podIdentityConfiguration"]
    assert role["serviceAccount"] == "aws-node"
    assert role["recommendedManagedPolicies"] == ["arn:aws:iam::aws:policy/AmazonEKS_CNI_Policy"]
