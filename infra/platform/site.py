"""The target cluster, as all parts of the platform use it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pulumi

from infra.facts.manifests import Manifests
from infra.jobs.cluster import ClusterDescription
from infra.naming import POOL_LABEL, SYSTEM_POOL, Naming
from infra.settings.platform import CommonPlatformSettings, PlatformSettings


@dataclass(frozen=True)
class Site:
    """The target cluster, and the settings of its platform."""

    naming: Naming
    kubernetes_version: str
    settings: CommonPlatformSettings
    manifests: Manifests
    description: ClusterDescription
    node_groups: Sequence[pulumi.Resource] = ()
    """Node groups for operators, if the stack creates them. Operators are deleted before their nodes."""
    system_nodes: Mapping[str, str] = field(default_factory=lambda: {POOL_LABEL: SYSTEM_POOL})
    """Node selector for system pods; an empty selector selects all nodes."""
    provider: pulumi.ProviderResource | None = None

    @property
    def eks(self) -> PlatformSettings | None:
        """Settings that only EKS clusters have; None for existing clusters."""
        return self.settings if isinstance(self.settings, PlatformSettings) else None

    @property
    def gpu_selectors(self) -> list[Mapping[str, str]]:
        """Labels of the GPU nodes, per pool."""
        return [pool.labels for pool in self.description.pools if pool.gpus]

    def image(self, name: str) -> str:
        """Return the image reference to pull. `name` contains the upstream registry; the mirror registry, if the cluster
        has one, is put in front of it."""
        registry = self.description.image_registry
        return f"{registry}/{name}" if registry else name

    def cpu(self, millis: int) -> str:
        """Return a CPU request, scaled for the nodes of this cluster."""
        return f"{max(1, round(millis * self.description.cpu_request_factor))}m"

    def build_pod_security_labels(self, level: str, *, warn: str | None = None) -> dict[str, str]:
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
