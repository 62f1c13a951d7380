"""NAT gateways with AWS's states: pending, available, failed, deleting and deleted.

https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CreateNatGateway.html
https://docs.aws.amazon.com/vpc/latest/userguide/nat-gateway-troubleshooting.html
"""

from typing import Any

from moto.core.utils import utcnow
from moto.ec2.models.nat_gateways import NatGateway
from moto.ec2.utils import random_nat_gateway_id

from localcloud.aws import durations
from localcloud.aws.call import Call
from localcloud.aws.ec2 import gateways, interfaces, limits, tagging
from localcloud.aws.ec2.filters import filter_items, select_page
from localcloud.aws.ec2.refusals import build_invalid_value_error, build_missing_parameter_error, stop_dry_run
from localcloud.aws.errors import AwsError
from localcloud.aws.patching import operation

REQUESTER = "amazon-aws"
ENDED = ("deleted", "failed")


class Gateway(NatGateway):
    """moto's NAT gateway, without the random network interface that moto adds."""

    def __init__(self, backend: Any, subnet: Any, connectivity: str, client_token: str | None) -> None:
        self.ec2_backend = backend
        self.id = random_nat_gateway_id()
        self.subnet_id, self.vpc_id = subnet.id, subnet.vpc_id
        self.connectivity_type = connectivity
        self.client_token = client_token
        self.state = "pending"
        self.address_set: list[dict[str, Any]] = []
        self.allocation_id: str | None = None
        self.failure: tuple[str, str] | None = None
        self.deleted_at: Any = None
        self._created_at = utcnow()
        self._eni: Any = None


@operation("ec2", "CreateNatGateway")
def create_nat_gateway(call: Call) -> dict[str, Any]:
    params, backend = call.params, call.backend
    token = params.get("ClientToken")
    for existing in backend.nat_gateways.values():
        if token and getattr(existing, "client_token", None) == token:
            return {"NatGateway": describe_gateway(existing), "ClientToken": token}
    if "SubnetId" not in params:
        raise build_missing_parameter_error("subnetId")
    subnet = backend.get_subnet(params["SubnetId"])
    connectivity = params.get("ConnectivityType", "public")
    if connectivity not in ("public", "private"):
        raise build_invalid_value_error(connectivity, "connectivityType", "It must be public or private.")
    allocation_id = params.get("AllocationId")
    if connectivity == "public" and not allocation_id:
        raise build_missing_parameter_error("AllocationId")
    if connectivity == "private" and allocation_id:
        raise AwsError("InvalidParameterCombination", "A private NAT gateway cannot have an elastic IP address.")
    address = gateways.find_address(backend, allocation_id) if allocation_id else None
    tags = tagging.read_requested_tags(params.get("TagSpecifications"), "natgateway").get("natgateway", {})
    stop_dry_run(call)
    limits.check_nat_gateway_quota(backend, subnet.availability_zone)
    gateway = create(backend, subnet, address, token, params.get("PrivateIpAddress"))
    gateway.add_tags(tags)
    return {"NatGateway": describe_gateway(gateway), "ClientToken": token}


def create(backend: Any, subnet: Any, address: Any, token: str | None = None, private_address: str | None = None) -> Any:
    """Create a NAT gateway. The gateway's network and Elastic IP address determine whether the gateway becomes
    available or failed.

    A gateway without an Elastic IP is private.
    """
    gateway: Any = Gateway(backend, subnet, "public" if address else "private", token)  # type: ignore[abstract]
    backend.nat_gateways[gateway.id] = gateway
    gateway.failure = _find_failure(backend, subnet, address)
    if gateway.failure is None:
        _attach_address_and_interface(backend, gateway, subnet, address, private_address)
    durations.schedule(gateway, "state", "pending", "failed" if gateway.failure else "available", "ec2-nat-gateway")
    return gateway


def _find_failure(backend: Any, subnet: Any, address: Any) -> tuple[str, str] | None:
    """Return the error that will make the gateway fail, if any. As on AWS, the call that creates the gateway does not
    report the error."""
    if address is None:
        return None
    if gateways.find_attached_gateway(backend, subnet.vpc_id) is None:
        return "Gateway.NotAttached", f"Network {subnet.vpc_id} has no Internet gateway attached"
    if address.association_id:
        return "Resource.AlreadyAssociated", f"Elastic IP address [{address.allocation_id}] is already associated"
    return None


def _attach_address_and_interface(backend: Any, gateway: Any, subnet: Any, address: Any, private_address: str | None) -> None:
    interface = interfaces.create(
        backend,
        subnet,
        [],
        address=private_address,
        description=f"Interface for NAT Gateway {gateway.id}",
        interface_type="nat_gateway",
        requester=REQUESTER,
    )
    gateway._eni = interface
    shown_address = {
        "NetworkInterfaceId": interface.id,
        "PrivateIp": interface.private_ip_address,
        "IsPrimary": True,
        "Status": "succeeded",
    }
    if address is not None:
        backend.associate_address(eni=interface, allocation_id=address.allocation_id)
        gateway.allocation_id = address.allocation_id
        shown_address |= {
            "AllocationId": address.allocation_id,
            "PublicIp": address.public_ip,
            "AssociationId": address.association_id,
        }
    gateway.address_set = [shown_address]


def find(backend: Any, gateway_id: str) -> Any:
    if gateway_id not in backend.nat_gateways:
        raise AwsError("NatGatewayNotFound", f"The Nat Gateway {gateway_id} was not found")
    return backend.nat_gateways[gateway_id]


def find_usable_gateway(backend: Any, gateway_id: str) -> Any:
    """Return the gateway for use as a route target. Raise AWS's error if the gateway does not exist, failed or was
    deleted."""
    gateway = backend.nat_gateways.get(gateway_id)
    if gateway is None or gateway.state in ENDED:
        raise AwsError("InvalidNatGatewayID.NotFound", f"The natGateway ID '{gateway_id}' does not exist")
    return gateway


@operation("ec2", "DescribeNatGateways")
def describe_nat_gateways(call: Call) -> dict[str, Any]:
    backend, ids = call.backend, call.params.get("NatGatewayIds")
    selected = [find(backend, gateway_id) for gateway_id in ids] if ids else list(backend.nat_gateways.values())
    matching = filter_items(
        selected,
        call.params.get("Filter") or call.params.get("Filters"),
        {
            "nat-gateway-id": lambda item: item.id,
            "state": lambda item: item.state,
            "subnet-id": lambda item: item.subnet_id,
            "vpc-id": lambda item: item.vpc_id,
        },
        lambda item: tagging.read_tags(backend, item.id),
    )
    stop_dry_run(call)
    matching, token = select_page(matching, call.params)
    return {"NatGateways": [describe_gateway(gateway) for gateway in matching], **token}


@operation("ec2", "DeleteNatGateway")
def delete_nat_gateway(call: Call) -> dict[str, Any]:
    gateway = find(call.backend, call.params["NatGatewayId"])
    stop_dry_run(call)
    if gateway.state not in ("deleting", "deleted"):
        gateway.deleted_at = utcnow()
        failed = durations.make_failure_handler(gateway, "state", "failed")
        durations.schedule(
            gateway,
            "state",
            "deleting",
            "deleted",
            "ec2-nat-gateway-delete",
            then=lambda: _release_resources(gateway),
            fail=failed,
        )
    return {"NatGatewayId": gateway.id}


def _release_resources(gateway: Any) -> None:
    """Release the address and interface of a deleted gateway."""
    backend = gateway.ec2_backend
    for address in backend.addresses:
        if gateway._eni is not None and address.eni is gateway._eni:
            address.eni = address.instance = address.association_id = None
    if gateway._eni is not None:
        interfaces.delete(backend, gateway._eni.id)


def describe_gateway(gateway: Any) -> dict[str, Any]:
    """Return the gateway in the format of DescribeNatGateways."""
    return {
        "NatGatewayId": gateway.id,
        "SubnetId": gateway.subnet_id,
        "VpcId": gateway.vpc_id,
        "State": gateway.state,
        "ConnectivityType": gateway.connectivity_type,
        "CreateTime": gateway._created_at,
        "DeleteTime": getattr(gateway, "deleted_at", None),
        "FailureCode": gateway.failure[0] if gateway.state == "failed" else None,
        "FailureMessage": gateway.failure[1] if gateway.state == "failed" else None,
        "NatGatewayAddresses": gateway.address_set,
        "Tags": tagging.describe_tags(gateway.ec2_backend, gateway.id),
    }
