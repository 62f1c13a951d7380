"""Address plan of a local cluster. Performs no I/O.

Nodes use the private IP addresses of their EC2 instances, and services use the EKS cluster's service CIDR. This module
chooses all other addresses.
"""

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network

AWS_ADDRESS = IPv4Address("169.254.100.1")
"""Address at which nodes and pods reach the local AWS and the image registry. It is link-local, so no VPC contains
it."""
AWS_PORT = 4566
CONTROL_ADDRESS = IPv4Address("127.0.0.1")
CONTROL_PORT = 4567
"""Address and port at which the cluster's daemons reach the control API. Nodes and pods cannot reach the control API,
because they have their own network namespaces.
"""
REGISTRY_PORT = 5000
POD_IDENTITY_ADDRESS = IPv4Address("169.254.170.23")
"""Address of the EKS Pod Identity agent, which is the same on EKS:
https://docs.aws.amazon.com/eks/latest/userguide/pod-id-how-it-works.html"""
METADATA_ADDRESS = IPv4Address("169.254.169.254")
LINK_LOCAL = (AWS_ADDRESS, POD_IDENTITY_ADDRESS, METADATA_ADDRESS)
"""Link-local addresses of the cluster's bridge."""
API_PORT = 443
POD_NETWORKS = tuple(IPv4Network(text) for text in ("100.64.0.0/16", "100.80.0.0/16", "198.18.0.0/16"))
"""Possible CIDRs for pods, from the address ranges that are reserved for carrier-grade NAT and for benchmarks. A
cluster uses the first CIDR that overlaps neither its VPC nor its service CIDR."""


@dataclass(frozen=True)
class Addresses:
    """Address plan of one cluster."""

    vpc: IPv4Network
    services: IPv4Network

    @property
    def router(self) -> IPv4Address:
        """Address of the router and API server: https://docs.aws.amazon.com/vpc/latest/userguide/subnet-sizing.html"""
        return self.vpc[1]

    @property
    def kubernetes(self) -> IPv4Address:
        """Address of the Kubernetes service `kubernetes`."""
        return self.services[1]

    @property
    def dns(self) -> IPv4Address:
        """Address of the Kubernetes service `kube-dns`: the tenth address in the service CIDR, as on EKS."""
        return self.services[10]

    @property
    def pods(self) -> IPv4Network:
        free = (network for network in POD_NETWORKS if not network.overlaps(self.vpc) and not network.overlaps(self.services))
        if (pod_network := next(free, None)) is None:
            candidates = ", ".join(map(str, POD_NETWORKS))
            raise ValueError(
                f"no CIDR is free for pods: each of {candidates} overlaps the VPC {self.vpc} or the service CIDR {self.services}"
            )
        return pod_network

    def get_node_pod_cidr(self, number: int) -> IPv4Network:
        """Return the pod CIDR of the node with this number. Node numbers start at 1."""
        if not 1 <= number <= 255:
            raise ValueError(f"a local cluster supports at most 255 nodes with a pod CIDR (got node number {number})")
        return list(self.pods.subnets(new_prefix=24))[number]

    def find_node_number(self, address: IPv4Address) -> int | None:
        """Return the number of the node whose pod CIDR contains the address."""
        return (int(address) - int(self.pods.network_address)) >> 8 if address in self.pods else None

    @property
    def api_server(self) -> str:
        """URL of the API server inside the VPC."""
        return f"https://{self.router}:{API_PORT}"
