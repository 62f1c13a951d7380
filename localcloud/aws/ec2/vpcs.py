"""VPCs: resources deleted with a VPC, and dependencies that block its deletion.

https://docs.aws.amazon.com/vpc/latest/userguide/delete-vpc.html
"""

from typing import Any

from localcloud.aws.call import Call
from localcloud.aws.ec2 import limits, tagging
from localcloud.aws.ec2.refusals import build_in_use_error, stop_dry_run
from localcloud.aws.errors import AwsError
from localcloud.aws.patching import operation


def find_vpc(backend: Any, vpc_id: str) -> Any:
    vpc = backend.vpcs.get(vpc_id)
    if vpc is None:
        raise AwsError("InvalidVpcID.NotFound", f"The vpc ID '{vpc_id}' does not exist")
    return vpc


@operation("ec2", "CreateVpc")
def create_vpc(call: Call) -> dict[str, Any]:
    tagging.read_requested_tags(call.params.get("TagSpecifications"), "vpc")
    stop_dry_run(call)
    limits.check_vpc_quota(call.backend)
    return call.moto()


@operation("ec2", "DeleteVpc")
def delete_vpc(call: Call) -> None:
    backend, vpc = call.backend, find_vpc(call.backend, call.params["VpcId"])
    if _list_dependent_resources(backend, vpc.id):
        raise build_in_use_error("vpc", vpc.id)
    stop_dry_run(call)
    options = vpc.dhcp_options
    vpc.dhcp_options = None  # moto would delete the DHCP options with the VPC
    group = backend.get_default_security_group(vpc.id)
    call.moto()
    if options is not None:
        options.vpc = None
    for table in [table for table in backend.network_acls.values() if table.vpc_id == vpc.id]:
        del backend.network_acls[table.id]
        tagging.delete_resource_tags(backend, table.id)
    backend.groups.pop(vpc.id, None)
    for resource in (vpc, group):
        if resource is not None:
            tagging.delete_resource_tags(backend, resource.id)


def _list_dependent_resources(backend: Any, vpc_id: str) -> list[Any]:
    """Return the resources that block the VPC's deletion.

    All resources in the VPC block the deletion, except its main route table, default security group and default network ACL.
    """
    subnets = [subnet for zone in backend.subnets.values() for subnet in zone.values() if subnet.vpc_id == vpc_id]
    gateways = [gateway for gateway in backend.internet_gateways.values() if gateway.vpc is not None and gateway.vpc.id == vpc_id]
    groups = [group for group in backend.groups.get(vpc_id, {}).values() if not group.is_default]
    endpoints = [endpoint for endpoint in backend.vpc_end_points.values() if endpoint.vpc_id == vpc_id]
    tables = [table for table in backend.route_tables.values() if table.vpc_id == vpc_id and table.main_association_id is None]
    acls = [acl for acl in backend.network_acls.values() if acl.vpc_id == vpc_id and not acl.default]
    return [*subnets, *gateways, *groups, *endpoints, *tables, *acls]
