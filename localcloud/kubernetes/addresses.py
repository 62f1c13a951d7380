"""Address plan of a local cluster. Pure.

Nodes have the private addresses of their EC2 instances, services those of the EKS cluster's service CIDR. This module
chooses the other addresses.
"""

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network

AWS_ADDRESS = IPv4Address("169.254.100.1")
"""The local AWS and the registry, as seen by nodes and pods. Link-local, so no VPC contains it."""
AWS_PORT = 4566
REGISTRY_PORT = 5000
POD_IDENTITY_ADDRESS = IPv4Address("169.254.170.23")
"""As on EKS: https://docs.aws.amazon.com/eks/latest/userguide/pod-id-how-it-works.html"""
METADATA_ADDRESS = IPv4Address("169.254.169.254")
LINK_LOCAL = (AWS_ADDRESS, POD_IDENTITY_ADDRESS, METADATA_ADDRESS)
"""Addresses on the bridge, in addition to the router's."""
API_PORT = 443
POD_NETWORKS = tuple(IPv4Network(text) for text in ("100.64.0.0/16", "100.80.0.0/16", "198.18.0.0/16"))
"""Shared and benchmark address space; the first one that overlaps neither VPC nor services is used."""


@dataclass(frozen=True)
class Addresses:
    """Address plan of one cluster."""

    vpc: IPv4Network
    services: IPv4Network

    @property
    def router(self) -> IPv4Address:
        """Also the API server's address: https://docs.aws.amazon.com/vpc/latest/userguide/subnet-sizing.html"""
        return self.vpc[1]

    @property
    def kubernetes(self) -> IPv4Address:
        """Address of the service `kubernetes`."""
        return self.services[1]

    @property
    def dns(self) -> IPv4Address:
        """Address of the service `kube-dns`: the tenth one, as on EKS."""
        return self.services[10]

    @property
    def pods(self) -> IPv4Network:
        free = (network for network in POD_NETWORKS if not network.overlaps(self.vpc) and not network.overlaps(self.services))
        if (found := next(free, None)) is None:
            known = ", ".join(map(str, POD_NETWORKS))
            raise ValueError(
                f"no address range is free for pods: each of {known} overlaps the VPC {self.vpc} or the services {self.services}"
            )
        return found

    def pods_of_node(self, number: int) -> IPv4Network:
        """Return the pod CIDR of a node; numbers start at 1."""
        if not 1 <= number <= 255:
            raise ValueError(f"a local cluster has at most 255 nodes with their own pod CIDR, not {number}")
        return list(self.pods.subnets(new_prefix=24))[number]

    @property
    def api_server(self) -> str:
        """The API server's URL inside the VPC."""
        return f"https://{self.router}:{API_PORT}"
