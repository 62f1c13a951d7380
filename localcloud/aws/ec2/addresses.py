"""Private IP addresses of subnets. Each address is assigned to at most one interface.

AWS reserves the first four addresses and the last one of each subnet:
https://docs.aws.amazon.com/vpc/latest/userguide/subnet-sizing.html
"""

import ipaddress
from typing import Any

from moto.ec2.models.subnets import Subnet

from localcloud.aws.errors import AwsError

RESERVED_AT_START = 4


def extend_moto() -> None:
    subnet: Any = Subnet
    subnet.get_available_subnet_ip = _assign_next_address
    subnet.request_ip = _assign_address
    subnet.del_subnet_ip = release_address
    subnet.available_ip_address_count = property(count_free_addresses)


def count_free_addresses(subnet: Any) -> int:
    """Return the number of free addresses, as DescribeSubnets reports it."""
    return int(subnet._available_ip_addresses) - len(subnet._subnet_ips)


def build_no_free_address_error(subnet: Any) -> AwsError:
    return AwsError(
        "InsufficientFreeAddressesInSubnet",
        f"There are not enough free addresses in subnet '{subnet.id}' to satisfy the requested number of instances.",
    )


def _assign_next_address(subnet: Any, holder: Any) -> str:
    """Assign the lowest free address to its holder and return it. Raise AWS's error if no address is left."""
    if count_free_addresses(subnet) <= 0:
        raise build_no_free_address_error(subnet)
    taken, reserved = subnet._subnet_ips, subnet._reserved_ips
    for position in range(RESERVED_AT_START, subnet.cidr.num_addresses - 1):
        address = subnet.cidr[position]
        if str(address) not in taken and address not in reserved:
            taken[str(address)] = holder
            return str(address)
    raise build_no_free_address_error(subnet)


def _assign_address(subnet: Any, address: str, holder: Any) -> None:
    """Assign the requested address to an interface. Raise AWS's error if it is not available."""
    if subnet._subnet_ips.get(address) is not holder:
        check_address_is_free(subnet, address)
    subnet._subnet_ips[address] = holder


def check_address_is_free(subnet: Any, address: str) -> None:
    if ipaddress.ip_address(address) not in subnet.cidr:
        # moto's EFS backend searches this message for "IP" and "CIDR".
        raise AwsError(
            "InvalidParameterValue", f"Address does not fall within the subnet's address range (IP {address}, CIDR {subnet.cidr})"
        )
    position = int(ipaddress.ip_address(address)) - int(subnet.cidr.network_address)
    if not RESERVED_AT_START <= position < subnet.cidr.num_addresses - 1:
        raise AwsError("InvalidParameterValue", f"Address {address} is in subnet's reserved address range")
    if address in subnet._subnet_ips:
        raise AwsError("InvalidIPAddress.InUse", f"Address {address} is in use.")


def release_address(subnet: Any, address: str) -> None:
    subnet._subnet_ips.pop(address, None)
