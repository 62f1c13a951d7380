"""kube-proxy configuration of a node: https://kubernetes.io/docs/reference/config-api/kube-proxy-config.v1alpha1/"""

from ipaddress import IPv4Network
from pathlib import Path
from typing import Any


def build_config(name: str, kubeconfig: Path, pods: IPv4Network) -> dict[str, Any]:
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "iptables",
        "clientConnection": {"kubeconfig": str(kubeconfig)},
        "clusterCIDR": str(pods),
        "hostnameOverride": name,
        # 0 keeps the kernel's limits, which can be changed only in the root network namespace.
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
        "healthzBindAddress": "127.0.0.1:10256",
        "metricsBindAddress": "127.0.0.1:10249",
    }
