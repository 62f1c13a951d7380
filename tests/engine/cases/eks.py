"""EKS."""

import json
from typing import Any

from tests.engine.cases.case import Case, names, value
from tests.engine.world import World

ADMIN = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"
VIEW = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSViewPolicy"
OVERRIDE = {
    "minRepairWaitTimeMins": 20,
    "nodeMonitoringCondition": "AcceleratedHardwareReady",
    "nodeUnhealthyReason": "NvidiaXID64Error",
    "repairAction": "Reboot",
}


def _vpc(world: World, **changed: Any) -> dict[str, Any]:
    return {
        "subnetIds": world.subnets[:2],
        "securityGroupIds": world.groups[:1],
        "endpointPrivateAccess": True,
        "endpointPublicAccess": True,
        "publicAccessCidrs": ["203.0.113.0/24"],
        **changed,
    }


def _cluster(world: World) -> dict[str, Any]:
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
        "vpcConfig": _vpc(world),
        "tags": {"gpumpi:stack": "local"},
    }


def _second_role(world: World) -> str:
    return world.role("second", "eks.amazonaws.com", "ec2.amazonaws.com", "pods.eks.amazonaws.com")


def _association(world: World) -> dict[str, Any]:
    world.access_entry(world.pod_role)
    scope = {"type": "namespace", "namespaces": ["jobs", "default"]}
    return {"clusterName": world.cluster, "principalArn": world.pod_role, "policyArn": VIEW, "accessScope": scope}


def _node_group(world: World) -> dict[str, Any]:
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


def _plain_node_group(world: World) -> dict[str, Any]:
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


def _node_group_by_template_name(world: World) -> dict[str, Any]:
    return {**_node_group(world), "launchTemplate": {"name": world.launch_template_name, "version": "1"}}


def _addon(world: World) -> dict[str, Any]:
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
        make_inputs=_cluster,
        needed=names("roleArn", "vpcConfig"),
        updates={
            "version": value("1.35"),
            "forceUpdateVersion": value(True),
            "accessConfig": value({"authenticationMode": "API", "bootstrapClusterCreatorAdminPermissions": False}),
            "deletionProtection": value(True),
            "enabledClusterLogTypes": value(["api", "authenticator"]),
            "upgradePolicy": value({"supportType": "EXTENDED"}),
            "vpcConfig": lambda world: _vpc(
                world,
                subnetIds=[*world.subnets[:2], world.another_subnet],
                securityGroupIds=world.groups,
                endpointPrivateAccess=False,
                publicAccessCidrs=["198.51.100.0/24"],
            ),
            "tags": value({"gpumpi:stack": "other"}),
        },
        removals=names("enabledClusterLogTypes", "tags"),
        replaces={
            "name": value("other"),
            "roleArn": _second_role,
            "accessConfig": value({"authenticationMode": "API", "bootstrapClusterCreatorAdminPermissions": True}),
            "bootstrapSelfManagedAddons": value(True),
            "kubernetesNetworkConfig": value({"ipFamily": "ipv4", "serviceIpv4Cidr": "192.168.0.0/20"}),
        },
        drift=lambda world, id: world.client("eks").update_cluster_config(
            name=id, resourcesVpcConfig={"publicAccessCidrs": ["0.0.0.0/0"]}
        ),
        drifted=names("vpcConfig"),
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
        needed=names("clusterName", "principalArn"),
        updates={
            "kubernetesGroups": value(["jobs"]),
            "userName": value("bob"),
            "tags": value({"Name": "other"}),
        },
        removals=names("tags"),
        replaces={"clusterName": value("other"), "principalArn": _second_role, "type": value("EC2_LINUX")},
        drift=lambda world, id: world.client("eks").update_access_entry(
            clusterName=world.cluster, principalArn=world.pod_role, kubernetesGroups=["intruders"]
        ),
        drifted=names("kubernetesGroups"),
    ),
    Case(
        "aws:eks/accessPolicyAssociation:AccessPolicyAssociation",
        make_inputs=_association,
        needed=names("clusterName", "principalArn", "policyArn", "accessScope"),
        replaces={
            "clusterName": value("other"),
            "principalArn": _second_role,
            "policyArn": value(ADMIN),
            "accessScope": value({"type": "cluster"}),
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
        needed=names("clusterName", "namespace", "serviceAccount", "roleArn"),
        updates={
            "roleArn": _second_role,
            "targetRoleArn": value("arn:aws:iam::210987654321:role/elsewhere"),
            "disableSessionTags": value(False),
            "tags": value({"Name": "other"}),
        },
        removals=names("targetRoleArn", "disableSessionTags", "tags"),
        replaces={"clusterName": value("other"), "namespace": value("other"), "serviceAccount": value("other")},
        drift=lambda world, id: world.client("eks").update_pod_identity_association(
            clusterName=world.cluster, associationId=id, roleArn=_second_role(world)
        ),
        drifted=names("roleArn"),
    ),
    Case(
        "aws:eks/nodeGroup:NodeGroup",
        make_inputs=_node_group,
        needed=names("clusterName", "nodeRoleArn", "subnetIds", "scalingConfig"),
        instead=(_plain_node_group, _node_group_by_template_name),
        updates={
            "labels": value({"gpumpi.dev/pool": "other", "more": "1"}),
            "taints": value([{"key": "nvidia.com/gpu", "value": "false", "effect": "NO_SCHEDULE"}]),
            "launchTemplate": lambda world: {"id": world.launch_template, "version": "2"},
            "version": lambda world: world.upgraded_version,
            "forceUpdateVersion": value(False),
            "scalingConfig": value({"desiredSize": 2, "maxSize": 8, "minSize": 1}),
            "updateConfig": value({"maxUnavailablePercentage": 50, "updateStrategy": "DEFAULT"}),
            "nodeRepairConfig": value({"enabled": True, "maxParallelNodesRepairedPercentage": 10}),
            "tags": value({"gpumpi:pool": "other"}),
        },
        removals=names("labels", "taints", "tags"),
        replaces={
            "clusterName": value("other"),
            "nodeGroupName": value("other"),
            "nodeRoleArn": _second_role,
            "subnetIds": lambda world: world.subnets[1:],
            "amiType": value("AL2023_x86_64_NVIDIA"),
            "capacityType": value("SPOT"),
            "instanceTypes": value(["m6i.large", "m7i.large"]),
            "launchTemplate": value({"id": "lt-0123456789abcdef0", "version": "1"}),
        },
        drift=lambda world, id: world.client("eks").update_nodegroup_config(
            clusterName=world.cluster, nodegroupName=world.name("train"), scalingConfig={"desiredSize": 3}
        ),
        drifted=names("scalingConfig"),
    ),
    Case(
        "aws:eks/addon:Addon",
        make_inputs=_addon,
        needed=names("clusterName", "addonName"),
        instead=(lambda world: {**_addon(world), "podIdentityAssociations": [], "serviceAccountRoleArn": world.pod_role},),
        updates={
            "addonVersion": value("v1.23.2-eksbuild.1"),
            "configurationValues": value(json.dumps({"enableNetworkPolicy": "false"})),
            "podIdentityAssociations": lambda world: [{"roleArn": _second_role(world), "serviceAccount": "aws-node"}],
            "serviceAccountRoleArn": lambda world: world.pod_role,
            "resolveConflictsOnCreate": value("NONE"),
            "resolveConflictsOnUpdate": value("OVERWRITE"),
            "preserve": value(False),
            "tags": value({"gpumpi:stack": "other"}),
        },
        removals=names("podIdentityAssociations", "tags"),
        replaces={"clusterName": value("other"), "addonName": value("kube-proxy")},
        drift=lambda world, id: world.client("eks").update_addon(
            clusterName=world.cluster, addonName="vpc-cni", configurationValues="{}"
        ),
        drifted=names("configurationValues"),
    ),
]
