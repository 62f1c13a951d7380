"""Route tables and routes.

https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_AssociateRouteTable.html
https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CreateRoute.html
"""

from typing import Any

from localcloud.aws.call import Call
from localcloud.aws.ec2 import tagging, vpcs
from localcloud.aws.ec2.nat_gateways import find_usable_gateway
from localcloud.aws.ec2.refusals import build_missing_parameter_error, stop_dry_run
from localcloud.aws.errors import AwsError
from localcloud.aws.patching import operation

TARGETS = (
    "CarrierGatewayId",
    "CoreNetworkArn",
    "EgressOnlyInternetGatewayId",
    "GatewayId",
    "InstanceId",
    "LocalGatewayId",
    "NatGatewayId",
    "NetworkInterfaceId",
    "TransitGatewayId",
    "VpcEndpointId",
    "VpcPeeringConnectionId",
)


@operation("ec2", "CreateRouteTable")
def create_route_table(call: Call) -> dict[str, Any]:
    vpcs.find_vpc(call.backend, call.params["VpcId"])
    tagging.read_requested_tags(call.params.get("TagSpecifications"), "route-table")
    stop_dry_run(call)
    return call.moto()


@operation("ec2", "DeleteRouteTable")
def delete_route_table(call: Call) -> dict[str, Any]:
    table = call.backend.get_route_table(call.params["RouteTableId"])
    if table.main_association_id is not None or table._associations:
        raise AwsError("DependencyViolation", f"The routeTable '{table.id}' has dependencies and cannot be deleted.")
    stop_dry_run(call)
    answer = call.moto()
    tagging.delete_resource_tags(call.backend, table.id)
    return answer


@operation("ec2", "AssociateRouteTable")
def associate_route_table(call: Call) -> dict[str, Any]:
    params, backend = call.params, call.backend
    table = backend.get_route_table(params["RouteTableId"])
    subnet_id = params.get("SubnetId")
    if subnet_id is None and "GatewayId" not in params:
        raise build_missing_parameter_error("subnetId")
    if subnet_id is not None:
        if backend.get_subnet(subnet_id).vpc_id != table.vpc_id:
            raise AwsError("InvalidParameterValue", f"Route table {table.id} and subnet {subnet_id} belong to different networks")
        for other in backend.route_tables.values():
            if subnet_id in other._associations.values() and other is not table:
                raise AwsError(
                    "Resource.AlreadyAssociated",
                    f"the specified association for route table {table.id} conflicts with an existing association",
                )
    stop_dry_run(call)
    return call.moto()


@operation("ec2", "CreateRoute")
def create_route(call: Call) -> dict[str, Any]:
    _check_target(call)
    stop_dry_run(call)
    return call.moto()


@operation("ec2", "ReplaceRoute")
def replace_route(call: Call) -> dict[str, Any]:
    if not call.params.get("LocalTarget"):
        _check_target(call)
    stop_dry_run(call)
    return call.moto()


def _check_target(call: Call) -> None:
    """Check that the route has exactly one target, and that the target exists in the route table's VPC."""
    params, backend = call.params, call.backend
    table = backend.get_route_table(params["RouteTableId"])
    targets = [name for name in TARGETS if params.get(name)]
    if not targets:
        raise build_missing_parameter_error(
            "one of gatewayId, natGatewayId, networkInterfaceId, vpcPeeringConnectionId, transitGatewayId"
        )
    if len(targets) > 1:
        raise AwsError("InvalidParameterCombination", f"Only one target may be specified in the request: {', '.join(targets)}")
    if not any(params.get(name) for name in ("DestinationCidrBlock", "DestinationIpv6CidrBlock", "DestinationPrefixListId")):
        raise build_missing_parameter_error("destinationCidrBlock")
    if "NatGatewayId" in params and find_usable_gateway(backend, params["NatGatewayId"]).vpc_id != table.vpc_id:
        raise AwsError(
            "InvalidParameterValue",
            f"route table {table.id} and NAT gateway {params['NatGatewayId']} belong to different networks",
        )
    gateway_id = str(params.get("GatewayId", ""))
    if gateway_id.startswith("igw-"):
        gateway = backend.get_internet_gateway(gateway_id)
        if gateway.vpc is None or gateway.vpc.id != table.vpc_id:
            raise AwsError(
                "InvalidParameterValue", f"route table {table.id} and network gateway {gateway_id} belong to different networks"
            )
