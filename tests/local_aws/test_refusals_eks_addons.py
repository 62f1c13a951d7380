"""Add-on and tag calls that EKS rejects."""

import pytest

from localcloud.aws.account import ACCOUNT
from testkit.aws_clients import REGION
from tests.local_aws.eks_refusing import (
    IN_USE,
    NOT_FOUND,
    PARAMETER,
    Refusing,
    build_api_reference_url,
)
from tests.local_aws.refusals import Refusal

REFUSALS = [
    Refusal(
        "an installed add-on",
        "create_addon",
        {"clusterName": "demo", "addonName": "vpc-cni"},
        IN_USE,
        build_api_reference_url("CreateAddon"),
        "Addon already exists.",
    ),
    Refusal(
        "an unknown add-on",
        "create_addon",
        {"clusterName": "demo", "addonName": "istio"},
        PARAMETER,
        build_api_reference_url("CreateAddon"),
        "is not supported",
    ),
    Refusal(
        "an unknown version",
        "create_addon",
        {"clusterName": "demo", "addonName": "coredns", "addonVersion": "v9.9.9-eksbuild.1"},
        PARAMETER,
        build_api_reference_url("CreateAddon"),
        "Addon version specified is not supported",
    ),
    Refusal(
        "an add-on version for another Kubernetes version",
        "create_addon",
        {"clusterName": "demo", "addonName": "coredns", "addonVersion": "v1.14.3-eksbuild.23"},
        PARAMETER,
        build_api_reference_url("CreateAddon"),
        "Addon version specified is not supported",
    ),
    Refusal(
        "settings that are not JSON",
        "create_addon",
        {"clusterName": "demo", "addonName": "coredns", "configurationValues": "{"},
        PARAMETER,
        build_api_reference_url("CreateAddon"),
        "not valid JSON",
    ),
    Refusal(
        "an unknown setting",
        "create_addon",
        {"clusterName": "demo", "addonName": "coredns", "configurationValues": '{"replicas": 2}'},
        PARAMETER,
        build_api_reference_url("CreateAddon"),
        "[$.replicas: is not defined in the schema and the schema does not allow additional properties]",
    ),
    Refusal(
        "a setting of the wrong type",
        "create_addon",
        {"clusterName": "demo", "addonName": "coredns", "configurationValues": '{"replicaCount": "2"}'},
        PARAMETER,
        build_api_reference_url("CreateAddon"),
        "$.replicaCount: string found, integer expected",
    ),
    Refusal(
        "network policy as a boolean",
        "update_addon",
        {"clusterName": "demo", "addonName": "vpc-cni", "configurationValues": '{"enableNetworkPolicy": true}'},
        PARAMETER,
        build_api_reference_url("UpdateAddon"),
        "$.enableNetworkPolicy: boolean found, string expected",
    ),
    Refusal(
        "an unknown conflict resolution",
        "create_addon",
        {"clusterName": "demo", "addonName": "coredns", "resolveConflicts": "FORCE"},
        PARAMETER,
        build_api_reference_url("CreateAddon"),
        "FORCE",
    ),
    Refusal(
        "a malformed role ARN",
        "create_addon",
        {"clusterName": "demo", "addonName": "coredns", "serviceAccountRoleArn": "role"},
        PARAMETER,
        build_api_reference_url("CreateAddon"),
        "role",
    ),
    Refusal(
        "a service account that the add-on does not use",
        "create_addon",
        lambda world: {
            "clusterName": "demo",
            "addonName": "coredns",
            "podIdentityAssociations": [{"serviceAccount": "aws-node", "roleArn": world.pod_role}],
        },
        PARAMETER,
        build_api_reference_url("CreateAddon"),
        "aws-node",
    ),
    Refusal(
        "a role that pods may not assume",
        "create_addon",
        lambda world: {
            "clusterName": "demo",
            "addonName": "aws-efs-csi-driver",
            "podIdentityAssociations": [{"serviceAccount": "efs-csi-controller-sa", "roleArn": world.node_role}],
        },
        PARAMETER,
        build_api_reference_url("CreateAddon"),
        "Trust policy of the role provided is invalid",
    ),
    Refusal(
        "an add-on that is not installed",
        "update_addon",
        {"clusterName": "demo", "addonName": "coredns"},
        NOT_FOUND,
        build_api_reference_url("UpdateAddon"),
        "No addon: coredns found in cluster: demo",
    ),
    Refusal(
        "an unknown version",
        "update_addon",
        {"clusterName": "demo", "addonName": "vpc-cni", "addonVersion": "v1"},
        PARAMETER,
        build_api_reference_url("UpdateAddon"),
        "Addon version specified",
    ),
    Refusal(
        "an add-on that is not installed",
        "describe_addon",
        {"clusterName": "demo", "addonName": "coredns"},
        NOT_FOUND,
        build_api_reference_url("DescribeAddon"),
        "No addon: coredns found in cluster: demo",
    ),
    Refusal(
        "an add-on that is not installed",
        "delete_addon",
        {"clusterName": "demo", "addonName": "coredns"},
        NOT_FOUND,
        build_api_reference_url("DeleteAddon"),
        "No addon: coredns found in cluster: demo",
    ),
    Refusal(
        "an unknown add-on",
        "describe_addon_versions",
        {"addonName": "istio"},
        PARAMETER,
        build_api_reference_url("DescribeAddonVersions"),
        "istio",
    ),
    Refusal(
        "an unknown Kubernetes version",
        "describe_addon_versions",
        {"kubernetesVersion": "9.9"},
        PARAMETER,
        build_api_reference_url("DescribeAddonVersions"),
        "unsupported",
    ),
    Refusal(
        "an unknown version",
        "describe_addon_configuration",
        {"addonName": "coredns", "addonVersion": "v9"},
        PARAMETER,
        build_api_reference_url("DescribeAddonConfiguration"),
        "not supported",
    ),
    Refusal(
        "a nonexistent resource",
        "tag_resource",
        {"resourceArn": f"arn:aws:eks:{REGION}:{ACCOUNT}:cluster/none", "tags": {"a": "b"}},
        "NotFoundException",
        build_api_reference_url("TagResource"),
    ),
    Refusal(
        "a resource that is not an ARN",
        "tag_resource",
        {"resourceArn": "demo", "tags": {"a": "b"}},
        "BadRequestException",
        build_api_reference_url("TagResource"),
    ),
    Refusal(
        "a reserved tag",
        "tag_resource",
        {"resourceArn": f"arn:aws:eks:{REGION}:{ACCOUNT}:cluster/demo", "tags": {"aws:a": "b"}},
        "BadRequestException",
        build_api_reference_url("TagResource"),
    ),
    Refusal(
        "more than 50 tags",
        "tag_resource",
        {"resourceArn": f"arn:aws:eks:{REGION}:{ACCOUNT}:cluster/demo", "tags": {f"k{index}": "" for index in range(51)}},
        "BadRequestException",
        build_api_reference_url("TagResource"),
    ),
]


@pytest.mark.parametrize("refusal", REFUSALS, ids=str)
def test_eks_rejects_an_invalid_add_on_request(shared_eks_world: Refusing, refusal: Refusal) -> None:
    refusal.check(shared_eks_world.eks, world=shared_eks_world)
