"""How a VPC's addresses are divided. Pure arithmetic: a zone's subnets follow from the zone's letter and the VPC's CIDR
alone, so that zones can be added, removed or listed in another order and no subnet ever moves."""

from dataclasses import dataclass
from ipaddress import IPv4Network
from typing import Final

from infra.naming import ZONE_LETTERS

PRIVATE_BITS: Final = 4
"""A private subnet is a 16th of the VPC; the first eight 16ths are the private subnets of zones a to h."""
PUBLIC_BITS: Final = 7
"""A public subnet holds NAT gateways and load balancers only: a 128th. The ninth 16th is cut into those of zones a to h.
The other seven 16ths stay free for what the user adds."""
AWS_RESERVED: Final = 5
"""The first four addresses and the last of each subnet: https://docs.aws.amazon.com/vpc/latest/userguide/subnet-sizing.html"""


@dataclass(frozen=True)
class ZoneAddresses:
    """CIDRs of one zone's subnets."""

    private: str
    public: str

    @property
    def private_capacity(self) -> int:
        """Addresses that nodes and pods can have in the private subnet."""
        return IPv4Network(self.private).num_addresses - AWS_RESERVED


def zone_addresses(vpc_cidr: str, zone: str) -> ZoneAddresses:
    """The subnets of a zone, e.g. `us-west-2b`, in a VPC of /16 to /20."""
    vpc = IPv4Network(vpc_cidr)
    slot = ZONE_LETTERS.find(zone[-1])
    if slot < 0:
        raise ValueError(f'"{zone}" is not an availability zone that ends in one of the letters {ZONE_LETTERS}')
    sixteenths = list(vpc.subnets(prefixlen_diff=PRIVATE_BITS))
    publics = sixteenths[len(ZONE_LETTERS)].subnets(prefixlen_diff=PUBLIC_BITS - PRIVATE_BITS)
    return ZoneAddresses(private=str(sixteenths[slot]), public=str(list(publics)[slot]))
