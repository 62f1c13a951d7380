"""EKS."""

import json
from typing import Any

from tests.engine.cases.case import Case, make_constant, property_names
from tests.engine.world import World

ADMIN = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"
VIEW = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSViewPolicy"
OVERRIDE = {
    "minRepairWaitTimeMins": 20,
    "nodeMonitoringCondition": "AcceleratedHardwareReady",
    "nodeUnhealthyReason": "NvidiaXID64Error",
    "repairAction": "Reboot",
}


def _build_vpc_config(world: World, **changed: Any) -> dict[str, Any]:
    return {
        "subnetIds": world.subnets[:2],
        "securityGroupIds": world.groups[:1],
        "endpointPrivateAccess": True,
        "endpointPublicAccess": True,
        "publicAccessCidrs": ["203.0.113.0/24"],
        **changed,
    }


def _build_cluster_inputs(world: World) -> dict[str, Any]:
    return {
        "name": world.name("it"),
        "roleArn": world.cluster_role,
        "version": "1.34",
        "forceUpdateVersion": False,
        "accessConfig": {"authenticationMode": "API_AND_CONFIG_MAP", "bootstrapClusterCreatorAdminPermissions": False},
        "bootstrapSelfManagedAddons": False,
        "deletionProtection": False,
        "enabledClusterLogTypes": ["api", "scheduler", "audit"],
        "encryptionConfig": {"provider": {"keyArn": world.key}, "resources": ["secrets"]},
        "kubernetesNetworkConfig": {"ipFamily": "ipv4", "serviceIpv4Cidr": "172.20.0.0/16"},
        "upgradePolicy": {"supportType": "STANDARD"},
        "vpcConfig": _build_vpc_config(world),
        "tags": {"gpumpi:stack": "local"},
    }


def _create_second_role(world: World) -> str:
    return world.ensure_role("second", "eks.amazonaws.com", "ec2.amazonaws.com", "pods.eks.amazonaws.com")


def _build_association_inputs(world: World) -> dict[str, Any]:
    world.ensure_access_entry(world.pod_role)
    scope = {"type": "namespace", "namespaces": ["jobs", "default"]}
    return {"clusterName": world.cluster, "principalArn": world.pod_role, "policyArn": VIEW, "accessScope": scope}


def _build_node_group_inputs(world: World) -> dict[str, Any]:
    return {
        "clusterName": world.cluster,
        "nodeGroupName": world.name("train"),
        "nodeRoleArn": world.node_role,
        "subnetIds": world.subnets[:2],
        "amiType": "AL2023_x86_64_STANDARD",
        "capacityType": "ON_DEMAND",
        "instanceTypes": ["m7i.large", "m6i.large"],
        "labels": {"gpumpi.dev/pool": "train", "keep": "this"},
        "taints": [
            {"key": "nvidia.com/gpu", "value": "true", "effect": "NO_SCHEDULE"},
            {"key": "mpi", "effect": "NO_EXECUTE"},
        ],
        "launchTemplate": {"id": world.launch_template, "version": "1"},
        "version": "1.34",
        "forceUpdateVersion": True,
        "scalingConfig": {"desiredSize": 1, "maxSize": 4, "minSize": 0},
        "updateConfig": {"maxUnavailable": 2, "updateStrategy": "MINIMAL"},
        "nodeRepairConfig": {
            "enabled": True,
            "maxParallelNodesRepairedCount": 1,
            "maxUnhealthyNodeThresholdCount": 2,
            "nodeRepairConfigOverrides": [OVERRIDE],
        },
        "tags": {"gpumpi:pool": "train"},
    }


def _build_plain_node_group_inputs(world: World) -> dict[str, Any]:
    """Inputs of a node group without a launch template, with limits for updates and repairs in percent."""
    return {
        "clusterName": world.cluster,
        "nodeGroupNamePrefix": world.name("sys-"),
        "nodeRoleArn": world.node_role,
        "subnetIds": world.subnets,
        "diskSize": 50,
        "releaseVersion": world.release_version,
        "scalingConfig": {"desiredSize": 0, "maxSize": 1, "minSize": 0},
        "updateConfig": {"maxUnavailablePercentage": 50},
        "nodeRepairConfig": {"maxParallelNodesRepairedPercentage": 10, "maxUnhealthyNodeThresholdPercentage": 20},
    }


def _build_named_template_inputs(world: World) -> dict[str, Any]:
    return {**_build_node_group_inputs(world), "launchTemplate": {"name": world.launch_template_name, "version": "1"}}


def _build_addon_inputs(world: World) -> dict[str, Any]:
    return {
        "clusterName": world.cluster,
        "addonName": "vpc-cni",
        "addonVersion": "v1.23.1-eksbuild.1",
        "configurationValues": json.dumps({"enableNetworkPolicy": "true"}),
        "podIdentityAssociations": [{"roleArn": world.pod_role, "serviceAccount": "aws-node"}],
        "resolveConflictsOnCreate": "OVERWRITE",
        "resolveConflictsOnUpdate": "PRESERVE",
        "preserve": True,
        "tags": {"gpumpi:stack": "local"},
    }


CASES = [
    Case(
        "aws:eks/cluster:Cluster",
        make_inputs=_build_cluster_inputs,
        needed=property_names("roleArn", "vpcConfig"),
        updates={
            "version": make_constant("1.35"),
            "forceUpdateVersion": make_constant(True),
            "accessConfig": make_constant({"authenticationMode": "API", "bootstrapClusterCreatorAdminPermissions": False}),
            "deletionProtection": make_constant(True),
            "enabledClusterLogTypes": make_constant(["api", "authenticator"]),
            "upgradePolicy": make_constant({"supportType": "EXTENDED"}),
            "vpcConfig": lambda world: _build_vpc_config(
                world,
                subnetIds=[*world.subnets[:2], world.second_subnet],
                securityGroupIds=world.groups,
                endpointPrivateAccess=False,
                publicAccessCidrs=["198.51.100.0/24"],
            ),
            "tags": make_constant({"gpumpi:stack": "other"}),
        },
        removals=property_names("enabledClusterLogTypes", "tags"),
        replaces={
            "name": make_constant("other"),
            "roleArn": _create_second_role,
            "accessConfig": make_constant({"authenticationMode": "API", "bootstrapClusterCreatorAdminPermissions": True}),
            "bootstrapSelfManagedAddons": make_constant(True),
            "kubernetesNetworkConfig": make_constant({"ipFamily": "ipv4", "serviceIpv4Cidr": "192.168.0.0/20"}),
        },
        drift=lambda world, id: world.client("eks").update_cluster_config(
            name=id, resourcesVpcConfig={"publicAccessCidrs": ["0.0.0.0/0"]}
        ),
        drifted=property_names("vpcConfig"),
    ),
    Case(
        "aws:eks/accessEntry:AccessEntry",
        make_inputs=lambda world: {
            "clusterName": world.cluster,
            "principalArn": world.pod_role,
            "type": "STANDARD",
            "kubernetesGroups": ["jobs", "viewers"],
            "userName": "alice",
            "tags": {"Name": "it"},
        },
        needed=property_names("clusterName", "principalArn"),
        updates={
            "kubernetesGroups": make_constant(["jobs"]),
            "userName": make_constant("bob"),
            "tags": make_constant({"Name": "other"}),
        },
        removals=property_names("tags"),
        replaces={"clusterName": make_constant("other"), "principalArn": _create_second_role, "type": make_constant("EC2_LINUX")},
        drift=lambda world, id: world.client("eks").update_access_entry(
            clusterName=world.cluster, principalArn=world.pod_role, kubernetesGroups=["intruders"]
        ),
        drifted=property_names("kubernetesGroups"),
    ),
    Case(
        "aws:eks/accessPolicyAssociation:AccessPolicyAssociation",
        make_inputs=_build_association_inputs,
        needed=property_names("clusterName", "principalArn", "policyArn", "accessScope"),
        replaces={
            "clusterName": make_constant("other"),
            "principalArn": _create_second_role,
            "policyArn": make_constant(ADMIN),
            "accessScope": make_constant({"type": "cluster"}),
        },
    ),
    Case(
        "aws:eks/podIdentityAssociation:PodIdentityAssociation",
        make_inputs=lambda world: {
            "clusterName": world.cluster,
            "namespace": "jobs",
            "serviceAccount": "trainer",
            "roleArn": world.pod_role,
            "targetRoleArn": "arn:aws:iam::210987654321:role/there",
            "disableSessionTags": True,
            "tags": {"Name": "it"},
        },
        needed=property_names("clusterName", "namespace", "serviceAccount", "roleArn"),
        updates={
            "roleArn": _create_second_role,
            "targetRoleArn": make_constant("arn:aws:iam::210987654321:role/elsewhere"),
            "disableSessionTags": make_constant(False),
            "tags": make_constant({"Name": "other"}),
        },
        removals=property_names("targetRoleArn", "disableSessionTags", "tags"),
        replaces={
            "clusterName": make_constant("other"),
            "namespace": make_constant("other"),
            "serviceAccount": make_constant("other"),
        },
        drift=lambda world, id: world.client("eks").update_pod_identity_association(
            clusterName=world.cluster, associationId=id, roleArn=_create_second_role(world)
        ),
        drifted=property_names("roleArn"),
    ),
    Case(
        "aws:eks/nodeGroup:NodeGroup",
        make_inputs=_build_node_group_inputs,
        needed=property_names("clusterName", "nodeRoleArn", "subnetIds", "scalingConfig"),
        instead=(_build_plain_node_group_inputs, _build_named_template_inputs),
        updates={
            "labels": make_constant({"gpumpi.dev/pool": "other", "more": "1"}),
            "taints": make_constant([{"key": "nvidia.com/gpu", "value": "false", "effect": "NO_SCHEDULE"}]),
            "launchTemplate": lambda world: {"id": world.launch_template, "version": "2"},
            "version": lambda world: world.upgraded_version,
            "forceUpdateVersion": make_constant(False),
            "scalingConfig": make_constant({"desiredSize": 2, "maxSize": 8, "minSize": 1}),
            "updateConfig": make_constant({"maxUnavailablePercentage": 50, "updateStrategy": "DEFAULT"}),
            "nodeRepairConfig": make_constant({"enabled": True, "maxParallelNodesRepairedPercentage": 10}),
            "tags": make_constant({"gpumpi:pool": "other"}),
        },
        removals=property_names("labels", "taints", "tags"),
        replaces={
            "clusterName": make_constant("other"),
            "nodeGroupName": make_constant("other"),
            "nodeRoleArn": _create_second_role,
            "subnetIds": lambda world: world.subnets[1:],
            "amiType": make_constant("AL2023_x86_64_NVIDIA"),
            "capacityType": make_constant("SPOT"),
            "instanceTypes": make_constant(["m6i.large", "m7i.large"]),
            "launchTemplate": make_constant({"id": "lt-0123456789abcdef0", "version": "1"}),
        },
        drift=lambda world, id: world.client("eks").update_nodegroup_config(
            clusterName=world.cluster, nodegroupName=world.name("train"), scalingConfig={"desiredSize": 3}
        ),
        drifted=property_names("scalingConfig"),
    ),
    Case(
        "aws:eks/addon:Addon",
        make_inputs=_build_addon_inputs,
        needed=property_names("clusterName", "addonName"),
        instead=(
            lambda world: {**_build_addon_inputs(world), "podIdentityAssociations": [], "serviceAccountRoleArn": world.pod_role},
        ),
        updates={
            "addonVersion": make_constant("v1.23.2-eksbuild.1"),
            "configurationValues": make_constant(json.dumps({"enableNetworkPolicy": "false"})),
            "podIdentityAssociations": lambda world: [{"roleArn": _create_second_role(world), "serviceAccount": "aws-node"}],
            "serviceAccountRoleArn": lambda world: world.pod_role,
            "resolveConflictsOnCreate": make_constant("NONE"),
            "resolveConflictsOnUpdate": make_constant("OVERWRITE"),
            "preserve": make_constant(False),
            "tags": make_constant({"gpumpi:stack": "other"}),
        },
        removals=property_names("podIdentityAssociations", "tags"),
        replaces={"clusterName": make_constant("other"), "addonName": make_constant("kube-proxy")},
        drift=lambda world, id: world.client("eks").update_addon(
            clusterName=world.cluster, addonName="vpc-cni", configurationValues="{}"
        ),
        drifted=property_names("configurationValues"),
    ),
]
