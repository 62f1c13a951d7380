"""Prepares the programs that local Kubernetes needs. Building them takes minutes, so progress is reported."""

from contextlib import suppress

from localcloud.kubernetes.capability import Capability
from localcloud.tools import debian
from localcloud.tools.build import BuildError, Report, ensure_tool
from localcloud.tools.catalogue import COREDNS, ETCD, KUBE_APISERVER, KWOK, NODE_PROBLEM_DETECTOR

OF_NODES = (debian.CONTAINERD, debian.RUNC, debian.CNI_PLUGINS, debian.IPTABLES, debian.CONNTRACK)


def prepare_programs(capability: Capability, report: Report) -> None:
    """Build or download the programs that are missing from the cache. Raises BuildError."""
    for tool in (ETCD, KUBE_APISERVER, COREDNS, KWOK):  # building one program builds its whole module
        ensure_tool(tool, report)
    for package in OF_NODES if capability.real_nodes else ():
        debian.ensure_package(package, report)
    if capability.real_nodes:
        ensure_tool(NODE_PROBLEM_DETECTOR, report)
        with suppress(BuildError):  # without nft, `local status` reports that network policies are not enforced
            debian.ensure_package(debian.NFTABLES, report)
