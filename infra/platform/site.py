"""What every part of the platform must know of the cluster that it goes into."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import pulumi

from infra.naming import POOL_LABEL, SYSTEM_POOL, Naming


@dataclass(frozen=True)
class Site:
    """A cluster, and how names and requests come out in it."""

    naming: Naming
    provider: pulumi.ProviderResource
    kubernetes_version: str
    image_registry: str | None = None
    cpu_request_factor: float = 1.0
    system_nodes: Mapping[str, str] = field(default_factory=lambda: {POOL_LABEL: SYSTEM_POOL})
    """Selects the nodes for the cluster's own pods; empty: any node."""

    def image(self, name: str) -> str:
        """Where an image is pulled from; `name` is whole, with its registry."""
        return f"{self.image_registry}/{name}" if self.image_registry else name

    def cpu(self, millis: int) -> str:
        """A CPU request as the nodes of this cluster can take it."""
        return f"{max(1, round(millis * self.cpu_request_factor))}m"

    def pod_security(self, level: str) -> dict[str, str]:
        """Labels by which a namespace refuses pods: https://kubernetes.io/docs/concepts/security/pod-security-standards/"""
        prefix, version = "pod-security.kubernetes.io", f"v{self.kubernetes_version}"
        return {
            f"{prefix}/{mode}{suffix}": value
            for mode in ("enforce", "warn")
            for suffix, value in (("", level), ("-version", version))
        }

    def options(
        self, parent: pulumi.Resource, *after: pulumi.Resource, inside: pulumi.Resource | None = None
    ) -> pulumi.ResourceOptions:
        """How a part's objects are made: in this cluster, below their component.

        `inside`: their namespace. They go with it: a claim would wait for the pods that use it, which only the namespace ends.
        What keeps pods running is made after its namespace, not inside: with it the pods would go last, after their rights,
        and Kubernetes looks for pods that are left only every five seconds.
        """
        needs = [*after, *([inside] if inside else [])]
        return pulumi.ResourceOptions(parent=parent, provider=self.provider, depends_on=needs, deleted_with=inside)
