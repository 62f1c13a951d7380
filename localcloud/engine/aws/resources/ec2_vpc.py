"""VPCs and their subnets."""

from functools import partial
from typing import Any

from localcloud.engine.aws.resource import Args, Aws, Prop, Resource, State, register
from localcloud.engine.aws.resources.ec2_tags import TAGS, build_tag_specification, parse_tags, update_tags
from localcloud.engine.aws.resources.requests import (
    MINUTE,
    build_ec2_arn,
    describe_network_interfaces,
    find_first,
    ignore_gone,
    report_partial_creation,
    retry,
    to_request,
    to_state,
)

VPC_TIMEOUT = 10 * MINUTE
SUBNET_CREATED = 10 * MINUTE
SUBNET_DELETED = 20 * MINUTE


@register
class Vpc(Resource):
    token = "aws:ec2/vpc:Vpc"
    title = "EC2 VPC"
    CREATE_NAMES = {"cidrBlock": "CidrBlock", "instanceTenancy": "InstanceTenancy"}
    ATTRIBUTES = {
        "enableDnsSupport": "EnableDnsSupport",
        "enableDnsHostnames": "EnableDnsHostnames",
        "enableNetworkAddressUsageMetrics": "EnableNetworkAddressUsageMetrics",
    }
    OUTPUTS = {**CREATE_NAMES, "dhcpOptionsId": "DhcpOptionsId", "ownerId": "OwnerId"}
    props = {
        "cidrBlock": Prop(replace=True),
        "instanceTenancy": Prop(replace=True, default="default"),
        "enableDnsSupport": Prop(default=True),
        "enableDnsHostnames": Prop(),
        "enableNetworkAddressUsageMetrics": Prop(),
        **TAGS,
    }

    def create(self, aws: Aws, args: Args) -> str:
        request = to_request(args, self.CREATE_NAMES)
        vpc = aws.client("ec2").create_vpc(**request, TagSpecifications=build_tag_specification("vpc", args))["Vpc"]
        id = str(vpc["VpcId"])
        with report_partial_creation(id):
            aws.wait(f"EC2 VPC ({id}) create", lambda: self._describe_if_available(aws, id), timeout=VPC_TIMEOUT)
            self._set_attributes(aws, id, args, frozenset(self.ATTRIBUTES))
        return id

    def read(self, aws: Aws, id: str, recorded: State) -> State | None:
        vpc = self._describe(aws, id)
        if vpc is None:
            return None
        ec2 = aws.client("ec2")
        in_vpc = [{"Name": "vpc-id", "Values": [id]}]
        tables = ec2.describe_route_tables(Filters=[*in_vpc, {"Name": "association.main", "Values": ["true"]}])["RouteTables"]
        acls = ec2.describe_network_acls(Filters=[*in_vpc, {"Name": "default", "Values": ["true"]}])["NetworkAcls"]
        groups = ec2.describe_security_groups(Filters=[*in_vpc, {"Name": "group-name", "Values": ["default"]}])["SecurityGroups"]
        main_table = tables[0]["RouteTableId"] if tables else ""
        return {
            **to_state(vpc, self.OUTPUTS),
            **{name: self._read_attribute(aws, id, theirs) for name, theirs in self.ATTRIBUTES.items()},
            **parse_tags(vpc.get("Tags")),
            "arn": build_ec2_arn(aws, f"vpc/{id}", vpc["OwnerId"]),
            "mainRouteTableId": main_table,
            "defaultRouteTableId": main_table,
            "defaultNetworkAclId": acls[0]["NetworkAclId"] if acls else "",
            "defaultSecurityGroupId": groups[0]["GroupId"] if groups else "",
        }

    def update(self, aws: Aws, id: str, old: State, new: Args, changed: frozenset[str]) -> None:
        self._set_attributes(aws, id, new, changed)
        if "instanceTenancy" in changed:
            aws.client("ec2").modify_vpc_tenancy(VpcId=id, InstanceTenancy=new.get("instanceTenancy", "default"))
        if "tags" in changed:
            update_tags(aws, id, old, new)

    def delete(self, aws: Aws, id: str, state: State) -> None:
        ec2 = aws.client("ec2")
        with ignore_gone("InvalidVpcID.NotFound"):
            delete = partial(ec2.delete_vpc, VpcId=id)
            retry(aws, f"EC2 VPC ({id}) delete", delete, "DependencyViolation", timeout=VPC_TIMEOUT)

    def _set_attributes(self, aws: Aws, id: str, args: Args, names: frozenset[str]) -> None:
        """Set the VPC attributes in separate requests, as EC2 requires. DNS hostnames require DNS support, so set DNS
        support first."""
        for name, theirs in self.ATTRIBUTES.items():
            new_value = args.get(name, self.props[name].default)
            if name in names and new_value is not None and (new_value or name in args):
                aws.client("ec2").modify_vpc_attribute(VpcId=id, **{theirs: {"Value": new_value}})

    @staticmethod
    def _read_attribute(aws: Aws, id: str, name: str) -> bool:
        attribute = name[0].lower() + name[1:]
        return bool(aws.client("ec2").describe_vpc_attribute(VpcId=id, Attribute=attribute)[name]["Value"])

    @staticmethod
    def _describe(aws: Aws, id: str) -> dict[str, Any] | None:
        return find_first(lambda: aws.client("ec2").describe_vpcs(VpcIds=[id])["Vpcs"], "InvalidVpcID.NotFound")

    def _describe_if_available(self, aws: Aws, id: str) -> dict[str, Any] | None:
        vpc = self._describe(aws, id)
        return vpc if vpc and vpc["State"] == "available" else None


@register
class Subnet(Resource):
    token = "aws:ec2/subnet:Subnet"
    title = "EC2 Subnet"
    CREATE_NAMES = {
        "vpcId": "VpcId",
        "cidrBlock": "CidrBlock",
        "availabilityZone": "AvailabilityZone",
        "availabilityZoneId": "AvailabilityZoneId",
    }
    props = {
        "vpcId": Prop(replace=True),
        "cidrBlock": Prop(replace=True),
        "availabilityZone": Prop(replace=True),
        "availabilityZoneId": Prop(replace=True),
        "mapPublicIpOnLaunch": Prop(default=False),
        "enableResourceNameDnsARecordOnLaunch": Prop(default=False),
        **TAGS,
    }

    def create(self, aws: Aws, args: Args) -> str:
        request = to_request(args, self.CREATE_NAMES)
        subnet = aws.client("ec2").create_subnet(**request, TagSpecifications=build_tag_specification("subnet", args))["Subnet"]
        id = str(subnet["SubnetId"])
        with report_partial_creation(id):
            available = aws.wait(
                f"EC2 Subnet ({id}) create", lambda: self._describe_if_available(aws, id), timeout=SUBNET_CREATED
            )
            actual = self._parse_attributes(available)
            self._set_attributes(aws, id, args, frozenset(name for name in actual if actual[name] != bool(args.get(name))))
        return id

    def read(self, aws: Aws, id: str, recorded: State) -> State | None:
        subnet = self._describe(aws, id)
        if subnet is None:
            return None
        return {
            **to_state(subnet, {**self.CREATE_NAMES, "ownerId": "OwnerId"}),
            **parse_tags(subnet.get("Tags")),
            "arn": build_ec2_arn(aws, f"subnet/{id}", subnet["OwnerId"]),
            **self._parse_attributes(subnet),
        }

    def update(self, aws: Aws, id: str, old: State, new: Args, changed: frozenset[str]) -> None:
        self._set_attributes(aws, id, new, changed)
        if "tags" in changed:
            update_tags(aws, id, old, new)

    def delete(self, aws: Aws, id: str, state: State) -> None:
        ec2 = aws.client("ec2")
        describe_network_interfaces(aws, "subnet-id", id)
        with ignore_gone("InvalidSubnetID.NotFound"):
            delete = partial(ec2.delete_subnet, SubnetId=id)
            retry(aws, f"EC2 Subnet ({id}) delete", delete, "DependencyViolation", timeout=SUBNET_DELETED)

    def _set_attributes(self, aws: Aws, id: str, args: Args, names: frozenset[str]) -> None:
        """Set the subnet attributes in separate requests, as EC2 requires:
        https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_ModifySubnetAttribute.html"""
        ec2 = aws.client("ec2")
        if "mapPublicIpOnLaunch" in names:
            ec2.modify_subnet_attribute(SubnetId=id, MapPublicIpOnLaunch={"Value": bool(args.get("mapPublicIpOnLaunch"))})
        if "enableResourceNameDnsARecordOnLaunch" in names:
            adds_record = bool(args.get("enableResourceNameDnsARecordOnLaunch"))
            ec2.modify_subnet_attribute(SubnetId=id, EnableResourceNameDnsARecordOnLaunch={"Value": adds_record})

    @staticmethod
    def _parse_attributes(subnet: dict[str, Any]) -> dict[str, bool]:
        dns = subnet.get("PrivateDnsNameOptionsOnLaunch") or {}
        return {
            "mapPublicIpOnLaunch": bool(subnet.get("MapPublicIpOnLaunch")),
            "enableResourceNameDnsARecordOnLaunch": bool(dns.get("EnableResourceNameDnsARecord")),
        }

    @staticmethod
    def _describe(aws: Aws, id: str) -> dict[str, Any] | None:
        return find_first(lambda: aws.client("ec2").describe_subnets(SubnetIds=[id])["Subnets"], "InvalidSubnetID.NotFound")

    def _describe_if_available(self, aws: Aws, id: str) -> dict[str, Any] | None:
        subnet = self._describe(aws, id)
        return subnet if subnet and subnet["State"] == "available" else None
