"""Resources on which the test cases depend, each created with API calls on first use."""

import contextlib
import itertools
import json
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import pytest
from moto import mock_aws

from localcloud.aws import extend, quotas
from localcloud.aws.ec2.limits import INTERNET_GATEWAYS, VPCS
from localcloud.aws.eks.clusters import CLUSTERS
from localcloud.aws.iam import ROLES
from localcloud.engine.aws import resources  # noqa: F401  the import registers the handlers
from localcloud.engine.aws.resource import Aws
from testkit.routes import add_nat_gateway

extend.extend_moto()

REGION = "us-west-2"
_numbers = itertools.count(1)


@pytest.fixture(scope="module", name="account")
def module_account() -> Iterator[Aws]:
    """An account in this process's local AWS, one per module: moto takes a second to load IAM's managed policies."""
    with mock_aws():
        # The resources of all tests in a module accumulate, so default quotas would be too small.
        quotas.set_values(dict.fromkeys((VPCS, INTERNET_GATEWAYS, ROLES, CLUSTERS), 5000))
        yield Aws(REGION, endpoint=None, poll_seconds=0.001)


@pytest.fixture(name="world")
def new_world(account: Aws) -> "World":
    """Resources for a single test."""
    return World(account)


def make_trust_policy(*services: str) -> str:
    statement = {"Effect": "Allow", "Principal": {"Service": list(services)}, "Action": ["sts:AssumeRole", "sts:TagSession"]}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


def make_allow_policy(action: str, resource: str = "*") -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": action, "Resource": resource}]})


class World:
    def __init__(self, aws: Aws) -> None:
        self.aws = aws
        self.prefix = f"world-{next(_numbers)}"

    def name(self, name: str) -> str:
        """Return a name that no other environment uses."""
        return f"{self.prefix}-{name}"

    def client(self, service: str) -> Any:
        return self.aws.client(service)

    def ensure_role(self, name: str, *services: str) -> str:
        """Create a role that the services may assume, unless it already exists; return its ARN."""
        iam, unique = self.client("iam"), self.name(name)
        try:
            response = iam.create_role(RoleName=unique, AssumeRolePolicyDocument=make_trust_policy(*services))
        except iam.exceptions.EntityAlreadyExistsException:
            response = iam.get_role(RoleName=unique)
        return str(response["Role"]["Arn"])

    @cached_property
    def cluster_role(self) -> str:
        return self.ensure_role("cluster", "eks.amazonaws.com")

    @cached_property
    def node_role(self) -> str:
        arn = self.ensure_role("node", "ec2.amazonaws.com")
        for policy in ("AmazonEKSWorkerNodePolicy", "AmazonEC2ContainerRegistryPullOnly", "AmazonEKS_CNI_Policy"):
            self.client("iam").attach_role_policy(RoleName=self.name("node"), PolicyArn=f"arn:aws:iam::aws:policy/{policy}")
        return arn

    @cached_property
    def pod_role(self) -> str:
        return self.ensure_role("pod", "pods.eks.amazonaws.com")

    @cached_property
    def key(self) -> str:
        """ARN of a KMS key."""
        return str(self.client("kms").create_key()["KeyMetadata"]["Arn"])

    @cached_property
    def second_key(self) -> str:
        return str(self.client("kms").create_key()["KeyMetadata"]["Arn"])

    def create_logs_key(self, sid: str) -> str:
        """Create a KMS key that CloudWatch Logs may use; return its ARN."""
        principals = {"AWS": "arn:aws:iam::123456789012:root"}, {"Service": f"logs.{self.aws.region}.amazonaws.com"}
        statements = [{"Effect": "Allow", "Principal": principal, "Action": "kms:*", "Resource": "*"} for principal in principals]
        policy = {"Version": "2012-10-17", "Id": sid, "Statement": statements}
        return str(self.client("kms").create_key(Policy=json.dumps(policy))["KeyMetadata"]["Arn"])

    @cached_property
    def vpc(self) -> str:
        return str(self.client("ec2").create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"])

    @cached_property
    def subnets(self) -> list[str]:
        """Ids of private subnets in three zones."""
        ec2 = self.client("ec2")
        zones = [zone["ZoneName"] for zone in ec2.describe_availability_zones()["AvailabilityZones"][:3]]
        responses = [
            ec2.create_subnet(VpcId=self.vpc, CidrBlock=f"10.0.{place}.0/24", AvailabilityZone=zone)
            for place, zone in enumerate(zones)
        ]
        return [str(response["Subnet"]["SubnetId"]) for response in responses]

    @cached_property
    def second_subnet(self) -> str:
        """Id of a second subnet in the first zone."""
        ec2 = self.client("ec2")
        zone = ec2.describe_subnets(SubnetIds=self.subnets[:1])["Subnets"][0]["AvailabilityZone"]
        response = ec2.create_subnet(VpcId=self.vpc, CidrBlock="10.0.9.0/24", AvailabilityZone=zone)
        return str(response["Subnet"]["SubnetId"])

    @cached_property
    def groups(self) -> list[str]:
        """Two security groups."""
        ec2 = self.client("ec2")
        return [
            str(ec2.create_security_group(GroupName=self.name(name), Description=name, VpcId=self.vpc)["GroupId"])
            for name in ("one", "two")
        ]

    @cached_property
    def file_system(self) -> str:
        return self.create_file_system("shared")

    def create_file_system(self, token: str) -> str:
        return str(self.client("efs").create_file_system(CreationToken=self.name(token))["FileSystemId"])

    @cached_property
    def lustre_group(self) -> str:
        """Security group whose members can reach each other on the Lustre port."""
        ec2, group = self.client("ec2"), self.groups[0]
        rule = {"IpProtocol": "tcp", "FromPort": 988, "ToPort": 988, "UserIdGroupPairs": [{"GroupId": group}]}
        ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=[rule])
        return group

    @cached_property
    def lustre_file_system(self) -> str:
        response = self.client("fsx").create_file_system(
            FileSystemType="LUSTRE",
            StorageCapacity=1200,
            SubnetIds=self.subnets[:1],
            SecurityGroupIds=[self.lustre_group],
            FileSystemTypeVersion="2.15",
            LustreConfiguration={"DeploymentType": "SCRATCH_2"},
        )
        return str(response["FileSystem"]["FileSystemId"])

    @cached_property
    def bucket(self) -> str:
        return self.create_bucket("bucket")

    def create_bucket(self, name: str) -> str:
        constraint = {"LocationConstraint": self.aws.region}
        unique = self.name(name)
        self.client("s3").create_bucket(Bucket=unique, CreateBucketConfiguration=constraint)
        return unique

    @cached_property
    def cluster(self) -> str:
        """Name of a cluster that uses access entries and that nodes can join."""
        add_nat_gateway(self.client("ec2"), self.vpc, "10.0.255.0/24", f"{self.aws.region}a")
        self.client("eks").create_cluster(
            name=self.prefix,
            roleArn=self.cluster_role,
            version="1.34",
            resourcesVpcConfig={"subnetIds": self.subnets},
            accessConfig={"authenticationMode": "API"},
        )
        return self.prefix

    @cached_property
    def upgraded_version(self) -> str:
        """Kubernetes version after an upgrade; the first access to this property upgrades the cluster."""
        self.client("eks").update_cluster_version(name=self.cluster, version="1.35")
        return "1.35"

    @cached_property
    def release_version(self) -> str:
        """The AMI release version for the cluster's Kubernetes version."""
        path = "/aws/service/eks/optimized-ami/1.34/amazon-linux-2023/x86_64/standard/recommended/release_version"
        return str(self.client("ssm").get_parameter(Name=path)["Parameter"]["Value"])

    def ensure_access_entry(self, principal: str) -> None:
        eks = self.client("eks")
        with contextlib.suppress(eks.exceptions.ResourceInUseException):
            eks.create_access_entry(clusterName=self.cluster, principalArn=principal)

    @property
    def launch_template_name(self) -> str:
        ec2 = self.client("ec2")
        templates = ec2.describe_launch_templates(LaunchTemplateIds=[self.launch_template])["LaunchTemplates"]
        return str(templates[0]["LaunchTemplateName"])

    @cached_property
    def launch_template(self) -> str:
        """Id of a launch template with two versions."""
        ec2 = self.client("ec2")
        data = {"MetadataOptions": {"HttpTokens": "required"}}
        id = str(
            ec2.create_launch_template(LaunchTemplateName=self.prefix, LaunchTemplateData=data)["LaunchTemplate"][
                "LaunchTemplateId"
            ]
        )
        second = {"MetadataOptions": {"HttpTokens": "required", "HttpPutResponseHopLimit": 2}}
        ec2.create_launch_template_version(LaunchTemplateId=id, LaunchTemplateData=second)
        return id
