"""What a local Kubernetes runs, brought into the cache while somebody watches: building takes minutes."""

from localcloud.kubernetes.capability import Capability
from localcloud.tools import debian
from localcloud.tools.build import Report, ensure
from localcloud.tools.catalogue import COREDNS, KUBE_APISERVER, KWOK

OF_NODES = (debian.CONTAINERD, debian.RUNC, debian.CNI_PLUGINS, debian.IPTABLES, debian.CONNTRACK)


def prepare(capability: Capability, report: Report) -> None:
    """Build or fetch what the cache lacks. Raises BuildError."""
    for tool in (KUBE_APISERVER, COREDNS, KWOK):  # one program of a module brings all of them
        ensure(tool, report)
    for package in (debian.ETCD, *(OF_NODES if capability.real_nodes else ())):
        debian.ensure(package, report)
