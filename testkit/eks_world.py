"""Prerequisites of a cluster (VPC, roles, key) and helpers that create clusters and node groups."""

import base64
import json
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from localcloud.aws import images
from testkit.aws_clients import REGION, Client
from testkit.routes import Routes, add_nat_gateway

ZONES = ("a", "b", "c")
DOCUMENT = dict[str, Any]
NODE_ACTIONS = (
    "ec2:AssignPrivateIpAddresses",
    "ec2:DescribeInstances",
    "ecr:BatchGetImage",
    "ecr:GetAuthorizationToken",
    "ecr:GetDownloadUrlForLayer",
    "eks-auth:AssumeRoleForPodIdentity",
)
"""The permissions that nodes need from AmazonEKSWorkerNodePolicy, AmazonEC2ContainerRegistryPullOnly and
AmazonEKS_CNI_Policy. Tests use an inline policy because moto takes a second to load IAM's managed policies.
"""
CLUSTER_DETAILS = {"name": "demo", "apiServerEndpoint": "https://x", "certificateAuthority": "Y2E=", "cidr": "172.20.0.0/16"}
"""The `spec.cluster` that a NodeConfig needs to join the cluster `demo`."""


def find_eks_ami(region: str = REGION) -> str:
    """Return the ID of the EKS AMI for Kubernetes 1.35."""
    return images.list_ssm_parameters(region)[
        "/aws/service/eks/optimized-ami/1.35/amazon-linux-2023/x86_64/standard/recommended/image_id"
    ]


def make_trust_policy(service: str, *actions: str) -> str:
    actions = actions or ("sts:AssumeRole",)
    statement = {"Effect": "Allow", "Principal": {"Service": service}, "Action": list(actions)}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


def make_allow_policy(*actions: str) -> str:
    statement = {"Effect": "Allow", "Action": list(actions), "Resource": "*"}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


@dataclass
class World:
    """A VPC with a NAT gateway and subnets in three zones, and IAM roles for the cluster, its nodes, its pods and an
    admin."""

    client: Client
    region: str = REGION
    vpc: str = ""
    subnets: list[str] = field(default_factory=list)
    cluster_role: str = ""
    node_role: str = ""
    pod_role: str = ""
    admin_role: str = ""
    routes: Routes = field(init=False)

    def __post_init__(self) -> None:
        ec2 = self.ec2
        self.vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
        for attribute in ("EnableDnsSupport", "EnableDnsHostnames"):
            ec2.modify_vpc_attribute(VpcId=self.vpc, **{attribute: {"Value": True}})
        self.subnets = [self.subnet(index, zone) for index, zone in enumerate(ZONES)]
        self.routes = add_nat_gateway(ec2, self.vpc, "10.0.255.0/24", f"{self.region}{ZONES[0]}")
        self.cluster_role = self.create_role("cluster", make_trust_policy("eks.amazonaws.com"))
        self.node_role = self.create_role("node", make_trust_policy("ec2.amazonaws.com"))
        self.set_node_permissions(*NODE_ACTIONS)
        self.pod_role = self.create_role("pod", make_trust_policy("pods.eks.amazonaws.com", "sts:AssumeRole", "sts:TagSession"))
        self.admin_role = self.create_role("admin", make_trust_policy("ec2.amazonaws.com"))

    @cached_property
    def eks(self) -> Any:
        return self.client("eks")

    @cached_property
    def ec2(self) -> Any:
        return self.client("ec2")

    @cached_property
    def autoscaling(self) -> Any:
        return self.client("autoscaling")

    def set_node_permissions(self, *actions: str) -> None:
        """Replace the permissions of the node role."""
        self.client("iam").put_role_policy(RoleName="node", PolicyName="joins", PolicyDocument=make_allow_policy(*actions))

    def create_session_client(self, service: str, keys: dict[str, str]) -> Any:
        """Return a client with the temporary credentials of a role session, such as a pod's session."""
        return self.client(
            service,
            aws_access_key_id=keys["AccessKeyId"],
            aws_secret_access_key=keys["SecretAccessKey"],
            aws_session_token=keys["Token"],
        )

    def subnet(self, index: int, zone: str, vpc: str | None = None, cidr: str | None = None) -> str:
        response = self.ec2.create_subnet(
            VpcId=vpc or self.vpc, CidrBlock=cidr or f"10.0.{index}.0/24", AvailabilityZone=f"{self.region}{zone}"
        )
        return str(response["Subnet"]["SubnetId"])

    def create_vpc(self, cidr: str = "10.9.0.0/16") -> str:
        return str(self.ec2.create_vpc(CidrBlock=cidr)["Vpc"]["VpcId"])

    def security_group(self, vpc: str | None = None, name: str = "extra") -> str:
        response = self.ec2.create_security_group(GroupName=name, Description="a group", VpcId=vpc or self.vpc)
        return str(response["GroupId"])

    def create_role(self, name: str, trust_policy: str) -> str:
        return str(self.client("iam").create_role(RoleName=name, AssumeRolePolicyDocument=trust_policy)["Role"]["Arn"])

    def key(self, **settings: Any) -> str:
        return str(self.client("kms").create_key(**settings)["KeyMetadata"]["Arn"])

    def cluster(self, name: str = "demo", vpc: DOCUMENT | None = None, **settings: Any) -> DOCUMENT:
        """Create a cluster; return it once it is ACTIVE."""
        self.eks.create_cluster(**self.build_cluster_request(name, vpc, **settings))
        return self.describe(name)

    def build_cluster_request(self, name: str = "demo", vpc: DOCUMENT | None = None, **settings: Any) -> DOCUMENT:
        request: DOCUMENT = {
            "name": name,
            "roleArn": self.cluster_role,
            "resourcesVpcConfig": {"subnetIds": self.subnets, "endpointPrivateAccess": True, **(vpc or {})},
            "accessConfig": {"authenticationMode": "API"},
        }
        return {key: value for key, value in {**request, **settings}.items() if value is not None}

    def describe(self, name: str = "demo") -> DOCUMENT:
        cluster: DOCUMENT = self.eks.describe_cluster(name=name)["cluster"]
        return cluster

    def build_node_group_request(self, name: str = "workers", cluster: str = "demo", **settings: Any) -> DOCUMENT:
        request: DOCUMENT = {
            "clusterName": cluster,
            "nodegroupName": name,
            "subnets": self.subnets[:1],
            "nodeRole": self.node_role,
            "scalingConfig": {"minSize": 0, "maxSize": 4, "desiredSize": 1},
        }
        return {key: value for key, value in {**request, **settings}.items() if value is not None}

    def node_group(self, name: str = "workers", cluster: str = "demo", **settings: Any) -> DOCUMENT:
        """Create a node group; return EKS's description of it."""
        self.eks.create_nodegroup(**self.build_node_group_request(name, cluster, **settings))
        return self.describe_node_group(name, cluster)

    def describe_node_group(self, name: str = "workers", cluster: str = "demo") -> DOCUMENT:
        group: DOCUMENT = self.eks.describe_nodegroup(clusterName=cluster, nodegroupName=name)["nodegroup"]
        return group

    def template(self, name: str = "user", **data: Any) -> DOCUMENT:
        """Create a launch template; return the reference that CreateNodegroup accepts."""
        data = data or {"EbsOptimized": True}
        launch_template = self.ec2.create_launch_template(LaunchTemplateName=name, LaunchTemplateData=data)["LaunchTemplate"]
        return {"id": launch_template["LaunchTemplateId"], "version": "1"}

    def instances(self, group: DOCUMENT) -> list[DOCUMENT]:
        """Return the instances of the node group's Auto Scaling group."""
        name = group["resources"]["autoScalingGroups"][0]["name"]
        groups = self.autoscaling.describe_auto_scaling_groups(AutoScalingGroupNames=[name])["AutoScalingGroups"]
        ids = [instance["InstanceId"] for each in groups for instance in each["Instances"]]
        if not ids:
            return []
        answer = self.ec2.describe_instances(InstanceIds=ids)["Reservations"]
        return [instance for reservation in answer for instance in reservation["Instances"]]

    def list_instance_ids(self) -> set[str]:
        return {instance["InstanceId"] for instance in self.instances(self.describe_node_group())}

    def auto_scaling_group(self) -> DOCUMENT:
        """Return the Auto Scaling group of the node group `workers`."""
        name = self.describe_node_group()["resources"]["autoScalingGroups"][0]["name"]
        group: DOCUMENT = self.autoscaling.describe_auto_scaling_groups(AutoScalingGroupNames=[name])["AutoScalingGroups"][0]
        return group

    def user_data(self, instance_id: str) -> str:
        answer = self.ec2.describe_instance_attribute(InstanceId=instance_id, Attribute="userData")
        return base64.b64decode(answer["UserData"]["Value"]).decode()

    def update_config(self, **change: Any) -> DOCUMENT:
        """Update the configuration of the node group `workers`; return the finished update."""
        return self._await_update(self.eks.update_nodegroup_config(clusterName="demo", nodegroupName="workers", **change))

    def update_version(self, **change: Any) -> DOCUMENT:
        """Update the version of the node group `workers`; return the finished update."""
        return self._await_update(self.eks.update_nodegroup_version(clusterName="demo", nodegroupName="workers", **change))

    def _await_update(self, answer: DOCUMENT) -> DOCUMENT:
        identifier = answer["update"]["id"]
        update: DOCUMENT = self.eks.describe_update(name="demo", nodegroupName="workers", updateId=identifier)["update"]
        return update


def list_health_issues(group: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the codes and messages of a node group's health issues."""
    return [(issue["code"], issue["message"]) for issue in group["health"]["issues"]]
