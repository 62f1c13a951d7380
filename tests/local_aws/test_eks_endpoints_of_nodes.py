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
from testkit.eks_world import NODE_ACTIONS, World, allow, issues
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
    """A cluster with a private API endpoint. Its VPC reaches AWS only through VPC endpoints."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.ec2.delete_route(RouteTableId=self.routes.main_table, DestinationCidrBlock=ANYWHERE)
        self.endpoint_group = self.security_group(name="endpoints")
        self.ec2.authorize_security_group_ingress(GroupId=self.endpoint_group, IpPermissions=FROM_VPC)
        self.endpoints = {service: self.endpoint(service) for service in (*INTERFACES, "s3")}
        self.cluster(vpc={"endpointPublicAccess": False}, bootstrapSelfManagedAddons=False)
        self.client("iam").put_role_policy(RoleName="pod", PolicyName="cni", PolicyDocument=allow("ec2:AssignPrivateIpAddresses"))
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
        """Delete VPC endpoints. Return a function that recreates them."""
        self.ec2.delete_vpc_endpoints(VpcEndpointIds=[self.endpoints[service] for service in services])

        def restore() -> None:
            self.endpoints.update({service: self.endpoint(service) for service in services})
            self.ec2.describe_vpc_endpoints()  # any request applies due state changes: pending becomes available

        return restore

    def add_nat_route(self) -> None:
        routes = self.routes
        self.ec2.create_route(RouteTableId=routes.main_table, DestinationCidrBlock=ANYWHERE, NatGatewayId=routes.nat_gateway)

    def remove_nat_route(self) -> None:
        self.ec2.delete_route(RouteTableId=self.routes.main_table, DestinationCidrBlock=ANYWHERE)

    def problem(self) -> str:
        """Create and delete a node group. Return the message of its only health issue, or "" if the node group became
        ACTIVE.
        """
        group = self.node_group()
        self.eks.delete_nodegroup(clusterName="demo", nodegroupName="workers")
        if group["status"] == "ACTIVE":
            return ""
        [(code, message)] = issues(group)
        assert (group["status"], code) == ("CREATE_FAILED", "NodeCreationFailure")
        return message


@pytest.fixture(scope="module")
def shared() -> Iterator[Private]:
    with mock_aws():
        yield Private(client)


@pytest.fixture
def private(shared: Private) -> Iterator[Private]:
    """The shared environment. Check after each test that nodes can still join."""
    yield shared
    assert shared.problem() == "", "the test did not restore the environment"


def set_dns(world: Private, attribute: str, value: bool) -> None:
    world.ec2.modify_vpc_attribute(VpcId=world.vpc, **{attribute: {"Value": value}})


Restore = Callable[[], object]


def remove_ingress(world: Private) -> Restore:
    world.ec2.revoke_security_group_ingress(GroupId=world.endpoint_group, IpPermissions=FROM_VPC)
    return lambda: world.ec2.authorize_security_group_ingress(GroupId=world.endpoint_group, IpPermissions=FROM_VPC)


def remove_private_name(world: Private) -> Restore:
    world.ec2.modify_vpc_endpoint(VpcEndpointId=world.endpoints["ec2"], PrivateDnsEnabled=False)
    return lambda: world.ec2.modify_vpc_endpoint(VpcEndpointId=world.endpoints["ec2"], PrivateDnsEnabled=True)


def disable_dns_support(world: Private) -> Restore:
    set_dns(world, "EnableDnsSupport", False)
    return lambda: set_dns(world, "EnableDnsSupport", True)


def disable_dns_hostnames(world: Private) -> Restore:
    set_dns(world, "EnableDnsHostnames", False)
    return lambda: set_dns(world, "EnableDnsHostnames", True)


def forbid_layers(world: Private) -> Restore:
    endpoint = world.endpoints["s3"]
    statement = {"Effect": "Allow", "Principal": "*", "Action": "s3:*", "Resource": "arn:aws:s3:::mine/*"}
    document = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    world.ec2.modify_vpc_endpoint(VpcEndpointId=endpoint, PolicyDocument=document)
    return lambda: world.ec2.modify_vpc_endpoint(VpcEndpointId=endpoint, ResetPolicy=True)


def remove_agent(world: Private) -> Restore:
    world.eks.delete_addon(clusterName="demo", addonName="eks-pod-identity-agent")
    return lambda: world.eks.create_addon(clusterName="demo", addonName="eks-pod-identity-agent")


def forbid_pod_credentials(world: Private) -> Restore:
    world.permit_node(*(action for action in NODE_ACTIONS if not action.startswith("eks-auth:")))
    return lambda: world.permit_node(*NODE_ACTIONS)


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
def test_a_missing_endpoint_keeps_nodes_out_and_is_named(private: Private, service: str, beginning: str) -> None:
    restore = private.remove(service)
    problem = private.problem()
    restore()
    subnet = private.subnets[0]
    assert problem == (
        f"{beginning}{HOSTS[service]} cannot be reached from {subnet}: {private.vpc} has no endpoint for {service}, "
        f"and {subnet} has no route to the internet"
    )


@pytest.mark.parametrize(
    ("breaks", "reason"),
    [
        (remove_ingress, "do not allow ingress from the node on port 443"),
        (remove_private_name, "private DNS names are disabled for "),
        (disable_dns_hostnames, "does not enable DNS support and DNS hostnames"),
        (disable_dns_support, "DNS support is disabled in "),
        (forbid_layers, "does not allow s3:GetObject on arn:aws:s3:::prod-us-west-2-starport-layer-bucket/layer"),
        (remove_agent, "no credentials; the add-on eks-pod-identity-agent is not installed"),
        (forbid_pod_credentials, "may not call eks-auth:AssumeRoleForPodIdentity; attach AmazonEKSWorkerNodePolicy"),
    ],
)
def test_an_unusable_endpoint_keeps_nodes_out(private: Private, breaks: Callable[[Private], Restore], reason: str) -> None:
    restore = breaks(private)
    problem = private.problem()
    restore()
    assert reason in problem


def test_sts_is_needed_only_if_the_pod_network_has_a_role_for_service_accounts(private: Private) -> None:
    restore = private.remove("sts")
    assert private.problem() == ""
    role = private.pod_role
    private.eks.update_addon(clusterName="demo", addonName="vpc-cni", serviceAccountRoleArn=role, podIdentityAssociations=[])
    assert "aws-node: sts.us-west-2.amazonaws.com cannot be reached" in private.problem()
    restore()
    association = {"serviceAccount": "aws-node", "roleArn": role}
    private.eks.update_addon(clusterName="demo", addonName="vpc-cni", podIdentityAssociations=[association])


def test_a_nat_gateway_replaces_all_endpoints(private: Private) -> None:
    restore = private.remove(*private.endpoints)
    private.add_nat_route()
    assert private.problem() == ""
    restore()
    private.remove_nat_route()


def test_an_endpoint_that_blocks_the_node_blocks_it_despite_a_nat_gateway(private: Private) -> None:
    private.add_nat_route()
    restore = remove_ingress(private)
    assert "do not allow ingress from the node" in private.problem()
    restore()
    private.remove_nat_route()


@pytest.fixture
def node(private: Private) -> Iterator[dict[str, Any]]:
    """Create a node group for the test, and yield its instance."""
    yield private.instances(private.node_group("kept"))[0]
    private.eks.delete_nodegroup(clusterName="demo", nodegroupName="kept")


def pod_keys(node: dict[str, Any]) -> dict[str, str]:
    """Return the credentials of a VPC CNI pod on the node."""
    pod = Pod("kube-system", "aws-node", "aws-node-1", "uid", node["PrivateDnsName"])
    return credentials.assume(ACCOUNT, REGION, "demo", pod)


def test_pods_call_only_services_that_their_node_reaches(private: Private, node: dict[str, Any]) -> None:
    sts = private.session_client("sts", pod_keys(node))
    assert sts.get_caller_identity()["Account"] == ACCOUNT
    restore = private.remove("sts")
    with pytest.raises(ClientError, match="Connect timeout on endpoint URL") as refused:
        sts.get_caller_identity()
    assert refused.value.response["Error"]["Code"] == "UnreachableInLocalCloud"
    assert '"https://sts.us-west-2.amazonaws.com/"' in refused.value.response["Error"]["Message"]
    restore()
    assert sts.get_caller_identity()["Account"] == ACCOUNT


def test_pods_get_no_credentials_without_a_route_to_eks_auth(private: Private, node: dict[str, Any]) -> None:
    restore = private.remove("eks-auth")
    with pytest.raises(CredentialsRefused, match=r"eks-auth\.us-west-2\.api\.aws cannot be reached"):
        pod_keys(node)
    restore()
    assert pod_keys(node)


def test_nodes_pull_only_from_registries_that_they_reach(private: Private, node: dict[str, Any]) -> None:
    own, address = f"{ACCOUNT}.dkr.ecr.{REGION}.amazonaws.com", node["PrivateIpAddress"]
    cluster = joining.cluster_named(ACCOUNT, REGION, "demo")
    assert cluster is not None

    def problem(registry: str, *, is_layer: bool = False, client: str = address) -> str:
        return joining.pull_problem(cluster, client, registry, is_layer=is_layer)

    assert (problem(own), problem(own, is_layer=True)) == ("", "")
    for registry in ("registry.k8s.io", f"{ACCOUNT}.dkr.ecr.eu-west-1.amazonaws.com"):
        assert problem(registry).startswith(f"{registry} cannot be reached from ")
    assert problem("registry.k8s.io", client="10.0.0.250") == "", "the client is not a node"
    for service, named, is_layer in (("ecr.api", HOSTS["ecr.api"], False), ("ecr.dkr", own, False), ("s3", HOSTS["s3"], True)):
        restore = private.remove(service)
        assert f"{named} cannot be reached" in problem(own, is_layer=is_layer)
        restore()
