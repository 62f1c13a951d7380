"""NVIDIA's device plugin: exposes GPUs as a resource that pods can request."""

from collections.abc import Mapping, Sequence
from typing import Any

import pulumi

from infra.health.xids import APPLICATION
from infra.naming import COMPONENT, GPU_LABEL
from infra.platform import objects
from infra.platform.site import Site
from infra.versions import NVIDIA_MANIFEST


class NvidiaDevicePlugin(pulumi.ComponentResource):
    """Creates:
    - NVIDIA's DaemonSet on all GPU nodes, regardless of taints, with resource requests and without a service account
      token. As in upstream's manifest, the container is unprivileged, but runs as root and has a writable root file
      system, which the NVIDIA runtime prepares.

    No resource waits for the DaemonSet: on a node without a working driver, its pod restarts until the driver works.
    Such a node must not block an `up`. `status` and the checks before an `up` report nodes that offer no GPUs.
    """

    def __init__(self, name: str, site: Site, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(f"{COMPONENT}:NvidiaDevicePlugin", name, None, opts)
        (daemon_set,) = objects.select_by_kind(site.manifests.get_objects(NVIDIA_MANIFEST), "DaemonSet")
        daemon_set["metadata"]["annotations"] = {"pulumi.com/skipAwait": "true"}
        self._adapt_pod(daemon_set["spec"]["template"]["spec"], site)
        objects.register_object(name, daemon_set, site.options(self))
        self.register_outputs({})

    def _adapt_pod(self, pod: objects.Object, site: Site) -> None:
        # Upstream tolerates a single taint key. On nodes with another taint, there would be no plugin and no GPUs, but
        # also no error: https://github.com/NVIDIA/k8s-device-plugin/issues/1934
        pod["tolerations"] = [{"operator": "Exists"}]
        pod |= build_node_affinity(site.gpu_selectors)
        pod["automountServiceAccountToken"] = False
        pod["securityContext"] = {"seccompProfile": {"type": "RuntimeDefault"}}
        (container,) = pod["containers"]
        container["image"] = site.image(container["image"])
        # Upstream withdraws a GPU after a contained memory error (Xid 94), which affects only the program that hit it.
        # https://github.com/NVIDIA/k8s-device-plugin/blob/v0.19.3/internal/rm/health.go
        ignored = ",".join(str(number) for number in sorted(APPLICATION))
        # With MOFED, the plugin gives every container with GPUs all of the node's InfiniBand devices, which breaks EFA. This
        # was the default from v0.19.0 to v0.19.2: https://github.com/NVIDIA/k8s-device-plugin/issues/1692
        own = {"DP_DISABLE_HEALTHCHECKS": ignored, "MOFED_ENABLED": "false"}
        container["env"] = [*container.get("env", []), *({"name": name, "value": value} for name, value in own.items())]
        container["resources"] = {"requests": {"cpu": site.cpu(10), "memory": "64Mi"}, "limits": {"memory": "256Mi"}}


def build_node_affinity(selectors: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    """Select nodes by the GPU label or, if the pools' nodes do not have it, by the labels of the pools."""
    if all(GPU_LABEL in selector for selector in selectors):
        return {"nodeSelector": {GPU_LABEL: "true"}}
    terms = [
        {"matchExpressions": [{"key": key, "operator": "In", "values": [value]} for key, value in sorted(selector.items())]}
        for selector in selectors
    ]
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}}
