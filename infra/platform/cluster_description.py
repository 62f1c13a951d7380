"""Cluster description, stored in the cluster: everything that users with only a kubeconfig need to submit jobs."""

from typing import Final

import pulumi
import pulumi_kubernetes as kubernetes

from infra.jobs.cluster import CONFIG_MAP, CONFIG_MAP_KEY, CONFIG_MAP_NAMESPACE
from infra.naming import COMPONENT
from infra.platform.network_policies import create_ingress_policy
from infra.platform.site import Site

READER: Final = f"{CONFIG_MAP}-reader"
EVERY_USER: Final = "system:authenticated"


class DescribedCluster(pulumi.ComponentResource):
    """Creates:
    - a ConfigMap with pools, namespaces, queue and volumes, in its own namespace
    - read permission on the ConfigMap for every user of the cluster; it contains no secrets
    """

    def __init__(self, name: str, site: Site, bucket: pulumi.Input[str], opts: pulumi.ResourceOptions | None = None) -> None:
        """`bucket` is the stack's bucket, whose name is known only after its creation."""
        super().__init__(f"{COMPONENT}:DescribedCluster", name, None, opts)
        namespace = kubernetes.core.v1.Namespace(
            f"{name}-namespace",
            metadata={"name": CONFIG_MAP_NAMESPACE, "labels": site.build_pod_security_labels("restricted")},
            opts=site.options(self),
        )
        self.namespace = namespace
        inside = site.options(self, inside=namespace)
        create_ingress_policy(f"{name}-ingress", CONFIG_MAP_NAMESPACE, inside)

        def render_description(bucket: str) -> str:
            return site.description.model_copy(update={"bucket": bucket}).to_json()

        kubernetes.core.v1.ConfigMap(
            f"{name}-description",
            metadata={"name": CONFIG_MAP, "namespace": CONFIG_MAP_NAMESPACE},
            data={CONFIG_MAP_KEY: pulumi.Output.from_input(bucket).apply(render_description)},
            opts=inside,
        )
        role = kubernetes.rbac.v1.Role(
            f"{name}-reader",
            metadata={"name": READER, "namespace": CONFIG_MAP_NAMESPACE},
            rules=[{"api_groups": [""], "resources": ["configmaps"], "resource_names": [CONFIG_MAP], "verbs": ["get"]}],
            opts=inside,
        )
        kubernetes.rbac.v1.RoleBinding(
            f"{name}-readers",
            metadata={"name": READER, "namespace": CONFIG_MAP_NAMESPACE},
            role_ref={"api_group": "rbac.authorization.k8s.io", "kind": "Role", "name": READER},
            subjects=[{"kind": "Group", "name": EVERY_USER, "api_group": "rbac.authorization.k8s.io"}],
            opts=site.options(self, role, inside=namespace),
        )
        self.register_outputs({})
