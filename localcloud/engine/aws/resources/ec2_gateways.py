"""Internet access for VPCs: internet gateways, Elastic IP addresses and NAT gateways."""

from functools import partial
from typing import Any

from localcloud.engine.aws.resource import Args, Aws, Failed, Prop, Resource, State, register
from localcloud.engine.aws.resources.ec2_tags import TAGS, build_tag_specification, parse_tags, update_tags
from localcloud.engine.aws.resources.requests import (
    MINUTE,
    build_ec2_arn,
    find_first,
    generate_client_token,
    ignore_gone,
    report_partial_creation,
    retry,
    to_request,
    to_state,
    wait_until_gone,
)

INTERNET_GATEWAY_TIMEOUT = 20 * MINUTE
ADDRESS_TIMEOUT = 5 * MINUTE
NAT_CREATED = 10 * MINUTE
NAT_DELETED = 30 * MINUTE


@register
class InternetGateway(Resource):
    token = "aws:ec2/internetGateway:InternetGateway"
    title = "EC2 Internet Gateway"
    props = {"vpcId": Prop(), **TAGS}

    def create(self, aws: Aws, args: Args) -> str:
        specification = build_tag_specification("internet-gateway", args)
        gateway = aws.client("ec2").create_internet_gateway(TagSpecifications=specification)["InternetGateway"]
        id = str(gateway["InternetGatewayId"])
        if args.get("vpcId"):
            with report_partial_creation(id):
                self._attach(aws, id, args["vpcId"])
        return id

    def read(self, aws: Aws, id: str, recorded: State) -> State | None:
        gateway = self._describe(aws, id)
        if gateway is None:
            return None
        attachments = gateway.get("Attachments") or []
        return {
            **({"vpcId": attachments[0]["VpcId"]} if attachments else {}),
            **parse_tags(gateway.get("Tags")),
            "arn": build_ec2_arn(aws, f"internet-gateway/{id}", gateway.get("OwnerId")),
            "ownerId": gateway.get("OwnerId", aws.account_id),
        }

    def update(self, aws: Aws, id: str, old: State, new: Args, changed: frozenset[str]) -> None:
        if "vpcId" in changed:
            self._detach(aws, id, old)
            if new.get("vpcId"):
                self._attach(aws, id, new["vpcId"])
        if "tags" in changed:
            update_tags(aws, id, old, new)

    def delete(self, aws: Aws, id: str, state: State) -> None:
        self._detach(aws, id, state)
        ec2 = aws.client("ec2")
        with ignore_gone("InvalidInternetGatewayID.NotFound"):
            retry(
                aws,
                f"EC2 Internet Gateway ({id}) delete",
                partial(ec2.delete_internet_gateway, InternetGatewayId=id),
                "DependencyViolation",
                timeout=INTERNET_GATEWAY_TIMEOUT,
            )

    def _attach(self, aws: Aws, id: str, vpc: str) -> None:
        aws.client("ec2").attach_internet_gateway(InternetGatewayId=id, VpcId=vpc)

        def is_attached() -> bool | None:
            attachments = (self._describe(aws, id) or {}).get("Attachments") or []
            return True if any(a["VpcId"] == vpc and a["State"] in ("available", "attached") for a in attachments) else None

        aws.wait(f"EC2 Internet Gateway ({id}) attach", is_attached, timeout=INTERNET_GATEWAY_TIMEOUT)

    def _detach(self, aws: Aws, id: str, state: State) -> None:
        """Detach the gateway. EC2 rejects the request while public addresses are mapped to resources in the VPC."""
        if not (vpc := state.get("vpcId")):
            return
        ec2 = aws.client("ec2")
        with ignore_gone("Gateway.NotAttached", "InvalidInternetGatewayID.NotFound", "InvalidVpcID.NotFound"):
            retry(
                aws,
                f"EC2 Internet Gateway ({id}) detach",
                partial(ec2.detach_internet_gateway, InternetGatewayId=id, VpcId=vpc),
                "DependencyViolation",
                timeout=INTERNET_GATEWAY_TIMEOUT,
            )

    @staticmethod
    def _describe(aws: Aws, id: str) -> dict[str, Any] | None:
        ec2 = aws.client("ec2")
        return find_first(
            lambda: ec2.describe_internet_gateways(InternetGatewayIds=[id])["InternetGateways"],
            "InvalidInternetGatewayID.NotFound",
        )


@register
class Eip(Resource):
    token = "aws:ec2/eip:Eip"
    title = "EC2 EIP"
    ATTACHED_TO = {"instance": "InstanceId", "networkInterface": "NetworkInterfaceId"}
    OUTPUTS = {
        **ATTACHED_TO,
        "domain": "Domain",
        "networkBorderGroup": "NetworkBorderGroup",
        "publicIpv4Pool": "PublicIpv4Pool",
        "allocationId": "AllocationId",
        "associationId": "AssociationId",
        "privateIp": "PrivateIpAddress",
        "publicIp": "PublicIp",
    }
    props = {
        "domain": Prop(replace=True),
        **dict.fromkeys(ATTACHED_TO, Prop()),
        "associateWithPrivateIp": Prop(write_only=True),
        **TAGS,
    }

    def create(self, aws: Aws, args: Args) -> str:
        request = to_request(args, {"domain": "Domain"})
        address = aws.client("ec2").allocate_address(**request, TagSpecifications=build_tag_specification("elastic-ip", args))
        id = str(address["AllocationId"])
        with report_partial_creation(id):
            self._associate(aws, id, args)
        return id

    def read(self, aws: Aws, id: str, recorded: State) -> State | None:
        address = self._describe(aws, id)
        if address is None:
            return None
        private, public = address.get("PrivateIpAddress"), address.get("PublicIp")
        described = aws.client("ec2").describe_addresses_attribute(AllocationIds=[id], Attribute="domain-name")["Addresses"]
        return {
            **to_state(address, self.OUTPUTS),
            **to_state(described[0] if described else {}, {"ptrRecord": "PtrRecord"}),
            **parse_tags(address.get("Tags")),
            "arn": build_ec2_arn(aws, f"elastic-ip/{id}"),
            **({"privateDns": build_private_dns_name(aws.region, private)} if private else {}),
            **({"publicDns": build_public_dns_name(aws.region, public)} if public else {}),
        }

    def update(self, aws: Aws, id: str, old: State, new: Args, changed: frozenset[str]) -> None:
        if changed & {*self.ATTACHED_TO, "associateWithPrivateIp"}:
            self._disassociate(aws, old)
            self._associate(aws, id, new)
        if "tags" in changed:
            update_tags(aws, id, old, new)

    def delete(self, aws: Aws, id: str, state: State) -> None:
        self._disassociate(aws, state)
        with ignore_gone("InvalidAllocationID.NotFound"):
            aws.client("ec2").release_address(AllocationId=id)

    def _associate(self, aws: Aws, id: str, args: Args) -> None:
        target = to_request(args, {**self.ATTACHED_TO, "associateWithPrivateIp": "PrivateIpAddress"})
        if not target.keys() & set(self.ATTACHED_TO.values()):
            return
        ec2 = aws.client("ec2")
        # EC2 refuses to associate an address with a pending instance.
        transient = ("InvalidAllocationID.NotFound", "InvalidInstanceID")
        associate = partial(ec2.associate_address, AllocationId=id, **target)
        retry(aws, f"EC2 EIP ({id}) association", associate, *transient, timeout=ADDRESS_TIMEOUT)

    @staticmethod
    def _disassociate(aws: Aws, state: State) -> None:
        if association := state.get("associationId"):
            with ignore_gone("InvalidAssociationID.NotFound"):
                aws.client("ec2").disassociate_address(AssociationId=association)

    @staticmethod
    def _describe(aws: Aws, id: str) -> dict[str, Any] | None:
        return find_first(
            lambda: aws.client("ec2").describe_addresses(AllocationIds=[id])["Addresses"], "InvalidAllocationID.NotFound"
        )


def build_private_dns_name(region: str, address: str) -> str:
    """Return the private DNS name of an IP address: https://docs.aws.amazon.com/vpc/latest/userguide/vpc-dns.html"""
    return f"ip-{address.replace('.', '-')}.{'ec2' if region == 'us-east-1' else f'{region}.compute'}.internal"


def build_public_dns_name(region: str, address: str) -> str:
    """Return the public DNS name of an IP address: https://docs.aws.amazon.com/vpc/latest/userguide/vpc-dns.html"""
    return f"ec2-{address.replace('.', '-')}.{'compute-1' if region == 'us-east-1' else f'{region}.compute'}.amazonaws.com"


@register
class NatGateway(Resource):
    token = "aws:ec2/natGateway:NatGateway"
    title = "EC2 NAT Gateway"
    CREATE_NAMES = {
        "subnetId": "SubnetId",
        "allocationId": "AllocationId",
        "connectivityType": "ConnectivityType",
        "privateIp": "PrivateIpAddress",
    }
    ADDRESS = {
        "allocationId": "AllocationId",
        "associationId": "AssociationId",
        "networkInterfaceId": "NetworkInterfaceId",
        "privateIp": "PrivateIp",
        "publicIp": "PublicIp",
    }
    props = {
        "subnetId": Prop(replace=True),
        "allocationId": Prop(replace=True),
        "connectivityType": Prop(replace=True, default="public"),
        "privateIp": Prop(replace=True),
        **TAGS,
    }

    def create(self, aws: Aws, args: Args) -> str:
        request = {"ConnectivityType": "public", **to_request(args, self.CREATE_NAMES)}
        gateway = aws.client("ec2").create_nat_gateway(
            ClientToken=generate_client_token(), **request, TagSpecifications=build_tag_specification("natgateway", args)
        )["NatGateway"]
        id = str(gateway["NatGatewayId"])
        with report_partial_creation(id):
            aws.wait(f"EC2 NAT Gateway ({id}) create", lambda: self._describe_if_available(aws, id), timeout=NAT_CREATED)
        return id

    def read(self, aws: Aws, id: str, recorded: State) -> State | None:
        gateway = self._describe(aws, id)
        if gateway is None:
            return None
        addresses = gateway.get("NatGatewayAddresses") or [{}]
        primary = next((address for address in addresses if address.get("IsPrimary")), addresses[0])
        return {
            **to_state(gateway, {"subnetId": "SubnetId", "connectivityType": "ConnectivityType"}),
            **to_state(primary, self.ADDRESS),
            **parse_tags(gateway.get("Tags")),
        }

    def update(self, aws: Aws, id: str, old: State, new: Args, changed: frozenset[str]) -> None:
        if "tags" in changed:
            update_tags(aws, id, old, new)

    def delete(self, aws: Aws, id: str, state: State) -> None:
        with ignore_gone("NatGatewayNotFound"):
            aws.client("ec2").delete_nat_gateway(NatGatewayId=id)
            wait_until_gone(aws, f"EC2 NAT Gateway ({id})", partial(self._describe, aws, id), timeout=NAT_DELETED)

    @staticmethod
    def _describe(aws: Aws, id: str) -> dict[str, Any] | None:
        """Return the gateway, or None if it is deleted. EC2 still lists deleted gateways for an hour."""
        gateway = find_first(
            lambda: aws.client("ec2").describe_nat_gateways(NatGatewayIds=[id])["NatGateways"], "NatGatewayNotFound"
        )
        return None if gateway is None or gateway["State"] == "deleted" else gateway

    def _describe_if_available(self, aws: Aws, id: str) -> dict[str, Any] | None:
        gateway = self._describe(aws, id)
        if gateway and gateway["State"] == "failed":
            reason = f"{gateway.get('FailureCode', '')}: {gateway.get('FailureMessage', '')}"
            raise Failed(f"waiting for EC2 NAT Gateway ({id}) create: unexpected state 'failed': {reason}")
        return gateway if gateway and gateway["State"] == "available" else None
