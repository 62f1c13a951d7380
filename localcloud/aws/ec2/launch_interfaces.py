"""Network interfaces of a launch, validated against the instance type's network cards before anything is created.

Cards and EFA: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-acc-inst-types.md
Limits: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/AvailableIpPerENI.html
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from localcloud.aws.ec2 import addresses, interfaces
from localcloud.aws.ec2.instance_types import TypeFacts
from localcloud.aws.ec2.refusals import build_invalid_value_error, build_missing_parameter_error
from localcloud.aws.errors import AwsError

MAXIMUM_GROUPS = 5  # per interface: https://docs.aws.amazon.com/vpc/latest/userguide/amazon-vpc-limits.html


@dataclass(frozen=True)
class InterfacePlan:
    """Network interface planned for each instance of a launch."""

    subnet: Any
    groups: Sequence[Any]
    kind: str
    card: int
    device: int
    address: str | None
    public: bool | None
    """Whether to assign a public address; None means the subnet's default."""
    description: str
    delete_on_termination: bool
    secondary: int
    existing: Any = None
    """Existing interface to attach, instead of creating an interface."""


def plan(backend: Any, data: Mapping[str, Any], subnet: Any, facts: TypeFacts, count: int) -> list[InterfacePlan]:
    """Return the planned interfaces of each instance, primary interface first. Raise AWS's errors for invalid data."""
    specifications = data.get("NetworkInterfaces")
    plans = (
        [_plan_interface(backend, data, item, subnet) for item in specifications]
        if specifications
        else [_plan_default_interface(backend, data, subnet)]
    )
    plans.sort(key=lambda item: (item.card, item.device))
    _check_device_positions(plans, facts)
    _check_interface_types(plans, facts)
    _check_networks(plans)
    _check_addresses(plans, count)
    return plans


def _plan_default_interface(backend: Any, data: Mapping[str, Any], subnet: Any) -> InterfacePlan:
    return InterfacePlan(
        subnet=subnet,
        groups=_find_groups(backend, subnet, data.get("SecurityGroupIds"), data.get("SecurityGroups")),
        kind="interface",
        card=0,
        device=0,
        address=data.get("PrivateIpAddress"),
        public=None,
        description="",
        delete_on_termination=True,
        secondary=0,
    )


def _plan_interface(backend: Any, data: Mapping[str, Any], item: Mapping[str, Any], subnet: Any) -> InterfacePlan:
    if "DeviceIndex" not in item:
        raise build_missing_parameter_error("deviceIndex: each network interface requires a device index")
    if data.get("SecurityGroupIds") or data.get("SecurityGroups"):
        raise AwsError(
            "InvalidParameterCombination",
            "Network interfaces and an instance-level security groups may not be specified on the same request",
        )
    existing = backend.get_network_interface(item["NetworkInterfaceId"]) if "NetworkInterfaceId" in item else None
    if existing is not None and existing.instance is not None:
        raise AwsError("InvalidNetworkInterface.InUse", f"Interface: [{existing.id}] in use.")
    own_subnet = existing.subnet if existing else backend.get_subnet(item["SubnetId"]) if "SubnetId" in item else subnet
    primary_addresses = [item["PrivateIpAddress"]] if item.get("PrivateIpAddress") else []
    primary_addresses += [address["PrivateIpAddress"] for address in item.get("PrivateIpAddresses", ()) if address.get("Primary")]
    kind = existing.interface_type if existing else item.get("InterfaceType") or "interface"
    planned = InterfacePlan(
        subnet=own_subnet,
        groups=existing.group_set if existing else _find_groups(backend, own_subnet, item.get("Groups"), None),
        kind=kind,
        card=int(item.get("NetworkCardIndex", 0)),
        device=int(item["DeviceIndex"]),
        address=primary_addresses[0] if primary_addresses else None,
        public=item.get("AssociatePublicIpAddress"),
        description=item.get("Description", ""),
        delete_on_termination=item.get("DeleteOnTermination", existing is None),
        secondary=int(item.get("SecondaryPrivateIpAddressCount", 0)),
        existing=existing,
    )
    if kind == "efa-only" and (primary_addresses or planned.secondary or planned.public or item.get("Ipv6AddressCount")):
        raise AwsError("InvalidParameterCombination", "IP addresses cannot be assigned to a network interface of type efa-only.")
    return planned


def _find_groups(backend: Any, subnet: Any, ids: Sequence[str] | None, names: Sequence[str] | None) -> list[Any]:
    group_ids = list(ids or ())
    for name in names or ():
        group = backend.get_security_group_from_name(name, subnet.vpc_id)
        if group is None:
            raise AwsError(
                "InvalidGroup.NotFound", f"The security group '{name}' does not exist in default VPC '{subnet.vpc_id}'"
            )
        group_ids.append(group.id)
    if not group_ids:
        return [backend.get_default_security_group(subnet.vpc_id)]
    if len(group_ids) > MAXIMUM_GROUPS:
        raise AwsError(
            "SecurityGroupsPerInterfaceLimitExceeded",
            f"The maximum number of security groups per interface ({MAXIMUM_GROUPS}) has been reached.",
        )
    for group_id in group_ids:
        security_group = backend.get_security_group_from_id(group_id)
        if security_group is not None and security_group.vpc_id != subnet.vpc_id:
            raise AwsError("InvalidParameter", f"Security group {group_id} and subnet {subnet.id} belong to different networks.")
    return interfaces.find_groups(backend, subnet.vpc_id, group_ids)


def _check_device_positions(plans: Sequence[InterfacePlan], facts: TypeFacts) -> None:
    places = Counter((item.card, item.device) for item in plans)
    for (card, device), number in places.items():
        if number > 1:
            raise AwsError(
                "InvalidParameterValue", f"{number} network interfaces have device index {device} of network card {card}."
            )
    if (0, 0) not in places:
        raise AwsError(
            "InvalidParameterCombination", "A primary network interface, device index 0 of network card 0, must be specified."
        )
    for card, number in Counter(item.card for item in plans).items():
        if card not in facts.cards:
            raise build_invalid_value_error(
                card, "networkCardIndex", f"The instance type {facts.name} has {len(facts.cards)} network cards."
            )
        if number > facts.cards[card].interfaces:
            raise AwsError(
                "AttachmentLimitExceeded", f"Interface count {number} exceeds the limit for {facts.name} (network card {card})."
            )
    if len(plans) > facts.maximum_interfaces:
        raise AwsError("AttachmentLimitExceeded", f"Interface count {len(plans)} exceeds the limit for {facts.name}")


def _check_interface_types(plans: Sequence[InterfacePlan], facts: TypeFacts) -> None:
    for item in plans:
        if item.kind not in ("interface", *interfaces.EFA_TYPES):
            raise build_invalid_value_error(item.kind, "interfaceType", "It must be interface, efa or efa-only.")
        if item.kind in interfaces.EFA_TYPES and not facts.efa_maximum:
            raise AwsError("InvalidParameterCombination", f"{facts.name} instances do not support Elastic Fabric Adapters.")
        if item.kind not in facts.cards[item.card].types:
            raise AwsError(
                "InvalidParameterCombination",
                f"Network card {item.card} of {facts.name} does not support network interfaces of type {item.kind}.",
            )
    if plans[0].kind == "efa-only":
        raise AwsError("InvalidParameterCombination", "The primary network interface cannot be of type efa-only.")
    efa = sum(item.kind in interfaces.EFA_TYPES for item in plans)
    if efa > facts.efa_maximum:
        raise AwsError("AttachmentLimitExceeded", f"EFA interface count {efa} exceeds the limit for {facts.name}")


def _check_networks(plans: Sequence[InterfacePlan]) -> None:
    if len(plans) > 1 and any(item.public for item in plans):
        raise AwsError(
            "InvalidParameterCombination",
            "The associatePublicIPAddress parameter cannot be specified when launching with multiple network interfaces.",
        )
    zones = sorted({item.subnet.availability_zone for item in plans})
    if len(zones) > 1:
        raise AwsError(
            "InvalidParameterCombination", f"The network interfaces are in different Availability Zones: {', '.join(zones)}."
        )


def _check_addresses(plans: Sequence[InterfacePlan], count: int) -> None:
    needed: Counter[str] = Counter()
    subnets = {item.subnet.id: item.subnet for item in plans}
    for item in plans:
        if item.existing is None and item.kind != "efa-only":
            needed[item.subnet.id] += count * (1 + item.secondary)
        if item.address is not None and count > 1:
            raise AwsError("InvalidParameterCombination", "A private IP address can only be assigned to one instance.")
        if item.address is not None:
            addresses.check_address_is_free(item.subnet, item.address)
    for subnet_id, number in needed.items():
        if addresses.count_free_addresses(subnets[subnet_id]) < number:
            raise addresses.build_no_free_address_error(subnets[subnet_id])


def create(backend: Any, item: InterfacePlan, tags: dict[str, str], alone: bool) -> Any:
    """Create the interface or use the existing one.

    Unless the launch data specifies otherwise, the interface gets a public address only if it is the instance's only
    interface and the subnet assigns public addresses.
    """
    if item.existing is not None:
        item.existing.network_card_index = item.card
        item.existing.delete_on_termination = item.delete_on_termination
        return item.existing
    public = item.public if item.public is not None else alone and item.subnet.map_public_ip_on_launch is True
    interface = interfaces.create(
        backend,
        item.subnet,
        item.groups,
        address=item.address,
        description=item.description,
        interface_type=item.kind,
        network_card=item.card,
        device=item.device,
        public_address=bool(public),
        delete_on_termination=item.delete_on_termination,
        tags=tags,
    )
    for _ in range(item.secondary):
        address = item.subnet.get_available_subnet_ip(interface)
        interface.private_ip_addresses.append({"Primary": False, "PrivateIpAddress": address})
    return interface
