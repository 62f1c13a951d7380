"""Network interface operations.

https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CreateNetworkInterface.html
"""

from typing import Any

from localcloud.aws.call import Call
from localcloud.aws.ec2 import addresses, interfaces, tagging
from localcloud.aws.ec2.filters import filter_items, select_page
from localcloud.aws.ec2.refusals import build_invalid_value_error, stop_dry_run
from localcloud.aws.errors import AwsError
from localcloud.aws.patching import operation

CREATABLE_TYPES = ("interface", "efa", "efa-only", "branch", "trunk")


@operation("ec2", "CreateNetworkInterface")
def create_network_interface(call: Call) -> dict[str, Any]:
    params, backend = call.params, call.backend
    subnet = backend.get_subnet(params["SubnetId"])
    kind = params.get("InterfaceType", "interface")
    if kind not in CREATABLE_TYPES:
        raise build_invalid_value_error(kind, "interfaceType", f"It must be one of {', '.join(CREATABLE_TYPES)}.")
    primary_addresses = [params["PrivateIpAddress"]] if "PrivateIpAddress" in params else []
    primary_addresses += [item["PrivateIpAddress"] for item in params.get("PrivateIpAddresses", ())]
    if kind == "efa-only" and (primary_addresses or params.get("SecondaryPrivateIpAddressCount")):
        raise AwsError("InvalidParameterCombination", "EFA-only network interfaces cannot have IP addresses.")
    for address in primary_addresses:
        addresses.check_address_is_free(subnet, address)
    groups = interfaces.find_groups(
        backend, subnet.vpc_id, params.get("Groups") or [backend.get_default_security_group(subnet.vpc_id).id]
    )
    tags = tagging.read_requested_tags(params.get("TagSpecifications"), "network-interface").get("network-interface", {})
    stop_dry_run(call)
    interface = interfaces.create(
        backend,
        subnet,
        groups,
        address=primary_addresses[0] if primary_addresses else None,
        description=params.get("Description", ""),
        interface_type=kind,
        delete_on_termination=False,
        tags=tags,
    )
    secondary = primary_addresses[1:]
    while len(secondary) < params.get("SecondaryPrivateIpAddressCount", 0):
        secondary.append(subnet.get_available_subnet_ip(interface))
    for address in secondary:
        if address not in subnet._subnet_ips:
            subnet.request_ip(address, interface)
        interface.private_ip_addresses.append({"Primary": False, "PrivateIpAddress": address})
    return {"NetworkInterface": describe_interface(backend, interface)}


@operation("ec2", "DeleteNetworkInterface")
def delete_network_interface(call: Call) -> None:
    interface = _find_interface(call.backend, call.params["NetworkInterfaceId"])
    if interface.requester_managed:
        raise AwsError("OperationNotPermitted", f"The network interface '{interface.id}' is managed by {interface.requester_id}.")
    if interface.instance is not None:
        raise AwsError("InvalidParameterValue", f"Network interface '{interface.id}' is currently in use.")
    stop_dry_run(call)
    interfaces.delete(call.backend, interface.id)


@operation("ec2", "DescribeNetworkInterfaces")
def describe_network_interfaces(call: Call) -> dict[str, Any]:
    backend, ids = call.backend, call.params.get("NetworkInterfaceIds")
    matching = filter_items(
        [_find_interface(backend, interface_id) for interface_id in ids] if ids else list(backend.enis.values()),
        call.params.get("Filters"),
        {
            "addresses.private-ip-address": lambda item: [address["PrivateIpAddress"] for address in item.private_ip_addresses],
            "attachment.attachment-id": lambda item: item.attachment_id,
            "attachment.device-index": lambda item: item.device_index if item.instance else None,
            "attachment.instance-id": lambda item: item.instance.id if item.instance else None,
            "attachment.instance-owner-id": lambda item: item.owner_id if item.instance else None,
            "attachment.network-card-index": lambda item: item.network_card_index if item.instance else None,
            "attachment.status": lambda item: "attached" if item.instance else "detached",
            "availability-zone": lambda item: item.availability_zone,
            "description": lambda item: item.description,
            "group-id": lambda item: [group.id for group in item.group_set],
            "group-name": lambda item: [group.name for group in item.group_set],
            "interface-type": lambda item: item.interface_type,
            "mac-address": lambda item: item.mac_address,
            "network-interface-id": lambda item: item.id,
            "owner-id": lambda item: item.owner_id,
            "private-dns-name": lambda item: getattr(item, "private_dns_name", None),
            "private-ip-address": lambda item: [address["PrivateIpAddress"] for address in item.private_ip_addresses],
            "association.public-ip": lambda item: item.public_ip,
            "requester-id": lambda item: item.requester_id,
            "requester-managed": lambda item: item.requester_managed,
            "source-dest-check": lambda item: item.source_dest_check,
            "status": _read_status,
            "subnet-id": lambda item: item.subnet.id,
            "vpc-id": lambda item: item.subnet.vpc_id,
        },
        lambda item: tagging.read_tags(backend, item.id),
    )
    stop_dry_run(call)
    matching, token = select_page(matching, call.params)
    return {"NetworkInterfaces": [describe_interface(backend, interface) for interface in matching], **token}


def _find_interface(backend: Any, interface_id: str) -> Any:
    if interface_id not in backend.enis:
        raise AwsError("InvalidNetworkInterfaceID.NotFound", f"The networkInterface ID '{interface_id}' does not exist")
    return backend.enis[interface_id]


def _read_status(interface: Any) -> str:
    return "in-use" if interface.instance or interface.requester_managed else "available"


def describe_groups(interface: Any) -> list[dict[str, str]]:
    return [{"GroupId": group.id, "GroupName": group.name} for group in interface.group_set]


def describe_association(interface: Any) -> dict[str, Any] | None:
    """Return the interface's public address, if any."""
    if not interface.public_ip:
        return None
    elastic_ips = interface.ec2_backend.address_by_ip([interface.public_ip], fail_if_not_found=False)
    shown_address: dict[str, Any] = {
        "PublicIp": interface.public_ip,
        "PublicDnsName": build_public_dns_name(interface.ec2_backend.region_name, interface.public_ip),
        "IpOwnerId": interface.owner_id if elastic_ips else "amazon",
    }
    if elastic_ips:
        shown_address |= {"AllocationId": elastic_ips[0].allocation_id, "AssociationId": elastic_ips[0].association_id}
    return shown_address


def build_public_dns_name(region: str, address: str) -> str:
    domain = "compute-1.amazonaws.com" if region == "us-east-1" else f"{region}.compute.amazonaws.com"
    return f"ec2-{address.replace('.', '-')}.{domain}"


def describe_addresses(interface: Any) -> list[dict[str, Any]]:
    association = describe_association(interface)
    return [
        {
            "PrivateIpAddress": address["PrivateIpAddress"],
            "Primary": address["PrivateIpAddress"] == interface.private_ip_address,
            "PrivateDnsName": interfaces.private_dns_name(interface.ec2_backend.region_name, address["PrivateIpAddress"]),
            "Association": association if address["PrivateIpAddress"] == interface.private_ip_address else None,
        }
        for address in interface.private_ip_addresses
    ]


def describe_attachment(interface: Any) -> dict[str, Any] | None:
    """Return the interface's attachment to its instance, if any."""
    if interface.instance is None:
        return None
    return {
        "AttachmentId": interface.attachment_id,
        "AttachTime": interface.attach_time,
        "DeleteOnTermination": bool(interface.delete_on_termination),
        "DeviceIndex": interface.device_index,
        "NetworkCardIndex": interface.network_card_index,
        "Status": "attached",
    }


def describe_interface(backend: Any, interface: Any) -> dict[str, Any]:
    """Return the interface in the format of DescribeNetworkInterfaces."""
    attachment = describe_attachment(interface)
    if attachment is not None:
        attachment |= {"InstanceId": interface.instance.id, "InstanceOwnerId": interface.owner_id}
    return {
        "NetworkInterfaceId": interface.id,
        "InterfaceType": interface.interface_type,
        "Status": _read_status(interface),
        "Description": interface.description,
        "OwnerId": interface.owner_id,
        "RequesterId": interface.requester_id if interface.requester_managed else None,
        "RequesterManaged": interface.requester_managed,
        "SubnetId": interface.subnet.id,
        "VpcId": interface.subnet.vpc_id,
        "AvailabilityZone": interface.availability_zone,
        "MacAddress": interface.mac_address,
        "PrivateIpAddress": interface.private_ip_address,
        "PrivateDnsName": interfaces.private_dns_name(backend.region_name, interface.private_ip_address) or None,
        "PrivateIpAddresses": describe_addresses(interface),
        "Ipv6Addresses": [{"Ipv6Address": address} for address in interface.ipv6_addresses],
        "SourceDestCheck": interface.source_dest_check,
        "Groups": describe_groups(interface),
        "Association": describe_association(interface),
        "Attachment": attachment,
        "TagSet": tagging.describe_tags(backend, interface.id),
    }
