"""EKS access policies, and the Kubernetes user and groups of an IAM principal."""

from typing import Any

import pytest

from localcloud.aws.eks import access_policies
from localcloud.kubernetes.access import entries, policies

CLUSTER = {"type": "cluster", "namespaces": []}
ACCOUNT = "123456789012"


def make_association(policy: str, *namespaces: str) -> dict[str, Any]:
    scope = {"type": "namespace", "namespaces": list(namespaces)} if namespaces else CLUSTER
    return {"policyArn": f"{access_policies.PREFIX}AmazonEKS{policy}", "accessScope": scope}


def make_access_review(verb: str, resource: str, group: str = "", namespace: str = "jobs") -> dict[str, Any]:
    name, _, subresource = resource.partition("/")
    attributes = {"verb": verb, "group": group, "resource": name, "subresource": subresource, "namespace": namespace}
    return {"user": "x", "resourceAttributes": {key: value for key, value in attributes.items() if value}}


VIEW, EDIT, ADMIN = "ViewPolicy", "EditPolicy", "AdminPolicy"


@pytest.mark.parametrize(
    ("policy", "verb", "resource", "group", "allowed"),
    [
        (VIEW, "list", "pods", "", True),
        (VIEW, "get", "pods/log", "", True),
        (VIEW, "list", "secrets", "", False),
        (VIEW, "create", "pods", "", False),
        (VIEW, "get", "pods/exec", "", False),
        (VIEW, "list", "mpijobs", "kubeflow.org", False),
        (VIEW, "list", "nodes", "", False),
        (EDIT, "create", "jobs", "batch", True),
        (EDIT, "get", "secrets", "", True),
        (EDIT, "create", "pods/exec", "", True),
        (EDIT, "create", "rolebindings", "rbac.authorization.k8s.io", False),
        (EDIT, "create", "mpijobs", "kubeflow.org", False),
        (EDIT, "update", "resourcequotas", "", False),
        (ADMIN, "create", "rolebindings", "rbac.authorization.k8s.io", True),
        (ADMIN, "create", "clusterroles", "rbac.authorization.k8s.io", False),
        (ADMIN, "create", "namespaces", "", False),
        ("AdminViewPolicy", "list", "secrets", "", True),
        ("AdminViewPolicy", "list", "mpijobs", "kubeflow.org", True),
        ("AdminViewPolicy", "delete", "pods", "", False),
        ("ClusterAdminPolicy", "delete", "mpijobs", "kubeflow.org", True),
        ("ClusterAdminPolicy", "escalate", "clusterroles", "rbac.authorization.k8s.io", True),
        ("SecretReaderPolicy", "get", "secrets", "", True),
        ("SecretReaderPolicy", "list", "pods", "", False),
        ("NetworkingPolicy", "get", "leases", "coordination.k8s.io", False),
    ],
)
def test_access_policies_allow_requests_documented_by_aws(
    policy: str, verb: str, resource: str, group: str, allowed: bool
) -> None:
    allowing = policies.find_allowing_policy([make_association(policy)], make_access_review(verb, resource, group))
    assert allowing == (f"AmazonEKS{policy}" if allowed else None)


@pytest.mark.parametrize(
    ("scope", "namespace", "allowed"),
    [
        (("jobs",), "jobs", True),
        (("jobs",), "other", False),
        (("jobs",), "", False),
        (("team-*",), "team-a", True),
        (("team-*",), "a-team", False),
    ],
)
def test_namespace_scoped_policy_applies_only_to_its_namespaces(scope: tuple[str, ...], namespace: str, allowed: bool) -> None:
    assert (
        bool(
            policies.find_allowing_policy(
                [make_association(VIEW, *scope)], make_access_review("list", "pods", namespace=namespace)
            )
        )
        == allowed
    )


def test_permissions_of_several_policies_are_combined() -> None:
    both = [make_association(VIEW), make_association(EDIT, "mine")]
    assert policies.find_allowing_policy(both, make_access_review("create", "pods", namespace="mine"))
    assert not policies.find_allowing_policy(both, make_access_review("create", "pods", namespace="theirs"))


@pytest.mark.parametrize(("policy", "allowed"), [("ClusterAdminPolicy", True), ("AdminViewPolicy", False), (ADMIN, False)])
def test_only_cluster_admin_policy_allows_nonresource_urls(policy: str, allowed: bool) -> None:
    asked = {"user": "x", "nonResourceAttributes": {"path": "/metrics", "verb": "get"}}
    assert bool(policies.find_allowing_policy([make_association(policy)], asked)) == allowed


ROLE = f"arn:aws:sts::{ACCOUNT}:assumed-role/ops/ada@example.org"


@pytest.mark.parametrize(
    ("arn", "template", "name"),
    [
        (ROLE, f"arn:aws:sts::{ACCOUNT}:assumed-role/ops/{{{{SessionName}}}}", f"{ROLE.replace('@', '-')}"),
        (ROLE, "ops:{{SessionNameRaw}}", "ops:ada@example.org"),
        (ROLE, "{{AccountID}}:ops", f"{ACCOUNT}:ops"),
        (f"arn:aws:iam::{ACCOUNT}:user/team/ada", "ada", "ada"),
        (
            f"arn:aws:sts::{ACCOUNT}:assumed-role/node/i-1",
            "system:node:{{EC2PrivateDNSName}}",
            "system:node:ip-10-0-0-1.internal",
        ),
        (ROLE, "system:node:{{EC2PrivateDNSName}}", None),
    ],
)
def test_username_template_is_filled_from_session(arn: str, template: str, name: str | None) -> None:
    who = entries.parse_identity(arn, "AIDA", "AKIA")
    assert who is not None
    assert entries.render_username(template, who, {"i-1": "ip-10-0-0-1.internal"}.get) == name


def test_session_matches_its_role_with_any_role_path() -> None:
    assert entries.parse_principal(ROLE) == entries.parse_principal(f"arn:aws:iam::{ACCOUNT}:role/teams/mpi/ops")
    assert entries.parse_principal(ROLE) != entries.parse_principal(f"arn:aws:iam::{ACCOUNT}:user/ops")
    assert entries.parse_principal(f"arn:aws:iam::{ACCOUNT}:root") is None
