"""A node needs a route to the Kubernetes API, and a role with the permissions and an access entry, to join."""

import pytest

from localcloud.aws.account import ACCOUNT
from localcloud.aws.call import backend_of
from testkit.aws_clients import REGION, Client
from testkit.eks_world import NODE_ACTIONS, World, list_health_issues, make_trust_policy

NOT_REGISTERED = "Instances failed to join the kubernetes cluster: "


@pytest.fixture
def world(aws: Client) -> World:
    world = World(aws)
    world.cluster(vpc={"endpointPrivateAccess": False})
    return world


def find_join_problem(world: World) -> str:
    """Create a node group. Return the message of the node group's only health issue, or "" if the node group is ACTIVE."""
    group = world.node_group()
    if group["status"] == "ACTIVE":
        return ""
    [(code, message)] = list_health_issues(group)
    assert (group["status"], code) == ("CREATE_FAILED", "NodeCreationFailure")
    return message


def test_a_private_endpoint_requires_the_dns_attributes_of_the_vpc(world: World) -> None:
    world.eks.update_cluster_config(
        name="demo", resourcesVpcConfig={"endpointPrivateAccess": True, "endpointPublicAccess": False}
    )
    world.ec2.modify_vpc_attribute(VpcId=world.vpc, EnableDnsHostnames={"Value": False})
    assert find_join_problem(world) == (
        f"{NOT_REGISTERED}{world.vpc} needs DNS support and DNS hostnames to resolve the private endpoint of the Kubernetes API"
    )


def test_a_private_endpoint_admits_addresses_allowed_by_a_security_group_rule(world: World) -> None:
    private = {"endpointPrivateAccess": True, "endpointPublicAccess": False}
    world.eks.update_cluster_config(name="demo", resourcesVpcConfig=private)
    own_group = {"launchTemplate": world.template(SecurityGroupIds=[world.security_group()])}
    assert "security groups block port 443 of the control plane" in list_health_issues(world.node_group(**own_group))[0][1]
    world.eks.delete_nodegroup(clusterName="demo", nodegroupName="workers")
    group = world.eks.describe_cluster(name="demo")["cluster"]["resourcesVpcConfig"]["clusterSecurityGroupId"]
    vpc = world.ec2.describe_vpcs(VpcIds=[world.vpc])["Vpcs"][0]["CidrBlock"]
    rule = {"IpProtocol": "tcp", "FromPort": 443, "ToPort": 443, "IpRanges": [{"CidrIp": vpc}]}
    world.ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=[rule])
    assert world.node_group(**own_group)["status"] == "ACTIVE"


def test_the_node_role_requires_each_of_its_permissions(world: World) -> None:
    for action in NODE_ACTIONS:
        if action == "eks-auth:AssumeRoleForPodIdentity":
            continue  # only Pod Identity needs this action: see test_eks_endpoints_of_nodes.py
        world.set_node_permissions(*(allowed for allowed in NODE_ACTIONS if allowed != action))
        assert f"{world.node_role} may not call {action}; attach Amazon" in find_join_problem(world)
        world.eks.delete_nodegroup(clusterName="demo", nodegroupName="workers")


def test_the_managed_node_policies_are_sufficient(aws: Client) -> None:
    world, iam = World(aws), aws("iam")
    world.cluster()
    iam.delete_role_policy(RoleName="node", PolicyName="joins")
    for policy in ("AmazonEKSWorkerNodePolicy", "AmazonEC2ContainerRegistryPullOnly", "AmazonEKS_CNI_Policy"):
        assert find_join_problem(world) != ""
        world.eks.delete_nodegroup(clusterName="demo", nodegroupName="workers")
        iam.attach_role_policy(RoleName="node", PolicyArn=f"arn:aws:iam::aws:policy/{policy}")
    assert find_join_problem(world) == ""


def test_nodes_require_an_access_entry_of_their_type(world: World) -> None:
    world.eks.create_access_entry(clusterName="demo", principalArn=world.node_role, type="STANDARD")
    expected = f"{NOT_REGISTERED}Unauthorized: {world.node_role} has no access entry of type EC2_LINUX in cluster demo"
    assert find_join_problem(world) == expected


def test_a_managed_node_group_creates_its_access_entry(world: World) -> None:
    assert find_join_problem(world) == ""
    entry = world.eks.describe_access_entry(clusterName="demo", principalArn=world.node_role)["accessEntry"]
    assert entry["type"] == "EC2_LINUX"


def test_public_access_cidrs_must_contain_the_nat_gateway_address(world: World) -> None:
    address = world.ec2.describe_nat_gateways()["NatGateways"][0]["NatGatewayAddresses"][0]["PublicIp"]
    world.eks.update_cluster_config(name="demo", resourcesVpcConfig={"publicAccessCidrs": ["203.0.113.7/32"]})
    assert f"publicAccessCidrs [203.0.113.7/32] do not contain {address}" in find_join_problem(world)
    world.eks.delete_nodegroup(clusterName="demo", nodegroupName="workers")
    # EKS rejects CIDRs in 127.0.0.0/8, the range of the local AWS's Elastic IPs, so the NAT gateway gets another address.
    gateway = next(iter(backend_of("ec2", ACCOUNT, REGION).nat_gateways.values()))
    gateway.address_set = [{**gateway.address_set[0], "PublicIp": "203.0.113.7"}]
    assert find_join_problem(world) == ""


def test_nodes_without_a_route_cannot_reach_a_public_endpoint(world: World) -> None:
    world.ec2.delete_route(RouteTableId=world.routes.main_table, DestinationCidrBlock="0.0.0.0/0")
    assert f"{world.subnets[0]} has no route to the internet" in find_join_problem(world)


def test_a_route_to_a_deleted_nat_gateway_does_not_count(world: World) -> None:
    world.ec2.delete_nat_gateway(NatGatewayId=world.routes.nat_gateway)
    assert "is deleted" in find_join_problem(world)


def test_security_groups_without_egress_block_internet_access(world: World) -> None:
    group, everything = world.security_group(), {"IpProtocol": "-1", "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}
    world.ec2.revoke_security_group_egress(GroupId=group, IpPermissions=[everything])
    node_group = world.node_group(launchTemplate=world.template(SecurityGroupIds=[group]))
    assert "the node's security groups do not allow egress to 0.0.0.0/0 on port 443" in list_health_issues(node_group)[0][1]


def test_a_node_role_with_another_name_also_needs_its_permissions(world: World) -> None:
    bare = world.create_role("bare", make_trust_policy("ec2.amazonaws.com"))
    node_group = world.node_group(nodeRole=bare)
    assert f"{bare} may not call ec2:DescribeInstances" in list_health_issues(node_group)[0][1]
