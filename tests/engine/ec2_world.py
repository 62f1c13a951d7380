"""Environment for EC2 handlers: an empty account in the local AWS, and the resources on which each type depends."""

import json
from collections.abc import Iterator
from contextlib import suppress
from functools import cached_property
from typing import Any

import pytest
from moto import mock_aws
from moto.backends import get_backend

from localcloud.aws import extend, faults
from localcloud.engine.aws import lifecycle, resources  # noqa: F401  the import registers the handlers
from localcloud.engine.aws.resource import RESOURCES, Args, Aws
from tests.engine.life import Life

extend.extend_moto()

REGION = "us-west-2"
ACCOUNT = "123456789012"
VPC = "aws:ec2/vpc:Vpc"
SUBNET = "aws:ec2/subnet:Subnet"
INTERNET_GATEWAY = "aws:ec2/internetGateway:InternetGateway"
EIP = "aws:ec2/eip:Eip"
NAT_GATEWAY = "aws:ec2/natGateway:NatGateway"
ROUTE_TABLE = "aws:ec2/routeTable:RouteTable"
ROUTE = "aws:ec2/route:Route"
ROUTE_TABLE_ASSOCIATION = "aws:ec2/routeTableAssociation:RouteTableAssociation"
VPC_ENDPOINT = "aws:ec2/vpcEndpoint:VpcEndpoint"
FLOW_LOG = "aws:ec2/flowLog:FlowLog"
DEFAULT_SECURITY_GROUP = "aws:ec2/defaultSecurityGroup:DefaultSecurityGroup"
SECURITY_GROUP = "aws:ec2/securityGroup:SecurityGroup"
PLACEMENT_GROUP = "aws:ec2/placementGroup:PlacementGroup"
LAUNCH_TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate"
INGRESS_RULE = "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule"
EGRESS_RULE = "aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule"
INSTANCE = "aws:ec2/instance:Instance"
AUTOSCALING_GROUP = "aws:autoscaling/group:Group"
AUTOSCALING_SCHEDULE = "aws:autoscaling/schedule:Schedule"
AUTOSCALING_TAG = "aws:autoscaling/tag:Tag"


class Thing(Life):
    """A program's resource, whose inputs tests change one at a time."""

    def merge_changes(self, **changes: Any) -> Args:
        return {name: value for name, value in {**self.program_inputs(), **changes}.items() if value is not None}

    def program_inputs(self) -> Args:
        """Return the program's inputs, without the name that Pulumi generated."""
        filled = self.inputs.get(lifecycle.DEFAULTS, ())
        return {name: value for name, value in super().program_inputs().items() if name not in filled}


class World:
    """Dependencies of the resource under test, each created on first use."""

    def __init__(self, aws: Aws) -> None:
        self.aws = aws
        self.ec2 = aws.client("ec2")

    def create(self, token: str, **inputs: Any) -> Thing:
        return Thing(RESOURCES[token], self.aws, inputs)

    @cached_property
    def vpc(self) -> str:
        return self.create(VPC, cidrBlock="10.0.0.0/16", enableDnsHostnames=True).id

    @cached_property
    def other_vpc(self) -> str:
        return self.create(VPC, cidrBlock="10.9.0.0/16").id

    @cached_property
    def subnet(self) -> str:
        return self.create(SUBNET, vpcId=self.vpc, cidrBlock="10.0.0.0/24", availabilityZone="us-west-2a").id

    @cached_property
    def other_subnet(self) -> str:
        return self.create(SUBNET, vpcId=self.vpc, cidrBlock="10.0.1.0/24", availabilityZone="us-west-2b").id

    @cached_property
    def internet_gateway(self) -> str:
        return self.create(INTERNET_GATEWAY, vpcId=self.vpc).id

    @cached_property
    def public_subnet(self) -> str:
        assert self.internet_gateway, "a NAT gateway fails without an internet gateway"
        return self.subnet

    @cached_property
    def address(self) -> str:
        return self.create(EIP, domain="vpc").id

    @cached_property
    def nat_gateway(self) -> str:
        return self.create(NAT_GATEWAY, subnetId=self.public_subnet, allocationId=self.address).id

    @cached_property
    def route_table(self) -> str:
        return self.create(ROUTE_TABLE, vpcId=self.vpc).id

    @cached_property
    def other_route_table(self) -> str:
        return self.create(ROUTE_TABLE, vpcId=self.vpc).id

    @cached_property
    def group(self) -> str:
        return self.create(SECURITY_GROUP, vpcId=self.vpc).id

    @cached_property
    def other_security_group(self) -> str:
        return self.create(SECURITY_GROUP, vpcId=self.vpc).id

    @cached_property
    def interface(self) -> str:
        answer = self.ec2.create_network_interface(SubnetId=self.subnet)
        return str(answer["NetworkInterface"]["NetworkInterfaceId"])

    @cached_property
    def prefix_list(self) -> str:
        answer = self.ec2.create_managed_prefix_list(PrefixListName="mine", MaxEntries=1, AddressFamily="IPv4", Entries=[])
        return str(answer["PrefixList"]["PrefixListId"])

    @cached_property
    def other_prefix_list(self) -> str:
        answer = self.ec2.create_managed_prefix_list(PrefixListName="other", MaxEntries=1, AddressFamily="IPv4", Entries=[])
        return str(answer["PrefixList"]["PrefixListId"])

    @cached_property
    def egress_only_gateway(self) -> str:
        answer = self.ec2.create_egress_only_internet_gateway(VpcId=self.vpc)
        return str(answer["EgressOnlyInternetGateway"]["EgressOnlyInternetGatewayId"])

    @cached_property
    def transit_gateway(self) -> str:
        return str(self.ec2.create_transit_gateway()["TransitGateway"]["TransitGatewayId"])

    @cached_property
    def peering(self) -> str:
        answer = self.ec2.create_vpc_peering_connection(VpcId=self.vpc, PeerVpcId=self.other_vpc)
        return str(answer["VpcPeeringConnection"]["VpcPeeringConnectionId"])

    @cached_property
    def role(self) -> str:
        trust = {"Effect": "Allow", "Principal": {"Service": "vpc-flow-logs.amazonaws.com"}, "Action": "sts:AssumeRole"}
        document = json.dumps({"Version": "2012-10-17", "Statement": [trust]})
        iam = self.aws.client("iam")
        with suppress(iam.exceptions.EntityAlreadyExistsException):
            iam.create_role(RoleName="flow-logs", AssumeRolePolicyDocument=document)
        return f"arn:aws:iam::{ACCOUNT}:role/flow-logs"

    @cached_property
    def log_group(self) -> str:
        self.aws.client("logs").create_log_group(logGroupName="flow-logs")
        return f"arn:aws:logs:{REGION}:{ACCOUNT}:log-group:flow-logs"

    @cached_property
    def bucket(self) -> str:
        self.aws.client("s3").create_bucket(Bucket="flow-logs", CreateBucketConfiguration={"LocationConstraint": REGION})
        return "arn:aws:s3:::flow-logs"

    @cached_property
    def image(self) -> str:
        filters = [{"Name": "architecture", "Values": ["x86_64"]}]
        return str(self.ec2.describe_images(Owners=["amazon"], Filters=filters)["Images"][0]["ImageId"])

    @cached_property
    def instance(self) -> str:
        request = {"MinCount": 1, "MaxCount": 1, "InstanceType": "m7i.large"}
        answer = self.ec2.run_instances(ImageId=self.image, SubnetId=self.subnet, **request)
        return str(answer["Instances"][0]["InstanceId"])

    @cached_property
    def launch_template(self) -> str:
        return self.create(LAUNCH_TEMPLATE, name="hosts", imageId=self.image, instanceType="m7i.large").id

    @cached_property
    def autoscaling_group(self) -> str:
        self.aws.client("autoscaling").create_auto_scaling_group(
            AutoScalingGroupName="nodes",
            LaunchTemplate={"LaunchTemplateId": self.launch_template},
            MinSize=0,
            MaxSize=0,
            VPCZoneIdentifier=self.subnet,
        )
        return "nodes"


@pytest.fixture(scope="module", name="ec2_account")
def shared_account() -> Iterator[Aws]:
    """One account for all tests in a module, because moto needs a second to load IAM's managed policies."""
    with mock_aws():
        yield Aws(REGION, endpoint=None, poll_seconds=0.001)


@pytest.fixture(name="ec2_world")
def empty_world(ec2_account: Aws) -> Iterator[World]:
    """An environment with only the account's default resources."""
    yield World(ec2_account)
    for service, region in (("ec2", REGION), ("autoscaling", REGION), ("logs", REGION), ("s3", "aws")):
        get_backend(service)[ACCOUNT][region].reset()  # type: ignore[call-overload]
    faults.clear_faults()
