"""AWS's EFA device plugin: exposes EFA interfaces as a resource that pods can request."""

from typing import Any, Final

import pulumi

from infra.facts.registries import find_eks_registry
from infra.naming import COMPONENT, EFA_LABEL, KUBE_SYSTEM
from infra.platform.pods import DEVICE_PLUGINS, EVERY_TAINT, create_daemon_set
from infra.platform.site import Site
from infra.versions import EFA_DEVICE_PLUGIN

NAME: Final = "aws-efa-k8s-device-plugin"
INFINIBAND: Final = "/dev/infiniband"
NEURON: Final = "/opt/aws/neuron"

# aws/eks-charts@5239609:stable/aws-efa-k8s-device-plugin (chart v0.5.30, app v0.5.20). The chart has run the plugin as
# privileged since app v0.5.9 (2025-09-03); AWS gives no reason.
PRIVILEGED: Final = {"privileged": True, "allow_privilege_escalation": True, "run_as_non_root": False, "run_as_user": 0}

_AUTO_MODE: Final = {"key": "eks.amazonaws.com/compute-type", "operator": "NotIn", "values": ["auto"]}
NOT_IN_AUTO_MODE: Final[Any] = {
    "node_affinity": {
        "required_during_scheduling_ignored_during_execution": {"node_selector_terms": [{"match_expressions": [_AUTO_MODE]}]}
    }
}


class EfaDevicePlugin(pulumi.ComponentResource):
    """Creates:
    - the DaemonSet of AWS's chart aws-efa-k8s-device-plugin on all nodes with EFA, regardless of taints. The chart
      selects nodes by a list of instance types, which lacks future types. This component selects nodes by the label
      that every node with EFA has. As with the chart, the plugin does not run on nodes of EKS Auto Mode, whose AMI
      contains a plugin.
    """

    def __init__(self, name: str, site: Site, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(f"{COMPONENT}:EfaDevicePlugin", name, None, opts)
        metadata = {"name": f"{NAME}-daemonset", "namespace": KUBE_SYSTEM, "labels": {"name": NAME}}
        rolling = {"type": "RollingUpdate"}
        create_daemon_set(f"{name}-daemonset", metadata, self._build_pod(site), site.options(self), update_strategy=rolling)
        self.register_outputs({})

    def _build_pod(self, site: Site) -> Any:
        folders = [
            ("device-plugins", DEVICE_PLUGINS, ""),
            ("infiniband", INFINIBAND, ""),
            # AWS's chart mounts the folder of the Neuron tools, which the kubelet creates on nodes without it.
            ("neuron-tools", NEURON, "DirectoryOrCreate"),
        ]
        return {
            "automount_service_account_token": False,
            "priority_class_name": "system-node-critical",
            "node_selector": {EFA_LABEL: "true"},
            "affinity": NOT_IN_AUTO_MODE,
            "tolerations": EVERY_TAINT,
            "host_network": True,  # the plugin reads the node's network interfaces
            "security_context": {"seccomp_profile": {"type": "RuntimeDefault"}},
            "containers": [
                {
                    "name": NAME,
                    "image": site.image(f"{find_eks_registry(site.description.region)}/eks/{NAME}:{EFA_DEVICE_PLUGIN}"),
                    "security_context": PRIVILEGED,
                    "resources": {"requests": {"cpu": site.cpu(10), "memory": "32Mi"}, "limits": {"memory": "128Mi"}},
                    "volume_mounts": [{"name": name, "mount_path": path} for name, path, _ in folders],
                }
            ],
            "volumes": [
                {"name": name, "host_path": {"path": path, **({"type": kind} if kind else {})}} for name, path, kind in folders
            ],
        }
