"""NVIDIA's device plugin: GPUs as a resource that pods ask for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi

from infra.facts.manifests import Manifests
from infra.naming import COMPONENT, GPU_LABEL
from infra.platform import objects
from infra.platform.site import Site
from infra.versions import NVIDIA_MANIFEST


@dataclass(frozen=True)
class NvidiaDevicePluginArgs:
    site: Site
    manifests: Manifests
    selectors: Sequence[Mapping[str, str]]
    """Labels of the nodes with GPUs, pool by pool."""


class NvidiaDevicePlugin(pulumi.ComponentResource):
    """Creates:
    - NVIDIA's DaemonSet, on nodes with GPUs whatever their taints are, with requests and without a token
    """

    def __init__(self, name: str, args: NvidiaDevicePluginArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(f"{COMPONENT}:NvidiaDevicePlugin", name, None, opts)
        (daemon_set,) = objects.of_kind(args.manifests.of(NVIDIA_MANIFEST), "DaemonSet")
        self._adapt(daemon_set["spec"]["template"]["spec"], args.site, args.selectors)
        objects.register(name, daemon_set, args.site.options(self))
        self.register_outputs({})

    def _adapt(self, pod: objects.Object, site: Site, selectors: Sequence[Mapping[str, str]]) -> None:
        # Upstream tolerates one taint by its key. Where a node has another one, no plugin and no GPU would come, without an
        # error: https://github.com/NVIDIA/k8s-device-plugin/issues/1934
        pod["tolerations"] = [{"operator": "Exists"}]
        pod |= _placed(selectors)
        pod["automountServiceAccountToken"] = False
        pod["securityContext"] = {"seccompProfile": {"type": "RuntimeDefault"}}
        (container,) = pod["containers"]
        container["image"] = site.image(container["image"])
        container["resources"] = {"requests": {"cpu": site.cpu(10), "memory": "64Mi"}, "limits": {"memory": "256Mi"}}
        container["securityContext"] |= {"readOnlyRootFilesystem": True}


def _placed(selectors: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    """On nodes that say themselves that they have GPUs; where nothing labels nodes so, on those of the pools."""
    if all(GPU_LABEL in selector for selector in selectors):
        return {"nodeSelector": {GPU_LABEL: "true"}}
    terms = [
        {"matchExpressions": [{"key": key, "operator": "In", "values": [value]} for key, value in sorted(selector.items())]}
        for selector in selectors
    ]
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}}
