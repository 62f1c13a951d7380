"""Subnets, security groups and network interfaces of file servers.

https://docs.aws.amazon.com/fsx/latest/LustreGuide/limit-access-security-groups.html
"""

import ipaddress
from collections.abc import Iterator, Sequence
from typing import Any

from localcloud.aws.call import Call
from localcloud.aws.errors import AwsError
from localcloud.aws.fsx.states import build_bad_request_error

LUSTRE_PORT = 988
PORTS = ((988, 988), (1018, 1023))
_CLOSED = (
    "The file system cannot be created because the default security group in the subnet provided or the provided security "
    "groups do not permit Lustre LNET network traffic on port 988"
)


def find_subnet(call: Call, ids: Sequence[str]) -> Any:
    if len(ids) != 1:
        raise build_bad_request_error("Exactly 1 subnet ID should be provided for a file system of type LUSTRE.")
    for zone in call.backend_of("ec2").subnets.values():
        if ids[0] in zone:
            return zone[ids[0]]
    raise AwsError("InvalidNetworkSettings", f"The subnet ID '{ids[0]}' does not exist.", InvalidSubnetId=ids[0])


def find_security_groups(call: Call, subnet: Any, ids: Sequence[str]) -> list[str]:
    """Return the IDs of the file servers' security groups.

    Like FSx, raise AwsError if a group does not exist or the groups prevent the file servers from reaching each other.
    """
    ec2 = call.backend_of("ec2")
    chosen = list(ids) or [str(ec2.get_default_security_group(subnet.vpc_id).id)]
    groups_by_id = {group.id: group for group in ec2.describe_security_groups() if group.vpc_id == subnet.vpc_id}
    for group in chosen:
        if group not in groups_by_id:
            message = f"The security group '{group}' does not exist in VPC '{subnet.vpc_id}'."
            raise AwsError("InvalidNetworkSettings", message, InvalidSecurityGroupId=group)
    ingress = [rule for name in chosen for rule in groups_by_id[name].ingress_rules]
    egress = [rule for name in chosen for rule in groups_by_id[name].egress_rules]
    if not (
        _allows_lustre_traffic(ingress, chosen, subnet.cidr_block) and _allows_lustre_traffic(egress, chosen, subnet.cidr_block)
    ):
        raise AwsError("InvalidNetworkSettings", _CLOSED)
    return chosen


def _allows_lustre_traffic(rules: Sequence[Any], groups: Sequence[str], cidr: str) -> bool:
    """Return whether one of the rules allows the file servers in this subnet to reach each other."""
    network = ipaddress.ip_network(cidr)
    for rule in filter_rules_by_lustre_port(rules):
        other = (rule.ip_range or {}).get("CidrIp")
        if (rule.source_group or {}).get("GroupId") in groups:
            return True
        if other and network.subnet_of(ipaddress.ip_network(other, strict=False)):  # type: ignore[arg-type]
            return True
    return False


def filter_rules_by_lustre_port(rules: Sequence[Any]) -> Iterator[Any]:
    for rule in rules:
        if rule.ip_protocol == "-1" or (
            rule.ip_protocol in ("tcp", "6") and int(rule.from_port) <= LUSTRE_PORT <= int(rule.to_port)
        ):
            yield rule


def create_interfaces(ec2: Any, subnet: Any, groups: list[str], count: int, file_system_id: str) -> list[str]:
    interface_ids = []
    for _ in range(count):
        interface = ec2.create_network_interface(subnet, None, group_ids=groups)
        interface.description = f"Created by Amazon FSx for {file_system_id}"
        interface.requester_managed = True
        interface.status = "in-use"
        interface_ids.append(str(interface.id))
    return interface_ids


def delete_interfaces(call: Call, ids: Sequence[str]) -> None:
    ec2 = call.backend_of("ec2")
    for name in ids:
        ec2.get_network_interface(name).status = "available"
        ec2.delete_network_interface(name)
