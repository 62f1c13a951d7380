"""AWS's EFA device plugin: exposes EFA interfaces as a resource that pods can request."""

from dataclasses import dataclass
from typing import Any, Final

import pulumi
import pulumi_kubernetes as kubernetes

from infra.naming import COMPONENT, EFA_LABEL, KUBE_SYSTEM
from infra.platform.pods import AGENT_CONTAINER, DEVICE_PLUGINS, EVERY_TAINT
from infra.platform.site import Site
from infra.versions import EFA_DEVICE_PLUGIN

NAME: Final = "aws-efa-k8s-device-plugin"
INFINIBAND: Final = "/dev/infiniband"


@dataclass(frozen=True)
class EfaDevicePluginArgs:
    site: Site
    registry: str
    """EKS's own registry in the Region."""


class EfaDevicePlugin(pulumi.ComponentResource):
    """Creates:
    - the DaemonSet of AWS's chart aws-efa-k8s-device-plugin on all nodes with EFA, regardless of taints. The chart
      selects nodes by a list of instance types, which lacks future types. This component selects them by the label that
      every node with EFA has.
    """

    def __init__(self, name: str, args: EfaDevicePluginArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(f"{COMPONENT}:EfaDevicePlugin", name, None, opts)
        labels = {"name": NAME}
        kubernetes.apps.v1.DaemonSet(
            f"{name}-daemonset",
            metadata={"name": f"{NAME}-daemonset", "namespace": KUBE_SYSTEM, "labels": labels},
            spec={
                "selector": {"match_labels": labels},
                "update_strategy": {"type": "RollingUpdate"},
                "template": {"metadata": {"labels": labels}, "spec": self._pod(args)},
            },
            opts=args.site.options(self),
        )
        self.register_outputs({})

    def _pod(self, args: EfaDevicePluginArgs) -> Any:
        site = args.site
        return {
            "automount_service_account_token": False,
            "priority_class_name": "system-node-critical",
            "node_selector": {EFA_LABEL: "true"},
            "tolerations": EVERY_TAINT,
            "host_network": True,  # it reads the node's network interfaces
            "security_context": {"seccomp_profile": {"type": "RuntimeDefault"}},
            "containers": [
                {
                    "name": NAME,
                    "image": site.image(f"{args.registry}/eks/{NAME}:{EFA_DEVICE_PLUGIN}"),
                    "security_context": AGENT_CONTAINER,
                    "resources": {"requests": {"cpu": site.cpu(10), "memory": "32Mi"}, "limits": {"memory": "128Mi"}},
                    "volume_mounts": [
                        {"name": "device-plugins", "mount_path": DEVICE_PLUGINS},
                        {"name": "infiniband", "mount_path": INFINIBAND},
                    ],
                }
            ],
            "volumes": [
                {"name": "device-plugins", "host_path": {"path": DEVICE_PLUGINS}},
                {"name": "infiniband", "host_path": {"path": INFINIBAND}},
            ],
        }
