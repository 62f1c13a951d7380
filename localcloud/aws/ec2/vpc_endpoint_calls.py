"""VPC endpoint operations.

https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CreateVpcEndpoint.html
"""

import json
from typing import Any

from localcloud.aws.call import Call
from localcloud.aws.ec2 import endpoint_services, interfaces, tagging, vpc_endpoints, vpcs
from localcloud.aws.ec2.filters import filter_items, select_page
from localcloud.aws.ec2.refusals import build_invalid_value_error, build_missing_parameter_error, stop_dry_run
from localcloud.aws.ec2.vpc_endpoints import GATEWAY, INTERFACE, find_endpoint
from localcloud.aws.errors import AwsError
from localcloud.aws.patching import operation


@operation("ec2", "CreateVpcEndpoint")
def create_vpc_endpoint(call: Call) -> dict[str, Any]:
    params, backend = call.params, call.backend
    token = params.get("ClientToken")
    for existing in backend.vpc_end_points.values():
        if token and existing.client_token == token:
            return {"VpcEndpoint": describe_endpoint(existing), "ClientToken": token}
    vpc = vpcs.find_vpc(backend, params["VpcId"])
    if "ServiceName" not in params:
        raise build_missing_parameter_error("ServiceName")
    kind = params.get("VpcEndpointType", GATEWAY)
    if kind not in (GATEWAY, INTERFACE):
        raise build_invalid_value_error(kind, "VpcEndpointType", "The local cloud supports only Gateway and Interface endpoints.")
    endpoint_services.check_service(backend, params["ServiceName"], kind)
    endpoint_services.check_zones(backend, params["ServiceName"], params.get("SubnetIds", []))
    _check_policy(params.get("PolicyDocument"))
    private_dns = kind == INTERFACE and params.get("PrivateDnsEnabled", True)
    if kind == INTERFACE:
        vpc_endpoints.check_interface(backend, vpc, params, private_dns)
    else:
        vpc_endpoints.check_gateway(backend, vpc, params)
    tags = tagging.read_requested_tags(params.get("TagSpecifications"), "vpc-endpoint").get("vpc-endpoint", {})
    stop_dry_run(call)
    endpoint = vpc_endpoints.create(backend, vpc, kind, params, private_dns, tags)
    return {"VpcEndpoint": describe_endpoint(endpoint), "ClientToken": token}


def _check_policy(document: str | None) -> None:
    if document is None:
        return
    try:
        policy = json.loads(document)
    except ValueError as error:
        raise AwsError("InvalidPolicyDocument", "The policy document is not valid JSON.") from error
    if not isinstance(policy, dict) or "Statement" not in policy:
        raise AwsError("InvalidPolicyDocument", "The policy document has no statement.")


@operation("ec2", "DescribeVpcEndpoints")
def describe_vpc_endpoints(call: Call) -> dict[str, Any]:
    backend, ids = call.backend, call.params.get("VpcEndpointIds")
    matching = filter_items(
        [find_endpoint(backend, endpoint_id) for endpoint_id in ids] if ids else list(backend.vpc_end_points.values()),
        call.params.get("Filters"),
        {
            "ip-address-type": lambda item: item.ip_address_type,
            "service-name": lambda item: item.service_name,
            "vpc-endpoint-id": lambda item: item.id,
            "vpc-endpoint-state": lambda item: item.state,
            "vpc-endpoint-type": lambda item: item.vpc_endpoint_type,
            "vpc-id": lambda item: item.vpc_id,
        },
        lambda item: tagging.read_tags(backend, item.id),
    )
    stop_dry_run(call)
    matching, token = select_page(matching, call.params)
    return {"VpcEndpoints": [describe_endpoint(endpoint) for endpoint in matching], **token}


@operation("ec2", "ModifyVpcEndpoint")
def modify_vpc_endpoint(call: Call) -> dict[str, Any]:
    params, backend = call.params, call.backend
    endpoint = find_endpoint(backend, params["VpcEndpointId"])
    if endpoint.state == "deleting":
        raise AwsError("IncorrectState", f"The Vpc Endpoint {endpoint.id} is being deleted")
    _check_policy(params.get("PolicyDocument"))
    added_subnets, removed_subnets = params.get("AddSubnetIds", []), params.get("RemoveSubnetIds", [])
    remaining = [subnet_id for subnet_id in endpoint.subnet_ids if subnet_id not in removed_subnets]
    vpc_endpoints.check_subnets(backend, endpoint.vpc_id, remaining, added_subnets)
    endpoint_services.check_zones(backend, endpoint.service_name, added_subnets)
    interfaces.find_groups(backend, endpoint.vpc_id, params.get("AddSecurityGroupIds", []))
    added_tables = params.get("AddRouteTableIds", [])
    vpc_endpoints.check_route_tables(backend, endpoint.vpc_id, endpoint.service_name, added_tables)
    stop_dry_run(call)
    vpc_endpoints.remove_subnets(endpoint, removed_subnets)
    vpc_endpoints.remove_routes(endpoint, params.get("RemoveRouteTableIds", []))
    if params.get("AddSecurityGroupIds") or params.get("RemoveSecurityGroupIds"):
        vpc_endpoints.change_security_groups(
            endpoint, params.get("AddSecurityGroupIds", []), params.get("RemoveSecurityGroupIds", [])
        )
    vpc_endpoints.add_subnets(endpoint, added_subnets)
    vpc_endpoints.add_routes(endpoint, added_tables)
    _change_settings(endpoint, params)
    return {"Return": True}


def _change_settings(endpoint: Any, params: dict[str, Any]) -> None:
    if params.get("ResetPolicy"):
        endpoint.policy_document = json.dumps(endpoint.DEFAULT_POLICY)
    if "PolicyDocument" in params:
        endpoint.policy_document = params["PolicyDocument"]
    if "PrivateDnsEnabled" in params:
        endpoint.private_dns_enabled = params["PrivateDnsEnabled"]
    endpoint.ip_address_type = params.get("IpAddressType", endpoint.ip_address_type)
    if "DnsOptions" in params:
        endpoint.dns_options = {**(endpoint.dns_options or {}), **params["DnsOptions"]}


@operation("ec2", "DeleteVpcEndpoints")
def delete_vpc_endpoints(call: Call) -> dict[str, Any]:
    stop_dry_run(call)
    unsuccessful = []
    for endpoint_id in call.params.get("VpcEndpointIds", []):
        try:
            endpoint = find_endpoint(call.backend, endpoint_id)
        except AwsError as error:
            refusal = {"Code": "InvalidVpcEndpoint.NotFound", "Message": error.message}
            unsuccessful.append({"ResourceId": endpoint_id, "Error": refusal})
        else:
            if endpoint.state != "deleting":
                vpc_endpoints.delete(endpoint)
    return {"Unsuccessful": unsuccessful}


def describe_endpoint(endpoint: Any) -> dict[str, Any]:
    """Return the endpoint in the format of DescribeVpcEndpoints."""
    backend = endpoint.ec2_backend
    return {
        "VpcEndpointId": endpoint.id,
        "VpcEndpointType": endpoint.vpc_endpoint_type,
        "VpcId": endpoint.vpc_id,
        "ServiceName": endpoint.service_name,
        "State": endpoint.state,
        "PolicyDocument": endpoint.policy_document,
        "RouteTableIds": endpoint.route_table_ids,
        "SubnetIds": endpoint.subnet_ids,
        "Groups": endpoint.groups,
        "IpAddressType": getattr(endpoint, "ip_address_type", "ipv4"),
        "DnsOptions": getattr(endpoint, "dns_options", None),
        "PrivateDnsEnabled": bool(endpoint.private_dns_enabled),
        "RequesterManaged": False,
        "NetworkInterfaceIds": endpoint.network_interface_ids,
        "DnsEntries": _describe_dns_entries(endpoint),
        "CreationTimestamp": endpoint.creation_timestamp,
        "OwnerId": endpoint.owner_id,
        "Tags": tagging.describe_tags(backend, endpoint.id),
    }


def _describe_dns_entries(endpoint: Any) -> list[dict[str, str]]:
    entries = [{"DnsName": entry["dns_name"], "HostedZoneId": entry["hosted_zone_id"]} for entry in endpoint.dns_entries]
    if entries and endpoint.private_dns_enabled:
        name = endpoint_services.build_private_dns_name(endpoint.service_name, endpoint.ec2_backend.region_name)
        entries.append({"DnsName": name, "HostedZoneId": "ZONEIDPENDING"})
    return entries
