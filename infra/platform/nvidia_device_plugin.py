"""NVIDIA's device plugin: GPUs as a resource that pods ask for."""

from dataclasses import dataclass

import pulumi

from infra.naming import COMPONENT, GPU_LABEL
from infra.platform import objects
from infra.platform.manifests import Manifests
from infra.platform.site import Site
from infra.versions import NVIDIA_MANIFEST


@dataclass(frozen=True)
class NvidiaDevicePluginArgs:
    site: Site
    manifests: Manifests


class NvidiaDevicePlugin(pulumi.ComponentResource):
    """Creates:
    - NVIDIA's DaemonSet, on nodes with GPUs whatever their taints are, with requests and without a token
    """

    def __init__(self, name: str, args: NvidiaDevicePluginArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(f"{COMPONENT}:NvidiaDevicePlugin", name, None, opts)
        (daemon_set,) = objects.of_kind(args.manifests.of(NVIDIA_MANIFEST), "DaemonSet")
        self._adapt(daemon_set["spec"]["template"]["spec"], args.site)
        objects.register(name, daemon_set, args.site.options(self))
        self.register_outputs({})

    def _adapt(self, pod: objects.Object, site: Site) -> None:
        # Upstream tolerates one taint by its key. Where a node has another one, no plugin and no GPU would come, without an
        # error: https://github.com/NVIDIA/k8s-device-plugin/issues/1934
        pod["tolerations"] = [{"operator": "Exists"}]
        pod["nodeSelector"] = {GPU_LABEL: "true"}
        pod["automountServiceAccountToken"] = False
        pod["securityContext"] = {"seccompProfile": {"type": "RuntimeDefault"}}
        (container,) = pod["containers"]
        container["image"] = site.image(container["image"])
        container["resources"] = {"requests": {"cpu": site.cpu(10), "memory": "64Mi"}, "limits": {"memory": "256Mi"}}
        container["securityContext"] |= {"readOnlyRootFilesystem": True}
