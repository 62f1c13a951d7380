"""Access entry and Pod Identity association calls that EKS rejects."""

import pytest

from localcloud.aws.account import ACCOUNT
from tests.local_aws.eks_refusing import (
    IN_USE,
    NOT_FOUND,
    PARAMETER,
    POLICY,
    REQUEST,
    Refusing,
    build_api_reference_url,
    build_user_guide_url,
)
from tests.local_aws.refusals import Refusal

REFUSALS = [
    Refusal(
        "an existing access entry",
        "create_access_entry",
        lambda world: {"clusterName": "demo", "principalArn": world.admin_role},
        IN_USE,
        build_api_reference_url("CreateAccessEntry"),
        "The specified access entry resource is already in use on this cluster.",
    ),
    Refusal(
        "a nonexistent role",
        "create_access_entry",
        {"clusterName": "demo", "principalArn": f"arn:aws:iam::{ACCOUNT}:role/none"},
        PARAMETER,
        build_api_reference_url("CreateAccessEntry"),
        "invalid principal",
    ),
    Refusal(
        "a nonexistent user",
        "create_access_entry",
        {"clusterName": "demo", "principalArn": f"arn:aws:iam::{ACCOUNT}:user/none"},
        PARAMETER,
        build_api_reference_url("CreateAccessEntry"),
        "invalid principal",
    ),
    Refusal(
        "the account's root user",
        "create_access_entry",
        {"clusterName": "demo", "principalArn": f"arn:aws:iam::{ACCOUNT}:root"},
        PARAMETER,
        build_api_reference_url("CreateAccessEntry"),
        "format is not valid",
    ),
    Refusal(
        "the ARN of a session instead of the ARN of its role",
        "create_access_entry",
        {"clusterName": "demo", "principalArn": f"arn:aws:sts::{ACCOUNT}:assumed-role/admin/ada"},
        PARAMETER,
        build_api_reference_url("CreateAccessEntry"),
        "The principalArn parameter format is not valid",
    ),
    Refusal(
        "a service-linked role",
        "create_access_entry",
        {
            "clusterName": "demo",
            "principalArn": f"arn:aws:iam::{ACCOUNT}:role/aws-service-role/eks.amazonaws.com/AWSServiceRoleForAmazonEKS",
        },
        PARAMETER,
        build_api_reference_url("CreateAccessEntry"),
        "The caller is not allowed to modify access entries with a principalArn value of a Service Linked Role",
    ),
    Refusal(
        "an unknown type",
        "create_access_entry",
        lambda world: {"clusterName": "demo", "principalArn": world.bare_role, "type": "EC2_MAC"},
        PARAMETER,
        build_api_reference_url("CreateAccessEntry"),
        "EC2_MAC",
    ),
    Refusal(
        "a user name for an entry of type EC2_LINUX",
        "create_access_entry",
        lambda world: {"clusterName": "demo", "principalArn": world.bare_role, "type": "EC2_LINUX", "username": "me"},
        PARAMETER,
        build_api_reference_url("CreateAccessEntry"),
        "cannot have a username",
    ),
    Refusal(
        "a reserved Kubernetes group",
        "create_access_entry",
        lambda world: {"clusterName": "demo", "principalArn": world.bare_role, "kubernetesGroups": ["system:masters"]},
        PARAMETER,
        build_api_reference_url("CreateAccessEntry"),
        "The kubernetes group name system:masters is invalid, it cannot start with system:",
    ),
    Refusal(
        "a reserved user name",
        "create_access_entry",
        lambda world: {"clusterName": "demo", "principalArn": world.bare_role, "username": "eks:me"},
        PARAMETER,
        build_api_reference_url("CreateAccessEntry"),
        "cannot start with eks:",
    ),
    Refusal(
        "a cluster without access entries",
        "create_access_entry",
        lambda world: {"clusterName": "legacy", "principalArn": world.admin_role},
        REQUEST,
        build_api_reference_url("CreateAccessEntry"),
        "The cluster's authentication mode must be set to one of [API, API_AND_CONFIG_MAP] to perform this operation.",
    ),
    Refusal(
        "a nonexistent access entry",
        "describe_access_entry",
        lambda world: {"clusterName": "demo", "principalArn": world.bare_role},
        NOT_FOUND,
        build_api_reference_url("DescribeAccessEntry"),
        "list-access-entries",
    ),
    Refusal(
        "a nonexistent access entry",
        "delete_access_entry",
        lambda world: {"clusterName": "demo", "principalArn": world.bare_role},
        NOT_FOUND,
        build_api_reference_url("DeleteAccessEntry"),
        "list-access-entries",
    ),
    Refusal(
        "a reserved group",
        "update_access_entry",
        lambda world: {"clusterName": "demo", "principalArn": world.admin_role, "kubernetesGroups": ["aws:a"]},
        PARAMETER,
        build_api_reference_url("UpdateAccessEntry"),
        "cannot start with aws:",
    ),
    Refusal(
        "an entry of type EC2_LINUX",
        "update_access_entry",
        lambda world: {"clusterName": "demo", "principalArn": world.node_role, "username": "me"},
        REQUEST,
        build_api_reference_url("UpdateAccessEntry"),
        "EC2_LINUX",
    ),
    Refusal(
        "an IAM policy",
        "associate_access_policy",
        lambda world: {
            "clusterName": "demo",
            "principalArn": world.admin_role,
            "policyArn": "arn:aws:iam::aws:policy/AdministratorAccess",
            "accessScope": {"type": "cluster"},
        },
        PARAMETER,
        build_api_reference_url("AssociateAccessPolicy"),
        "AdministratorAccess",
    ),
    Refusal(
        "an entry of type EC2_LINUX",
        "associate_access_policy",
        lambda world: {
            "clusterName": "demo",
            "principalArn": world.node_role,
            "policyArn": POLICY,
            "accessScope": {"type": "cluster"},
        },
        REQUEST,
        build_api_reference_url("AssociateAccessPolicy"),
        "EC2_LINUX",
    ),
    Refusal(
        "a nonexistent access entry",
        "associate_access_policy",
        lambda world: {
            "clusterName": "demo",
            "principalArn": world.bare_role,
            "policyArn": POLICY,
            "accessScope": {"type": "cluster"},
        },
        NOT_FOUND,
        build_api_reference_url("AssociateAccessPolicy"),
        "list-access-entries",
    ),
    Refusal(
        "namespace scope without namespaces",
        "associate_access_policy",
        lambda world: {
            "clusterName": "demo",
            "principalArn": world.admin_role,
            "policyArn": POLICY,
            "accessScope": {"type": "namespace"},
        },
        PARAMETER,
        build_api_reference_url("AssociateAccessPolicy"),
        "at least one namespace",
    ),
    Refusal(
        "cluster scope with namespaces",
        "associate_access_policy",
        lambda world: {
            "clusterName": "demo",
            "principalArn": world.admin_role,
            "policyArn": POLICY,
            "accessScope": {"type": "cluster", "namespaces": ["a"]},
        },
        PARAMETER,
        build_api_reference_url("AssociateAccessPolicy"),
        "cannot have namespaces",
    ),
    Refusal(
        "an unknown scope",
        "associate_access_policy",
        lambda world: {
            "clusterName": "demo",
            "principalArn": world.admin_role,
            "policyArn": POLICY,
            "accessScope": {"type": "pod"},
        },
        PARAMETER,
        build_api_reference_url("AssociateAccessPolicy"),
        "pod",
    ),
    Refusal(
        "a policy that is not associated",
        "disassociate_access_policy",
        lambda world: {"clusterName": "demo", "principalArn": world.admin_role, "policyArn": POLICY},
        NOT_FOUND,
        build_api_reference_url("DisassociateAccessPolicy"),
        POLICY,
    ),
    Refusal(
        "the same service account",
        "create_pod_identity_association",
        lambda world: {"clusterName": "demo", "namespace": "jobs", "serviceAccount": "mpi", "roleArn": world.pod_role},
        IN_USE,
        build_api_reference_url("CreatePodIdentityAssociation"),
        "Association already exists: a-",
    ),
    Refusal(
        "a nonexistent role",
        "create_pod_identity_association",
        {"clusterName": "demo", "namespace": "jobs", "serviceAccount": "new", "roleArn": f"arn:aws:iam::{ACCOUNT}:role/none"},
        PARAMETER,
        build_api_reference_url("CreatePodIdentityAssociation"),
        "Role provided in the request does not exist.",
    ),
    Refusal(
        "a role that pods may not assume",
        "create_pod_identity_association",
        lambda world: {"clusterName": "demo", "namespace": "jobs", "serviceAccount": "new", "roleArn": world.node_role},
        PARAMETER,
        build_api_reference_url("CreatePodIdentityAssociation"),
        "Trust policy of the role provided is invalid",
    ),
    Refusal(
        "a role of another account",
        "create_pod_identity_association",
        {"clusterName": "demo", "namespace": "jobs", "serviceAccount": "new", "roleArn": "arn:aws:iam::999999999999:role/a"},
        PARAMETER,
        build_api_reference_url("CreatePodIdentityAssociation"),
        "targetRoleArn",
    ),
    Refusal(
        "a user instead of a role",
        "create_pod_identity_association",
        {"clusterName": "demo", "namespace": "jobs", "serviceAccount": "new", "roleArn": f"arn:aws:iam::{ACCOUNT}:user/a"},
        PARAMETER,
        build_api_reference_url("CreatePodIdentityAssociation"),
        "not valid",
    ),
    Refusal(
        "an invalid namespace",
        "create_pod_identity_association",
        lambda world: {"clusterName": "demo", "namespace": "Jobs", "serviceAccount": "mpi", "roleArn": world.pod_role},
        PARAMETER,
        build_api_reference_url("CreatePodIdentityAssociation"),
        "Jobs",
    ),
    Refusal(
        "an invalid service account name",
        "create_pod_identity_association",
        lambda world: {"clusterName": "demo", "namespace": "jobs", "serviceAccount": "a_b", "roleArn": world.pod_role},
        PARAMETER,
        build_api_reference_url("CreatePodIdentityAssociation"),
        "a_b",
    ),
    Refusal(
        "an inline policy with session tags enabled",
        "create_pod_identity_association",
        lambda world: {
            "clusterName": "demo",
            "namespace": "jobs",
            "serviceAccount": "new",
            "roleArn": world.pod_role,
            "policy": "{}",
        },
        PARAMETER,
        build_api_reference_url("CreatePodIdentityAssociation"),
        "disableSessionTags",
    ),
]


@pytest.mark.parametrize("refusal", REFUSALS, ids=str)
def test_eks_rejects_invalid_access_entry_and_association_requests(shared_eks_world: Refusing, refusal: Refusal) -> None:
    refusal.check(shared_eks_world.eks, world=shared_eks_world)


@pytest.mark.parametrize("operation", ["update_pod_identity_association", "delete_pod_identity_association"])
def test_an_association_owned_by_an_add_on_can_be_changed_only_through_the_add_on(
    shared_eks_world: Refusing, operation: str
) -> None:
    associations = shared_eks_world.eks.list_pod_identity_associations(clusterName="demo", namespace="kube-system")[
        "associations"
    ]
    request = {"clusterName": "demo", "associationId": associations[0]["associationId"]}
    Refusal(
        "an association owned by an add-on", operation, request, REQUEST, build_user_guide_url("update-addon-role"), "owned by"
    ).check(shared_eks_world.eks)
