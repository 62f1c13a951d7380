"""Internet gateways and Elastic IP addresses, including dependencies that block their deletion.

https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DetachInternetGateway.html
https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_ReleaseAddress.html
"""

from typing import Any

from localcloud.aws.call import Call
from localcloud.aws.ec2 import interfaces, limits, tagging, vpcs
from localcloud.aws.ec2.refusals import stop_dry_run
from localcloud.aws.errors import AwsError
from localcloud.aws.patching import operation


@operation("ec2", "CreateInternetGateway")
def create_internet_gateway(call: Call) -> dict[str, Any]:
    tagging.read_requested_tags(call.params.get("TagSpecifications"), "internet-gateway")
    stop_dry_run(call)
    limits.check_internet_gateway_quota(call.backend)
    return call.moto()


@operation("ec2", "AttachInternetGateway")
def attach_internet_gateway(call: Call) -> dict[str, Any]:
    backend, vpc = call.backend, vpcs.find_vpc(call.backend, call.params["VpcId"])
    gateway = backend.get_internet_gateway(call.params["InternetGatewayId"])
    if gateway.vpc is None and find_attached_gateway(backend, vpc.id) is not None:
        raise AwsError("InvalidParameterValue", f"Network {vpc.id} already has an internet gateway attached")
    stop_dry_run(call)
    return call.moto()


def find_attached_gateway(backend: Any, vpc_id: str) -> Any:
    """Return the VPC's internet gateway, if any."""
    attached = [item for item in backend.internet_gateways.values() if item.vpc is not None and item.vpc.id == vpc_id]
    return attached[0] if attached else None


@operation("ec2", "DetachInternetGateway")
def detach_internet_gateway(call: Call) -> dict[str, Any]:
    backend, vpc_id = call.backend, call.params["VpcId"]
    gateway = backend.get_internet_gateway(call.params["InternetGatewayId"])
    is_attached = gateway.vpc is not None and gateway.vpc.id == vpc_id
    if is_attached and any(interface.public_ip for interface in interfaces.find_in_vpc(backend, vpc_id)):
        raise AwsError(
            "DependencyViolation",
            f"Network {vpc_id} has some mapped public address(es). "
            "Please unmap those public address(es) before detaching the gateway.",
        )
    stop_dry_run(call)
    return call.moto()


@operation("ec2", "DeleteInternetGateway")
def delete_internet_gateway(call: Call) -> dict[str, Any]:
    gateway = call.backend.get_internet_gateway(call.params["InternetGatewayId"])
    if gateway.vpc is not None:
        raise AwsError("DependencyViolation", f"The internetGateway '{gateway.id}' has dependencies and cannot be deleted.")
    stop_dry_run(call)
    answer = call.moto()
    tagging.delete_resource_tags(call.backend, gateway.id)
    return answer


def find_address(backend: Any, allocation_id: str) -> Any:
    for item in backend.addresses:
        if item.allocation_id == allocation_id:
            return item
    raise AwsError("InvalidAllocationID.NotFound", f"The allocation ID '{allocation_id}' does not exist")


@operation("ec2", "AllocateAddress")
def allocate_address(call: Call) -> dict[str, Any]:
    tagging.read_requested_tags(call.params.get("TagSpecifications"), "elastic-ip")
    stop_dry_run(call)
    limits.check_address_quota(call.backend)
    answer = call.moto()
    return {**answer, "NetworkBorderGroup": call.region, "PublicIpv4Pool": "amazon"}


@operation("ec2", "ReleaseAddress")
def release_address(call: Call) -> dict[str, Any]:
    backend = call.backend
    if "AllocationId" in call.params:
        elastic_ip = find_address(backend, call.params["AllocationId"])
        if elastic_ip.association_id:
            raise AwsError("InvalidIPAddress.InUse", f"Address {elastic_ip.public_ip} is in use.")
        stop_dry_run(call)
        tagging.delete_resource_tags(backend, elastic_ip.id)
    return call.moto()


@operation("ec2", "DisassociateAddress")
def disassociate_address(call: Call) -> dict[str, Any]:
    """Disassociate an Elastic IP address. As on AWS, the call fails if a NAT gateway uses the address."""
    for item in call.backend.addresses:
        if item.association_id == call.params.get("AssociationId") and item.eni is not None and item.eni.requester_managed:
            raise AwsError("AuthFailure", "You do not have permission to access the specified resource.")
    stop_dry_run(call)
    return call.moto()
