"""The kubelet configuration of a node. The configuration matches nodeadm's as far as this machine allows.

https://kubernetes.io/docs/reference/config-api/kubelet-config.v1beta1/
https://github.com/awslabs/amazon-eks-ami/blob/main/nodeadm/internal/kubelet/config.go
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from localcloud.kubernetes.nodes import containerd, labels, logind, user_data
from localcloud.kubernetes.nodes.machine import Machine

ROOT = "/var/lib/kubelet"
CLUSTER_DOMAIN = "cluster.local"
POD_MEMORY_MIB, BASE_MEMORY_MIB, EVICTION_MEMORY_MIB = 11, 255, 100


@dataclass(frozen=True)
class Certificates:
    """Certificate files that the kubelet uses to authenticate itself and to verify its clients."""

    authority: Path
    certificate: Path
    key: Path


def config(
    machine: Machine, *, certificates: Certificates, dns: str, cgroup: str, cpus: int, name_servers: Path
) -> dict[str, Any]:
    """Return the KubeletConfiguration. Values from user data take precedence."""
    own: dict[str, Any] = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": machine.address,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(certificates.authority)},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(certificates.certificate),
        "tlsPrivateKeyFile": str(certificates.key),
        "providerID": machine.provider_id,
        "clusterDNS": [dns],
        "clusterDomain": CLUSTER_DOMAIN,
        "resolvConf": str(name_servers),
        "containerRuntimeEndpoint": f"unix://{containerd.SOCKET}",
        "maxPods": machine.maximum_pods,
        "kubeReserved": compute_reservations(cpus, machine.maximum_pods),
        "systemReserved": {"memory": f"{EVICTION_MEMORY_MIB}Mi"},  # the same amount as EKS's eviction threshold
        "serializeImagePulls": False,
        # Half of the default, so that the node reports a device plugin's resources sooner.
        "nodeStatusUpdateFrequency": "5s",
        # The values that nodeadm sets since Kubernetes 1.34: https://github.com/awslabs/amazon-eks-ami/pull/2390
        "shutdownGracePeriod": f"{logind.DELAY_SECONDS}s",
        "shutdownGracePeriodCriticalPods": f"{logind.CRITICAL_SECONDS}s",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": cgroup,
        "failCgroupV1": False,
        "failSwapOn": False,
        "enforceNodeAllocatable": ["pods"],
        # Lowering the OOM score requires CAP_SYS_RESOURCE, which root may lack in a virtual machine.
        "oomScoreAdj": 0,
        # Do not evict pods under disk pressure: the host's disk is shared.
        "imageGCHighThresholdPercent": 100,
        "evictionHard": {
            # The kubelet measures the whole machine, which may have more memory than the node reports.
            "memory.available": "0%",
            "nodefs.available": "1%",
            "imagefs.available": "1%",
            "nodefs.inodesFree": "0%",
            "imagefs.inodesFree": "0%",
        },
    }
    return user_data.merge_objects(own, machine.user_data.kubelet_config)


def build_flags(machine: Machine, *, config_file: Path, kubeconfig: Path) -> list[str]:
    """Return the kubelet's flags. Flags from user data come last, so they take precedence."""
    at_registration = ",".join(f"{key}={value}" for key, value in sorted(labels.build_registration_labels(machine).items()))
    taints = [f"--register-with-taints={','.join(machine.user_data.taints)}"] if machine.user_data.taints else []
    return [
        f"--config={config_file}",
        f"--kubeconfig={kubeconfig}",
        f"--root-dir={ROOT}",
        f"--hostname-override={machine.name}",
        f"--node-ip={machine.address}",
        f"--node-labels={at_registration}",
        *taints,
        "--v=2",
        *machine.user_data.other_flags,
    ]


def compute_reservations(cpus: int, pods: int) -> dict[str, str]:
    """Return the CPU, memory and disk that EKS AMIs reserve for the kubelet and the container runtime.

    >>> compute_reservations(2, 29)
    {'cpu': '70m', 'memory': '574Mi', 'ephemeral-storage': '1Gi'}
    >>> compute_reservations(192, 100)["cpu"]
    '550m'
    """
    of_core = [60, 10, 5, 5]
    millicores = sum(of_core[:cpus]) + 2.5 * max(0, cpus - len(of_core))
    memory = BASE_MEMORY_MIB + POD_MEMORY_MIB * pods
    return {"cpu": f"{int(millicores)}m", "memory": f"{memory}Mi", "ephemeral-storage": "1Gi"}
