"""Subnets. https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CreateSubnet.html"""

from ipaddress import IPv4Network
from typing import Any

from localcloud.aws.call import Call
from localcloud.aws.ec2 import interfaces, tagging
from localcloud.aws.ec2.refusals import build_in_use_error, build_invalid_value_error, stop_dry_run
from localcloud.aws.ec2.vpcs import find_vpc
from localcloud.aws.ec2.zones import find_zone
from localcloud.aws.errors import AwsError
from localcloud.aws.patching import operation

HOSTNAME_TYPES = ("ip-name", "resource-name")


@operation("ec2", "CreateSubnet")
def create_subnet(call: Call) -> dict[str, Any]:
    params, backend = call.params, call.backend
    vpc = find_vpc(backend, params["VpcId"])
    zone = params.get("AvailabilityZone") or params.get("AvailabilityZoneId")
    if zone is not None:
        find_zone(backend, zone)
    if "CidrBlock" in params:
        _check_cidr_size(params["CidrBlock"])
    tagging.read_requested_tags(params.get("TagSpecifications"), "subnet")
    stop_dry_run(call)
    answer = call.moto()
    subnet = backend.get_subnet(answer["Subnet"]["SubnetId"])
    if not vpc.is_default:  # moto treats a zone's first subnet as its default subnet
        subnet.default_for_az = subnet.map_public_ip_on_launch = False
        answer["Subnet"] |= {"DefaultForAz": False, "MapPublicIpOnLaunch": False}
    return answer


def _check_cidr_size(cidr: str) -> None:
    try:
        length = IPv4Network(cidr, strict=False).prefixlen
    except ValueError:
        return  # moto rejects it
    if not 16 <= length <= 28:
        raise AwsError("InvalidSubnet.Range", f"The CIDR '{cidr}' is invalid.")


@operation("ec2", "DeleteSubnet")
def delete_subnet(call: Call) -> None:
    backend, subnet = call.backend, call.backend.get_subnet(call.params["SubnetId"])
    if interfaces.find_in_subnet(backend, subnet.id):
        raise build_in_use_error("subnet", subnet.id)
    stop_dry_run(call)
    call.moto()
    for table in backend.route_tables.values():
        for association_id in [key for key, value in table._associations.items() if value == subnet.id]:
            del table._associations[association_id]
    for acl in backend.network_acls.values():
        for association_id in [key for key, value in acl._associations.items() if value.subnet_id == subnet.id]:
            del acl._associations[association_id]
    tagging.delete_resource_tags(backend, subnet.id)


@operation("ec2", "ModifySubnetAttribute")
def modify_subnet_attribute(call: Call) -> None:
    subnet = call.backend.get_subnet(call.params["SubnetId"])
    options = subnet.private_dns_name_options_on_launch
    hostname_type = call.params.get("PrivateDnsHostnameTypeOnLaunch")
    if hostname_type is not None:
        if hostname_type not in HOSTNAME_TYPES:
            raise build_invalid_value_error(
                hostname_type, "privateDnsHostnameTypeOnLaunch", f"It must be one of {', '.join(HOSTNAME_TYPES)}."
            )
        options["HostnameType"] = hostname_type
    ipv6_record = call.params.get("EnableResourceNameDnsAAAARecordOnLaunch")
    if ipv6_record is not None:
        options["EnableResourceNameDnsAAAARecord"] = bool(ipv6_record.get("Value"))
    call.moto()
