"""Nodes of a private cluster need every VPC endpoint. Each test breaks and restores the shared environment."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError
from moto import mock_aws

from localcloud.aws.account import ACCOUNT
from localcloud.aws.eks import joining
from localcloud.kubernetes.pod_identity import credentials
from localcloud.kubernetes.pod_identity.credentials import CredentialsRefused, Pod
from testkit.aws_clients import REGION, client
from testkit.eks_world import NODE_ACTIONS, World, list_health_issues, make_allow_policy
from testkit.routes import ANYWHERE

HTTPS = {"IpProtocol": "tcp", "FromPort": 443, "ToPort": 443}
NOT_REGISTERED = "Instances failed to join the kubernetes cluster: "
NOT_READY = "Unhealthy nodes in the kubernetes cluster: "
INTERFACES = ("ec2", "ecr.api", "ecr.dkr", "eks-auth", "sts")
HOSTS = {
    "ec2": "ec2.us-west-2.amazonaws.com",
    "ecr.api": "api.ecr.us-west-2.amazonaws.com",
    "ecr.dkr": "602401143452.dkr.ecr.us-west-2.amazonaws.com",
    "eks-auth": "eks-auth.us-west-2.api.aws",
    "s3": "prod-us-west-2-starport-layer-bucket.s3.us-west-2.amazonaws.com",
}
FROM_VPC = [{**HTTPS, "IpRanges": [{"CidrIp": "10.0.0.0/16"}]}]


class Private(World):
    """A cluster with a private API endpoint. The cluster's VPC reaches AWS only through VPC endpoints."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.ec2.delete_route(RouteTableId=self.routes.main_table, DestinationCidrBlock=ANYWHERE)
        self.endpoint_group = self.security_group(name="endpoints")
        self.ec2.authorize_security_group_ingress(GroupId=self.endpoint_group, IpPermissions=FROM_VPC)
        self.endpoints = {service: self.endpoint(service) for service in (*INTERFACES, "s3")}
        self.cluster(vpc={"endpointPublicAccess": False}, bootstrapSelfManagedAddons=False)
        self.client("iam").put_role_policy(
            RoleName="pod", PolicyName="cni", PolicyDocument=make_allow_policy("ec2:AssignPrivateIpAddresses")
        )
        association = {"serviceAccount": "aws-node", "roleArn": self.pod_role}
        self.eks.create_addon(clusterName="demo", addonName="vpc-cni", podIdentityAssociations=[association])
        self.eks.create_addon(clusterName="demo", addonName="eks-pod-identity-agent")

    def endpoint(self, service: str) -> str:
        kind: dict[str, Any] = {"RouteTableIds": [self.routes.main_table]}
        if service != "s3":
            groups = {"SubnetIds": self.subnets, "SecurityGroupIds": [self.endpoint_group]}
            kind = {"VpcEndpointType": "Interface", "PrivateDnsEnabled": True, **groups}
        name = f"com.amazonaws.{REGION}.{service}"
        return str(self.ec2.create_vpc_endpoint(VpcId=self.vpc, ServiceName=name, **kind)["VpcEndpoint"]["VpcEndpointId"])

    def remove(self, *services: str) -> Callable[[], None]:
        """Delete VPC endpoints. Return a function that recreates these endpoints."""
        self.ec2.delete_vpc_endpoints(VpcEndpointIds=[self.endpoints[service] for service in services])

        def restore() -> None:
            self.endpoints.update({service: self.endpoint(service) for service in services})
            self.ec2.describe_vpc_endpoints()  # any request applies state changes that are due: pending becomes available

        return restore

    def add_nat_route(self) -> None:
        routes = self.routes
        self.ec2.create_route(RouteTableId=routes.main_table, DestinationCidrBlock=ANYWHERE, NatGatewayId=routes.nat_gateway)

    def remove_nat_route(self) -> None:
        self.ec2.delete_route(RouteTableId=self.routes.main_table, DestinationCidrBlock=ANYWHERE)

    def problem(self) -> str:
        """Create and delete a node group. Return the message of the node group's only health issue, or "" if the node
        group became ACTIVE.
        """
        group = self.node_group()
        self.eks.delete_nodegroup(clusterName="demo", nodegroupName="workers")
        if group["status"] == "ACTIVE":
            return ""
        [(code, message)] = list_health_issues(group)
        assert (group["status"], code) == ("CREATE_FAILED", "NodeCreationFailure")
        return message


@pytest.fixture(scope="module")
def shared_private_vpc() -> Iterator[Private]:
    with mock_aws():
        yield Private(client)


@pytest.fixture
def private_vpc(shared_private_vpc: Private) -> Iterator[Private]:
    """The shared environment. Check after each test that nodes can still join."""
    yield shared_private_vpc
    assert shared_private_vpc.problem() == "", "the test did not restore the environment"


def set_dns(world: Private, attribute: str, value: bool) -> None:
    world.ec2.modify_vpc_attribute(VpcId=world.vpc, **{attribute: {"Value": value}})


Restore = Callable[[], object]


def remove_ingress(world: Private) -> Restore:
    world.ec2.revoke_security_group_ingress(GroupId=world.endpoint_group, IpPermissions=FROM_VPC)
    return lambda: world.ec2.authorize_security_group_ingress(GroupId=world.endpoint_group, IpPermissions=FROM_VPC)


def disable_private_dns(world: Private) -> Restore:
    world.ec2.modify_vpc_endpoint(VpcEndpointId=world.endpoints["ec2"], PrivateDnsEnabled=False)
    return lambda: world.ec2.modify_vpc_endpoint(VpcEndpointId=world.endpoints["ec2"], PrivateDnsEnabled=True)


def disable_dns_support(world: Private) -> Restore:
    set_dns(world, "EnableDnsSupport", False)
    return lambda: set_dns(world, "EnableDnsSupport", True)


def disable_dns_hostnames(world: Private) -> Restore:
    set_dns(world, "EnableDnsHostnames", False)
    return lambda: set_dns(world, "EnableDnsHostnames", True)


def deny_image_layers(world: Private) -> Restore:
    endpoint = world.endpoints["s3"]
    statement = {"Effect": "Allow", "Principal": "*", "Action": "s3:*", "Resource": "arn:aws:s3:::mine/*"}
    document = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    world.ec2.modify_vpc_endpoint(VpcEndpointId=endpoint, PolicyDocument=document)
    return lambda: world.ec2.modify_vpc_endpoint(VpcEndpointId=endpoint, ResetPolicy=True)


def remove_agent(world: Private) -> Restore:
    world.eks.delete_addon(clusterName="demo", addonName="eks-pod-identity-agent")
    return lambda: world.eks.create_addon(clusterName="demo", addonName="eks-pod-identity-agent")


def forbid_pod_credentials(world: Private) -> Restore:
    world.set_node_permissions(*(action for action in NODE_ACTIONS if not action.startswith("eks-auth:")))
    return lambda: world.set_node_permissions(*NODE_ACTIONS)


@pytest.mark.parametrize(
    ("service", "beginning"),
    [
        ("ec2", NOT_REGISTERED),
        ("ecr.api", f"{NOT_READY}aws-node and kube-proxy: ErrImagePull: no basic auth credentials: "),
        ("ecr.dkr", f"{NOT_READY}aws-node and kube-proxy: ErrImagePull: "),
        ("s3", f"{NOT_READY}aws-node and kube-proxy: ErrImagePull: "),
        ("eks-auth", f"{NOT_READY}aws-node: "),
    ],
)
def test_a_missing_endpoint_prevents_nodes_from_joining_and_is_named(private_vpc: Private, service: str, beginning: str) -> None:
    restore = private_vpc.remove(service)
    problem = private_vpc.problem()
    restore()
    subnet = private_vpc.subnets[0]
    assert problem == (
        f"{beginning}{HOSTS[service]} cannot be reached from {subnet}: {private_vpc.vpc} has no endpoint for {service}, "
        f"and {subnet} has no route to the internet"
    )


@pytest.mark.parametrize(
    ("breaks", "reason"),
    [
        (remove_ingress, "do not allow ingress from the node on port 443"),
        (disable_private_dns, "private DNS names are disabled for "),
        (disable_dns_hostnames, "does not enable DNS support and DNS hostnames"),
        (disable_dns_support, "DNS support is disabled in "),
        (deny_image_layers, "does not allow s3:GetObject on arn:aws:s3:::prod-us-west-2-starport-layer-bucket/layer"),
        (remove_agent, "no credentials; the add-on eks-pod-identity-agent is not installed"),
        (forbid_pod_credentials, "may not call eks-auth:AssumeRoleForPodIdentity; attach AmazonEKSWorkerNodePolicy"),
    ],
)
def test_an_unusable_endpoint_prevents_nodes_from_joining(
    private_vpc: Private, breaks: Callable[[Private], Restore], reason: str
) -> None:
    restore = breaks(private_vpc)
    problem = private_vpc.problem()
    restore()
    assert reason in problem


def test_sts_is_required_only_if_the_vpc_cni_has_a_role_for_service_accounts(private_vpc: Private) -> None:
    restore = private_vpc.remove("sts")
    assert private_vpc.problem() == ""
    role = private_vpc.pod_role
    private_vpc.eks.update_addon(clusterName="demo", addonName="vpc-cni", serviceAccountRoleArn=role, podIdentityAssociations=[])
    assert "aws-node: sts.us-west-2.amazonaws.com cannot be reached" in private_vpc.problem()
    restore()
    association = {"serviceAccount": "aws-node", "roleArn": role}
    private_vpc.eks.update_addon(clusterName="demo", addonName="vpc-cni", podIdentityAssociations=[association])


def test_a_nat_gateway_makes_all_endpoints_unnecessary(private_vpc: Private) -> None:
    restore = private_vpc.remove(*private_vpc.endpoints)
    private_vpc.add_nat_route()
    assert private_vpc.problem() == ""
    restore()
    private_vpc.remove_nat_route()


def test_an_endpoint_that_blocks_the_node_is_not_bypassed_through_a_nat_gateway(private_vpc: Private) -> None:
    private_vpc.add_nat_route()
    restore = remove_ingress(private_vpc)
    assert "do not allow ingress from the node" in private_vpc.problem()
    restore()
    private_vpc.remove_nat_route()


@pytest.fixture
def node(private_vpc: Private) -> Iterator[dict[str, Any]]:
    """Create a node group for the test, and yield its instance."""
    yield private_vpc.instances(private_vpc.node_group("kept"))[0]
    private_vpc.eks.delete_nodegroup(clusterName="demo", nodegroupName="kept")


def get_pod_credentials(node: dict[str, Any]) -> dict[str, str]:
    """Return the credentials of a VPC CNI pod on the node."""
    pod = Pod("kube-system", "aws-node", "aws-node-1", "uid", node["PrivateDnsName"])
    return credentials.assume_pod_role(ACCOUNT, REGION, "demo", pod)


def test_pods_can_call_only_services_reachable_from_their_node(private_vpc: Private, node: dict[str, Any]) -> None:
    sts = private_vpc.create_session_client("sts", get_pod_credentials(node))
    assert sts.get_caller_identity()["Account"] == ACCOUNT
    restore = private_vpc.remove("sts")
    with pytest.raises(ClientError, match="Connect timeout on endpoint URL") as refused:
        sts.get_caller_identity()
    assert refused.value.response["Error"]["Code"] == "UnreachableInLocalCloud"
    assert '"https://sts.us-west-2.amazonaws.com/"' in refused.value.response["Error"]["Message"]
    restore()
    assert sts.get_caller_identity()["Account"] == ACCOUNT


def test_pods_get_no_credentials_without_a_route_to_eks_auth(private_vpc: Private, node: dict[str, Any]) -> None:
    restore = private_vpc.remove("eks-auth")
    with pytest.raises(CredentialsRefused, match=r"eks-auth\.us-west-2\.api\.aws cannot be reached"):
        get_pod_credentials(node)
    restore()
    assert get_pod_credentials(node)


def test_nodes_can_pull_only_from_reachable_registries(private_vpc: Private, node: dict[str, Any]) -> None:
    own, address = f"{ACCOUNT}.dkr.ecr.{REGION}.amazonaws.com", node["PrivateIpAddress"]
    cluster = joining.find_cluster(ACCOUNT, REGION, "demo")
    assert cluster is not None

    def find_pull_problem(registry: str, *, is_layer: bool = False, client: str = address) -> str:
        return joining.find_pull_problem(cluster, client, registry, is_layer=is_layer)

    assert (find_pull_problem(own), find_pull_problem(own, is_layer=True)) == ("", "")
    for registry in ("registry.k8s.io", f"{ACCOUNT}.dkr.ecr.eu-west-1.amazonaws.com"):
        assert find_pull_problem(registry).startswith(f"{registry} cannot be reached from ")
    assert find_pull_problem("registry.k8s.io", client="10.0.0.250") == "", "the client is not a node"
    for service, named, is_layer in (("ecr.api", HOSTS["ecr.api"], False), ("ecr.dkr", own, False), ("s3", HOSTS["s3"], True)):
        restore = private_vpc.remove(service)
        assert f"{named} cannot be reached" in find_pull_problem(own, is_layer=is_layer)
        restore()
