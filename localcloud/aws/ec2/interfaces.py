"""Network interfaces: creation, attachment and deletion.

Interfaces of endpoints, NAT gateways and mount targets belong to the requesting service ("requester-managed"). While
they exist, their subnet and security groups cannot be deleted.
https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/requester-managed-eni.html
"""

from collections.abc import Iterable, Sequence
from ipaddress import IPv4Address
from typing import Any

from moto.ec2.models.elastic_network_interfaces import NetworkInterface

from localcloud.aws.ec2 import addresses, tagging
from localcloud.aws.errors import AwsError

EFA_TYPES = ("efa", "efa-only")
_make = NetworkInterface.__init__
_attachment: Any = NetworkInterface.attachment


def extend_moto() -> None:
    interface: Any = NetworkInterface
    interface.__init__ = _init_interface
    interface.attachment = property(_read_attachment)
    # moto adds the instance's security groups to each interface. On AWS, an interface has only its own groups.
    interface.group_set = property(lambda self: self._group_set)


def _init_interface(
    self: Any,
    ec2_backend: Any,
    subnet: Any,
    private_ip_address: Any,
    private_ip_addresses: list[dict[str, Any]] | None = None,
    *args: Any,
    **kwargs: Any,
) -> None:
    """Initialize the interface as moto does, but with a free address in the subnet instead of a random one."""
    if isinstance(subnet, str):
        subnet = ec2_backend.get_subnet(subnet)
    primary = private_ip_address[0] if isinstance(private_ip_address, list) and private_ip_address else private_ip_address
    is_random = bool(primary) and IPv4Address(primary) not in subnet.cidr  # set by moto for requester-managed interfaces
    if is_random or (not primary and not private_ip_addresses):
        primary = subnet.get_available_subnet_ip(self)
    _make(self, ec2_backend, subnet, primary, private_ip_addresses, *args, **kwargs)
    for address in self.private_ip_addresses:
        if address["PrivateIpAddress"] not in subnet._subnet_ips:
            subnet.request_ip(address["PrivateIpAddress"], self)
    if getattr(self, "private_dns_name", None):
        self.private_dns_name = private_dns_name(ec2_backend.region_name, self.private_ip_address)
    self.network_card_index = 0


def _read_attachment(self: Any) -> Any:
    attachment = _attachment.fget(self)
    if attachment is not None:
        attachment.network_card_index = self.network_card_index
    return attachment


def private_dns_name(region: str, address: str | None) -> str:
    if not address:
        return ""
    domain = "ec2.internal" if region == "us-east-1" else f"{region}.compute.internal"
    return f"ip-{address.replace('.', '-')}.{domain}"


def find_groups(backend: Any, vpc_id: str, group_ids: Iterable[str]) -> list[Any]:
    """Return moto's objects for security groups of a VPC."""
    groups = []
    for group_id in group_ids:
        group = backend.groups.get(vpc_id, {}).get(group_id)
        if group is None:
            raise AwsError("InvalidGroup.NotFound", f"The security group '{group_id}' does not exist in VPC '{vpc_id}'")
        groups.append(group)
    return groups


def create(
    backend: Any,
    subnet: Any,
    groups: Sequence[Any],
    *,
    address: str | None = None,
    description: str = "",
    interface_type: str = "interface",
    network_card: int = 0,
    device: int = 0,
    public_address: bool = False,
    delete_on_termination: bool = True,
    requester: str | None = None,
    tags: dict[str, str] | None = None,
) -> Any:
    """Create a network interface. An `efa-only` interface has no IP address."""
    interface = backend.create_network_interface(
        subnet,
        address,
        device_index=device,
        public_ip_auto_assign=public_address,
        group_ids=[group.id for group in groups],
        description=description,
        tags=tags or {},
        delete_on_termination=delete_on_termination,
    )
    interface._group_set = list(groups)
    interface.interface_type = interface_type
    interface.network_card_index = network_card
    if requester is not None:
        interface.requester_managed, interface.requester_id = True, requester
    if interface_type == "efa-only":
        addresses.release_address(subnet, interface.private_ip_address)
        interface.private_ip_address, interface.private_ip_addresses, interface.private_dns_name = None, [], None
    return interface


def delete(backend: Any, interface_id: str) -> None:
    """Remove an interface, even if it is in use, and release its addresses."""
    interface = backend.enis.pop(interface_id, None)
    if interface is None:
        return
    for address in interface.private_ip_addresses:
        addresses.release_address(interface.subnet, address["PrivateIpAddress"])
    tagging.delete_resource_tags(backend, interface_id)


def find_in_subnet(backend: Any, subnet_id: str) -> list[Any]:
    return [interface for interface in backend.enis.values() if interface.subnet.id == subnet_id]


def find_by_group(backend: Any, group_id: str) -> list[Any]:
    return [interface for interface in backend.enis.values() if any(group.id == group_id for group in interface.group_set)]


def find_in_vpc(backend: Any, vpc_id: str) -> list[Any]:
    return [interface for interface in backend.enis.values() if interface.subnet.vpc_id == vpc_id]
