"""Description of the target cluster for all parts of the platform."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import pulumi

from infra.naming import POOL_LABEL, SYSTEM_POOL, Naming


@dataclass(frozen=True)
class Site:
    """The target cluster: provider, registry, CPU factor and system nodes."""

    naming: Naming
    provider: pulumi.ProviderResource
    kubernetes_version: str
    image_registry: str | None = None
    cpu_request_factor: float = 1.0
    system_nodes: Mapping[str, str] = field(default_factory=lambda: {POOL_LABEL: SYSTEM_POOL})
    """Selector of nodes for system pods; an empty selector selects all nodes."""

    def image(self, name: str) -> str:
        """Return the image reference to pull. `name` includes the registry."""
        return f"{self.image_registry}/{name}" if self.image_registry else name

    def cpu(self, millis: int) -> str:
        """Return a CPU request, scaled for the nodes of this cluster."""
        return f"{max(1, round(millis * self.cpu_request_factor))}m"

    def pod_security(self, level: str, *, warn: str | None = None) -> dict[str, str]:
        """Return labels for Pod Security admission in a namespace, with warnings about pods that violate `warn`:
        https://kubernetes.io/docs/concepts/security/pod-security-standards/"""
        prefix, version = "pod-security.kubernetes.io", f"v{self.kubernetes_version}"
        return {
            f"{prefix}/{mode}{suffix}": value
            for mode, enforced in (("enforce", level), ("warn", warn or level))
            for suffix, value in (("", enforced), ("-version", version))
        }

    def options(
        self, parent: pulumi.Resource, *after: pulumi.Resource, inside: pulumi.Resource | None = None
    ) -> pulumi.ResourceOptions:
        """Return resource options for objects of a component in this cluster.

        `inside` is the objects' namespace. Deleting it also deletes the objects. Deleting a claim alone would wait for
        the pods that use it, and only deleting the namespace ends those pods. Create workload controllers after their
        namespace, not inside it. Otherwise their pods are deleted last, after their permissions, and Kubernetes checks
        for remaining pods only every five seconds."""
        needs = [*after, *([inside] if inside else [])]
        return pulumi.ResourceOptions(parent=parent, provider=self.provider, depends_on=needs, deleted_with=inside)
