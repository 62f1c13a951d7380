"""Permissions of job users: Roles in each job namespace, and the reads that the verbs need outside of it.

docs/adr/0050-own-roles-for-job-users.md explains why AWS's AmazonEKSEditPolicy is not enough.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pulumi

from infra.naming import COMPONENT, QUEUE_GROUP
from infra.plan.specs import JobUsersSpec, Subject
from infra.platform.rbac import RBAC_GROUP, READ, build_rule, grant
from infra.platform.site import Site
from infra.settings.users import JobAccess

NODE_READER: Final = "gpumpi-node-reader"

JOB_KINDS: Final = {
    "batch": ["jobs"],
    "kubeflow.org": ["mpijobs", "pytorchjobs"],
    "jobset.x-k8s.io": ["jobsets"],
    "trainer.kubeflow.org": ["trainjobs"],
    "ray.io": ["rayjobs"],
}
"""Maps an API group to the kinds of jobs that the verbs list and cancel. A rule may name kinds that are not installed."""

NODE_RULES: Final = [build_rule("", ["nodes"], READ)]
"""Reads in the whole cluster: `status`, `health`, `dashboard` and `smoke` list nodes, whose objects contain no secrets."""

VIEW_RULES: Final = [
    build_rule("", ["configmaps", "events", "persistentvolumeclaims", "pods"], READ),
    build_rule("", ["pods/log"], ["get"]),
    # In a Role, this applies only to the Role's own namespace. `jobs` tells an empty namespace from a missing one.
    build_rule("", ["namespaces"], ["get"]),
    build_rule("apps", ["statefulsets"], READ),
    *(build_rule(group, kinds, READ) for group, kinds in JOB_KINDS.items()),
    build_rule(QUEUE_GROUP, ["workloads"], READ),
]
SUBMIT_RULES: Final = [
    *VIEW_RULES,
    # No `update` and `patch`: no verb changes an object, and users could otherwise change records of other users' jobs.
    build_rule("", ["configmaps"], ["create", "delete"]),
    # Pods: `validate` creates them as a dry run. Secrets cannot be read: Kubernetes deletes them with their job.
    build_rule("", ["pods", "secrets", "services"], ["create"]),
    # WebSockets need `get` before Kubernetes 1.35 and `create` since then: https://kep.k8s.io/4006
    build_rule("", ["pods/exec", "pods/portforward"], ["create", "get"]),
    build_rule("apps", ["statefulsets"], ["create"]),
    *(build_rule(group, kinds, ["create", "delete"]) for group, kinds in JOB_KINDS.items()),
]
RULES: Final[Mapping[JobAccess, Sequence[Any]]] = {"view": VIEW_RULES, "submit": SUBMIT_RULES}


def name_role(access: JobAccess) -> str:
    """Return the name of the Role for this access in each job namespace."""
    return f"gpumpi-job-{access}"


class JobUsers(pulumi.ComponentResource):
    """Creates:
    - in each namespace that has users: a Role for each kind of access, and its binding to the users
    - a ClusterRole that reads nodes, and its binding to all users
    """

    def __init__(
        self,
        name: str,
        site: Site,
        users: JobUsersSpec,
        namespaces: Mapping[str, pulumi.Resource],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """`namespaces` contains the resource of each job namespace."""
        super().__init__(f"{COMPONENT}:JobUsers", name, None, opts)
        for (namespace, access), subjects in users.by_namespace.items():
            inside = site.options(self, inside=namespaces[namespace])
            bound, role = _build_subjects(subjects), name_role(access)
            grant(f"{name}-{namespace}-{access}", role, RULES[access], bound, inside, namespace=namespace)
        grant(f"{name}-nodes", NODE_READER, NODE_RULES, _build_subjects(users.everyone), site.options(self))
        self.register_outputs({})


def _build_subjects(subjects: Sequence[Subject]) -> list[dict[str, str]]:
    return [{"api_group": RBAC_GROUP, "kind": subject.kind, "name": subject.name} for subject in subjects]
