"""Properties of the target cluster that all parts of the platform use."""

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
    """Node selector for system pods; an empty selector selects all nodes."""

    def image(self, name: str) -> str:
        """Return the image reference to pull. `name` contains the upstream registry; `image_registry`, if set, is put
        in front of it."""
        return f"{self.image_registry}/{name}" if self.image_registry else name

    def cpu(self, millis: int) -> str:
        """Return a CPU request, scaled for the nodes of this cluster."""
        return f"{max(1, round(millis * self.cpu_request_factor))}m"

    def pod_security(self, level: str, *, warn: str | None = None) -> dict[str, str]:
        """Return the Pod Security admission labels of a namespace. They enforce `level`, and warn about pods that
        violate `warn` (`level` by default):
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

        `inside` is the objects' namespace. Pulumi does not delete the objects one by one, because they are deleted with
        the namespace. Deleting a claim alone would wait for the pods that use it, and only deleting the namespace ends
        those pods. For workload controllers, pass the namespace as `after`, not as `inside`. Otherwise Kubernetes
        deletes their pods last, after their permissions, and checks for remaining pods only every five seconds."""
        needs = [*after, *([inside] if inside else [])]
        return pulumi.ResourceOptions(parent=parent, provider=self.provider, depends_on=needs, deleted_with=inside)
