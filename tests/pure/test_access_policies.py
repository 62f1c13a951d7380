"""EKS access policies, and the Kubernetes user and groups of an IAM principal."""

from typing import Any

import pytest

from localcloud.aws.eks import access_policies
from localcloud.kubernetes.access import entries, policies

CLUSTER = {"type": "cluster", "namespaces": []}
ACCOUNT = "123456789012"


def association(policy: str, *namespaces: str) -> dict[str, Any]:
    scope = {"type": "namespace", "namespaces": list(namespaces)} if namespaces else CLUSTER
    return {"policyArn": f"{access_policies.PREFIX}AmazonEKS{policy}", "accessScope": scope}


def ask(verb: str, resource: str, group: str = "", namespace: str = "jobs") -> dict[str, Any]:
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
def test_policies_allow_the_requests_that_aws_documents(policy: str, verb: str, resource: str, group: str, allowed: bool) -> None:
    allowing = policies.allowing([association(policy)], ask(verb, resource, group))
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
def test_a_policy_for_namespaces_ends_at_them(scope: tuple[str, ...], namespace: str, allowed: bool) -> None:
    assert bool(policies.allowing([association(VIEW, *scope)], ask("list", "pods", namespace=namespace))) == allowed


def test_several_policies_add_up() -> None:
    both = [association(VIEW), association(EDIT, "mine")]
    assert policies.allowing(both, ask("create", "pods", namespace="mine"))
    assert not policies.allowing(both, ask("create", "pods", namespace="theirs"))


@pytest.mark.parametrize(("policy", "allowed"), [("ClusterAdminPolicy", True), ("AdminViewPolicy", False), (ADMIN, False)])
def test_only_the_cluster_admin_policy_allows_urls_that_are_no_resources(policy: str, allowed: bool) -> None:
    asked = {"user": "x", "nonResourceAttributes": {"path": "/metrics", "verb": "get"}}
    assert bool(policies.allowing([association(policy)], asked)) == allowed


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
def test_a_user_name_is_made_of_the_session(arn: str, template: str, name: str | None) -> None:
    who = entries.identity(arn, "AIDA", "AKIA")
    assert who is not None
    assert entries.username(template, who, {"i-1": "ip-10-0-0-1.internal"}.get) == name


def test_a_session_belongs_to_its_role_whatever_the_roles_path_is() -> None:
    assert entries.principal(ROLE) == entries.principal(f"arn:aws:iam::{ACCOUNT}:role/teams/mpi/ops")
    assert entries.principal(ROLE) != entries.principal(f"arn:aws:iam::{ACCOUNT}:user/ops")
    assert entries.principal(f"arn:aws:iam::{ACCOUNT}:root") is None
