"""CIDRs of subnets in a new VPC. Pure arithmetic.

A zone's subnets depend only on the zone's letter and the VPC's CIDR, so adding, removing or reordering zones does not
move any subnet."""

from dataclasses import dataclass
from ipaddress import IPv4Network
from typing import Final

from infra.naming import ZONE_LETTERS

PRIVATE_BITS: Final = 4
"""A private subnet is a 16th of the VPC; the first eight 16ths are the private subnets of zones a to h."""
PUBLIC_BITS: Final = 7
"""A public subnet is a 128th of the VPC, for NAT gateways and load balancers only. The ninth 16th contains the public
subnets of zones a to h. The other seven 16ths are left free for the user."""
AWS_RESERVED: Final = 5
"""AWS reserves the first four addresses and the last address of each subnet:
https://docs.aws.amazon.com/vpc/latest/userguide/subnet-sizing.html"""


@dataclass(frozen=True)
class ZoneAddresses:
    """CIDRs of one zone's subnets."""

    private: str
    public: str

    @property
    def private_capacity(self) -> int:
        """Number of addresses for nodes and pods in the private subnet."""
        return IPv4Network(self.private).num_addresses - AWS_RESERVED


def compute_zone_subnets(vpc_cidr: str, zone: str) -> ZoneAddresses:
    """Return the subnets of a zone such as `us-west-2b`, in a VPC of /16 to /20."""
    vpc = IPv4Network(vpc_cidr)
    slot = ZONE_LETTERS.find(zone[-1])
    if slot < 0:
        raise ValueError(f'"{zone}" is not an availability zone ending in one of the letters {ZONE_LETTERS}')
    sixteenths = list(vpc.subnets(prefixlen_diff=PRIVATE_BITS))
    publics = sixteenths[len(ZONE_LETTERS)].subnets(prefixlen_diff=PUBLIC_BITS - PRIVATE_BITS)
    return ZoneAddresses(private=str(sixteenths[slot]), public=str(list(publics)[slot]))
