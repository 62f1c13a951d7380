"""Service accounts of the platform's pods, and permissions in the cluster."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import pulumi
import pulumi_kubernetes as kubernetes

READ: Final = ("get", "list", "watch")
RBAC_GROUP: Final = "rbac.authorization.k8s.io"


@dataclass(frozen=True)
class Account:
    """A service account, and the name of its roles."""

    name: str
    namespace: str
    role: str

    @property
    def user_name(self) -> str:
        """https://kubernetes.io/docs/reference/access-authn-authz/authentication/#service-account-tokens"""
        return f"system:serviceaccount:{self.namespace}:{self.name}"

    def create(self, resource: str, options: pulumi.ResourceOptions) -> pulumi.Resource:
        return kubernetes.core.v1.ServiceAccount(
            resource,
            metadata={"name": self.name, "namespace": self.namespace},
            automount_service_account_token=False,
            opts=options,
        )

    def grant(
        self, resource: str, rules: Any, options: pulumi.ResourceOptions, *, namespace: str = "", binding: str = ""
    ) -> list[pulumi.Resource]:
        """Grant permissions in a namespace, or in the whole cluster. `resource` and `binding` are names of Pulumi
        resources."""
        subject = {"kind": "ServiceAccount", "name": self.name, "namespace": self.namespace}
        return grant(resource, self.role, rules, [subject], options, namespace=namespace, binding=binding)


def grant(
    resource: str,
    role_name: str,
    rules: Any,
    subjects: Any,
    options: pulumi.ResourceOptions,
    *,
    namespace: str = "",
    binding: str = "",
) -> list[pulumi.Resource]:
    """Create a role and bind it to the subjects, in a namespace or in the whole cluster. `resource` and `binding` are names
    of Pulumi resources."""
    metadata: Any = {"name": role_name, **({"namespace": namespace} if namespace else {})}
    rbac = kubernetes.rbac.v1
    role = (rbac.Role if namespace else rbac.ClusterRole)(resource, metadata=metadata, rules=rules, opts=options)
    bound = (rbac.RoleBinding if namespace else rbac.ClusterRoleBinding)(
        binding or resource,
        metadata=metadata,
        role_ref={"api_group": RBAC_GROUP, "kind": "Role" if namespace else "ClusterRole", "name": role_name},
        subjects=subjects,
        opts=pulumi.ResourceOptions.merge(options, pulumi.ResourceOptions(depends_on=[role])),
    )
    return [role, bound]


def build_rule(group: str, resources: Sequence[str], verbs: Sequence[str], *names: str) -> Any:
    only = {"resource_names": list(names)} if names else {}
    return {"api_groups": [group], "resources": list(resources), "verbs": list(verbs), **only}
