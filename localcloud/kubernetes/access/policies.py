"""Permissions of the EKS access policies: https://docs.aws.amazon.com/eks/latest/userguide/access-policy-permissions.html

The policies cover only built-in Kubernetes resources. For example, AmazonEKSEditPolicy does not allow creating an
MPIJob.
"""

import fnmatch
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

READ = frozenset({"get", "list", "watch"})
WRITE = frozenset({"create", "delete", "deletecollection", "patch", "update"})
ANY = frozenset({"*"})


@dataclass(frozen=True)
class Rule:
    group: str
    resources: frozenset[str]
    verbs: frozenset[str]
    non_resource_urls: bool = False

    def allows(self, verb: str, group: str, resource: str) -> bool:
        """True if the rule allows the verb on the resource, such as `pods` or, with a subresource, `pods/log`."""
        return self.group in ("*", group) and bool(self.resources & {"*", resource}) and bool(self.verbs & {"*", verb})


def _build_rule(group: str, resources: str, verbs: frozenset[str]) -> Rule:
    return Rule(group, frozenset(resources.split()), verbs)


_WORKLOADS = "daemonsets deployments deployments/scale replicasets replicasets/scale"
_VIEW = (
    _build_rule(
        "apps",
        f"controllerrevisions {_WORKLOADS} statefulsets statefulsets/scale "
        "daemonsets/status deployments/status replicasets/status statefulsets/status",
        READ,
    ),
    _build_rule("autoscaling", "horizontalpodautoscalers horizontalpodautoscalers/status", READ),
    _build_rule("batch", "cronjobs cronjobs/status jobs jobs/status", READ),
    _build_rule("discovery.k8s.io", "endpointslices", READ),
    _build_rule(
        "extensions",
        f"{_WORKLOADS} replicationcontrollers/scale ingresses networkpolicies "
        "daemonsets/status deployments/status ingresses/status replicasets/status",
        READ,
    ),
    _build_rule("networking.k8s.io", "ingresses ingresses/status networkpolicies", READ),
    _build_rule("policy", "poddisruptionbudgets poddisruptionbudgets/status", READ),
    _build_rule(
        "",
        "configmaps endpoints persistentvolumeclaims persistentvolumeclaims/status pods replicationcontrollers "
        "replicationcontrollers/scale serviceaccounts services services/status",
        READ,
    ),
    _build_rule(
        "",
        "bindings events limitranges namespaces namespaces/status pods/log pods/status replicationcontrollers/status "
        "resourcequotas resourcequotas/status",
        READ,
    ),
)
_EDIT = (
    *_VIEW,
    _build_rule("apps", f"{_WORKLOADS} deployments/rollback statefulsets statefulsets/scale", WRITE),
    _build_rule("autoscaling", "horizontalpodautoscalers", WRITE),
    _build_rule("batch", "cronjobs jobs", WRITE),
    _build_rule("extensions", f"{_WORKLOADS} deployments/rollback ingresses networkpolicies replicationcontrollers/scale", WRITE),
    _build_rule("networking.k8s.io", "ingresses networkpolicies", WRITE),
    _build_rule("policy", "poddisruptionbudgets", WRITE),
    _build_rule("", "pods/attach pods/exec pods/portforward pods/proxy secrets services/proxy", READ),
    _build_rule("", "pods pods/attach pods/exec pods/portforward pods/proxy", WRITE),
    _build_rule(
        "",
        "configmaps events persistentvolumeclaims replicationcontrollers replicationcontrollers/scale secrets serviceaccounts "
        "services services/proxy",
        WRITE,
    ),
    _build_rule("", "serviceaccounts", frozenset({"impersonate"})),
)
_ADMIN = (
    *_EDIT,
    _build_rule("authorization.k8s.io", "localsubjectaccessreviews", frozenset({"create"})),
    _build_rule("rbac.authorization.k8s.io", "rolebindings roles", READ | WRITE),
)

RULES: Mapping[str, tuple[Rule, ...]] = {
    "AmazonEKSClusterAdminPolicy": (Rule("*", ANY, ANY, non_resource_urls=True),),
    "AmazonEKSAdminPolicy": _ADMIN,
    "AmazonEKSEditPolicy": _EDIT,
    "AmazonEKSViewPolicy": _VIEW,
    "AmazonEKSAdminViewPolicy": (Rule("*", ANY, READ),),
    "AmazonEKSSecretReaderPolicy": (_build_rule("", "secrets", READ),),
}
"""Rules of each access policy, keyed by policy name. Policies for EKS's own services are left out, because those
services do not run here."""


def find_allowing_policy(associations: Iterable[Mapping[str, Any]], review: Mapping[str, Any]) -> str | None:
    """Return the name of the first associated policy that allows the request in a SubjectAccessReview, or None."""
    for association in associations:
        name = association["policyArn"].rsplit("/", 1)[-1]
        if _covers(association["accessScope"], review) and any(_allows(rule, review) for rule in RULES.get(name, ())):
            return str(name)
    return None


def _covers(scope: Mapping[str, Any], review: Mapping[str, Any]) -> bool:
    """True if the access scope covers the request. The scope's namespaces may contain wildcards.

    https://docs.aws.amazon.com/eks/latest/userguide/access-policies.html
    """
    if scope["type"] == "cluster":
        return True
    namespace = review.get("resourceAttributes", {}).get("namespace", "")
    return bool(namespace) and any(fnmatch.fnmatchcase(namespace, pattern) for pattern in scope["namespaces"])


def _allows(rule: Rule, review: Mapping[str, Any]) -> bool:
    if "nonResourceAttributes" in review:
        return rule.non_resource_urls
    requested = review.get("resourceAttributes", {})
    resource = "/".join(part for part in (requested.get("resource", ""), requested.get("subresource", "")) if part)
    return rule.allows(requested.get("verb", ""), requested.get("group", ""), resource)
