"""Private addresses of subnets: each is handed out once.

The first four addresses of a subnet and the last are AWS's: https://docs.aws.amazon.com/vpc/latest/userguide/subnet-sizing.html
"""

import ipaddress
from typing import Any

from moto.ec2.models.subnets import Subnet

from localcloud.aws.errors import AwsError

RESERVED_AT_START = 4


def install() -> None:
    subnet: Any = Subnet
    subnet.get_available_subnet_ip = _next_free
    subnet.request_ip = _take
    subnet.del_subnet_ip = release
    subnet.available_ip_address_count = property(free_count)


def free_count(subnet: Any) -> int:
    """As DescribeSubnets shows it."""
    return int(subnet._available_ip_addresses) - len(subnet._subnet_ips)


def none_left(subnet: Any) -> AwsError:
    return AwsError(
        "InsufficientFreeAddressesInSubnet",
        f"There are not enough free addresses in subnet '{subnet.id}' to satisfy the requested number of instances.",
    )


def _next_free(subnet: Any, holder: Any) -> str:
    """The lowest free address, in the way of moto's method, which fails with StopIteration when there is none."""
    if free_count(subnet) <= 0:
        raise none_left(subnet)
    taken, reserved = subnet._subnet_ips, subnet._reserved_ips
    # Remembers where to look first, since all addresses below are taken.
    position = max(getattr(subnet, "lowest_free", RESERVED_AT_START), RESERVED_AT_START)
    last = subnet.cidr.num_addresses - 1
    while position < last:
        address = subnet.cidr[position]
        position += 1
        if str(address) not in taken and address not in reserved:
            subnet.lowest_free = position
            taken[str(address)] = holder
            return str(address)
    raise none_left(subnet)


def _take(subnet: Any, address: str, holder: Any) -> None:
    """Give the holder the address that it asks for."""
    if ipaddress.ip_address(address) not in subnet.cidr:
        # moto's EFS looks for "IP" and "CIDR" in this text.
        raise AwsError(
            "InvalidParameterValue", f"Address does not fall within the subnet's address range (IP {address}, CIDR {subnet.cidr})"
        )
    if address in subnet._subnet_ips and subnet._subnet_ips[address] is not holder:
        raise AwsError("InvalidIPAddress.InUse", f"Address {address} is in use.")
    subnet._subnet_ips[address] = holder


def release(subnet: Any, address: str) -> None:
    if subnet._subnet_ips.pop(address, None) is not None:
        position = int(ipaddress.ip_address(address)) - int(subnet.cidr.network_address)
        subnet.lowest_free = min(getattr(subnet, "lowest_free", position), position)
