"""Facts are read from AWS, which moto emulates in this process; stubs answer the calls that moto lacks."""

import json
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import boto3
import pytest
from botocore.stub import Stubber

from infra.facts import account, ec2, eks
from infra.facts.clients import Clients
from infra.facts.gather import gather_facts
from infra.facts.model import AddonVersions, Caller, CapacityReservation, FactsError, FileSystem, Subnet, Vpc, Zone
from tests.pure.facts_world import ACCOUNT, IDENTITY, OFFERED, USER, aws_account, aws_credentials, set_answer
from tests.pure.world import FILE_SYSTEM, IMAGE, REGION, RESERVATION, VPC, pool, settings, subnet_id

__all__ = ["aws_account", "aws_credentials", "set_answer"]


@pytest.mark.usefixtures("aws_account")
def test_facts_of_a_new_stack_are_gathered(set_answer: Callable[..., None]) -> None:
    set_answer(**IDENTITY, **OFFERED)
    facts = gather_facts(settings(pool(instance_type="p5.48xlarge")))
    assert facts.caller == Caller(ACCOUNT, USER, USER)
    assert (facts.region, facts.partition) == (REGION, "aws")
    assert facts.zones[0] == Zone("us-west-2a", "usw2-az2")
    assert [zone.name for zone in facts.zones] == ["us-west-2a", "us-west-2b", "us-west-2c", "us-west-2d"]
    assert sorted(facts.instance_types) == ["m7i.large", "p5.48xlarge"]
    assert facts.instance_types["p5.48xlarge"].efa_maximum == 32
    assert "us-west-2a" in facts.offerings["p5.48xlarge"]
    assert facts.type_names == frozenset(), "the list of all types must be read only for an unknown type"
    assert facts.quotas == {"L-417A185B": 96.0, "L-1216C47A": 96.0}
    assert facts.kubernetes_versions == ("1.9", "1.35", "1.36")
    assert (facts.existing.cluster_version, facts.existing.zones, facts.existing.pools) == (None, (), {})
    assert (facts.vpc, facts.subnets, facts.efs, facts.not_found) == (None, {}, {}, frozenset())
    assert facts.unchecked == {}


@pytest.mark.usefixtures("aws_account")
def test_unknown_instance_type_returns_all_type_names(set_answer: Callable[..., None]) -> None:
    set_answer(**IDENTITY, **OFFERED)
    facts = gather_facts(settings(pool(instance_type="g5.*")))
    assert sorted(facts.instance_types) == ["m7i.large"], "a name must not act as a wildcard"
    assert {"g5.xlarge", "p5.48xlarge"} <= facts.type_names


@pytest.mark.usefixtures("aws_account")
def test_zones_without_eks_control_plane_are_excluded() -> None:
    zones = ec2.list_zones(Clients("us-east-1"))
    assert "use1-az3" not in {zone.id for zone in zones}
    assert len(zones) == 5


# --- resources named in the stack --------------------------------------------------------------------------------------


def create_network(client: Any) -> tuple[str, str, str]:
    """Create a VPC with a private and a public subnet."""
    vpc_id = client.create_vpc(CidrBlock="10.9.0.0/16")["Vpc"]["VpcId"]
    private, public = (
        client.create_subnet(VpcId=vpc_id, CidrBlock=f"10.9.{number}.0/24", AvailabilityZone=f"{REGION}{letter}")["Subnet"]
        for number, letter in enumerate("ab")
    )
    gateway = client.create_internet_gateway()["InternetGateway"]["InternetGatewayId"]
    client.attach_internet_gateway(InternetGatewayId=gateway, VpcId=vpc_id)
    table = client.create_route_table(VpcId=vpc_id)["RouteTable"]["RouteTableId"]
    client.create_route(RouteTableId=table, DestinationCidrBlock="0.0.0.0/0", GatewayId=gateway)
    client.associate_route_table(RouteTableId=table, SubnetId=public["SubnetId"])
    return vpc_id, private["SubnetId"], public["SubnetId"]


@pytest.mark.usefixtures("aws_account")
def test_an_existing_vpc_is_read(set_answer: Callable[..., None]) -> None:
    set_answer(**IDENTITY, **OFFERED)
    client = boto3.client("ec2", REGION)
    vpc_id, private, public = create_network(client)
    client.associate_vpc_cidr_block(VpcId=vpc_id, CidrBlock="100.64.0.0/16")
    facts = gather_facts(settings(network={"vpcId": vpc_id, "subnetIds": [private, public, subnet_id("a")]}))
    assert facts.vpc == Vpc(vpc_id, ("10.9.0.0/16", "100.64.0.0/16"), dns_support=True, dns_hostnames=False)
    assert facts.subnets == {
        private: Subnet(private, vpc_id, "us-west-2a", "10.9.0.0/24", 251, is_public=False, has_route_out=False),
        public: Subnet(public, vpc_id, "us-west-2b", "10.9.1.0/24", 251, is_public=True, has_route_out=False),
    }
    assert facts.not_found == {subnet_id("a")}


@pytest.mark.usefixtures("aws_account")
def test_subnet_without_route_table_uses_the_main_table() -> None:
    client = boto3.client("ec2", REGION)
    vpc_id, private, _ = create_network(client)
    main = next(
        table["RouteTableId"]
        for table in client.describe_route_tables(Filters=[{"Name": "vpc-id", "Values": [vpc_id]}])["RouteTables"]
        if any(association.get("Main") for association in table["Associations"])
    )
    gateway = client.describe_internet_gateways(Filters=[{"Name": "attachment.vpc-id", "Values": [vpc_id]}])
    gateway_id = gateway["InternetGateways"][0]["InternetGatewayId"]
    assert not ec2.read_subnets(Clients(REGION), [private])[private].is_public
    client.create_route(RouteTableId=main, DestinationCidrBlock="0.0.0.0/0", GatewayId=gateway_id)
    assert ec2.read_subnets(Clients(REGION), [private])[private].is_public


@pytest.mark.usefixtures("aws_account")
def test_route_to_gateway_or_appliance_counts_as_egress_but_blackhole_does_not() -> None:
    def has_route_out(**route: str) -> bool:
        table = {"VpcId": "vpc-1", "Associations": [{"Main": True}], "Routes": [{"State": "active", **route}]}
        return any(
            ec2._leaves_vpc(route_entry)
            for route_entry in ec2._find_subnet_routes({"VpcId": "vpc-1", "SubnetId": "subnet-1"}, [table])
        )

    assert all(has_route_out(**{target: "some-id"}) for target in ("NatGatewayId", "TransitGatewayId", "NetworkInterfaceId"))
    assert has_route_out(GatewayId="vgw-1") and has_route_out(VpcPeeringConnectionId="pcx-1")
    assert not has_route_out(GatewayId="local") and not has_route_out(GatewayId="vpce-1")
    assert not has_route_out(NatGatewayId="nat-1", State="blackhole")


@pytest.mark.usefixtures("aws_account")
def test_endpoints_of_an_existing_vpc_are_read(set_answer: Callable[..., None]) -> None:
    set_answer(**IDENTITY, **OFFERED)
    client = boto3.client("ec2", REGION)
    vpc_id, private, _ = create_network(client)
    client.create_vpc_endpoint(
        VpcId=vpc_id, ServiceName=f"com.amazonaws.{REGION}.ecr.api", VpcEndpointType="Interface", PrivateDnsEnabled=False
    )
    assert gather_facts(settings(network={"vpcId": vpc_id, "subnetIds": [private]})).endpoints == {"ecr.api"}


TRUST = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"}, "Action": "sts:AssumeRole"}],
}
"""A trust policy that the local AWS accepts too: once a test has loaded the local AWS, its rules apply to all tests in
this process.
"""


@pytest.mark.usefixtures("aws_account")
def test_admins_are_looked_up_in_iam(set_answer: Callable[..., None]) -> None:
    set_answer(**IDENTITY, **OFFERED)
    iam = boto3.client("iam", REGION)
    role_arn = iam.create_role(RoleName="Ops", Path="/team/", AssumeRolePolicyDocument=json.dumps(TRUST))["Role"]["Arn"]
    account_id = role_arn.split(":")[4]
    set_answer(GetCallerIdentity={"Account": account_id, "Arn": USER, "UserId": "AIDA"})
    moved, gone = f"arn:aws:iam::{account_id}:role/Ops", f"arn:aws:iam::{account_id}:user/nobody"
    foreign = "arn:aws:iam::999999999999:role/Admin"
    facts = gather_facts(settings(target={"admins": [role_arn, moved, gone, foreign]}))
    assert (facts.admins, facts.not_found) == ({role_arn: role_arn, moved: role_arn}, {gone})


@pytest.mark.usefixtures("aws_account")
def test_admins_are_unchecked_without_permission_to_look_them_up(set_answer: Callable[..., None]) -> None:
    admin = f"arn:aws:iam::{ACCOUNT}:role/Admin"
    set_answer(**IDENTITY, **OFFERED, GetRole="AccessDenied")
    facts = gather_facts(settings(target={"admins": [admin]}))
    assert (facts.not_found, facts.unchecked_sentences) == (
        frozenset(),
        (f"whether {admin} exists: {USER} may not call iam:GetRole",),
    )


@pytest.mark.usefixtures("aws_account")
def test_permission_sets_are_resolved_to_their_roles(set_answer: Callable[..., None]) -> None:
    set_answer(**IDENTITY, **OFFERED)
    iam, path = boto3.client("iam", REGION), "/aws-reserved/sso.amazonaws.com/eu-west-2/"
    names = [
        *("AWSReservedSSO_Research_0123456789abcdef", "AWSReservedSSO_Research_fedcba9876543210"),
        *("AWSReservedSSO_Research_Lead_0123456789abcdef", "AWSReservedSSO_researcher_0123456789abcdef"),
    ]
    arns = [
        iam.create_role(RoleName=name, Path=path, AssumeRolePolicyDocument=json.dumps(TRUST))["Role"]["Arn"] for name in names
    ]
    iam.create_role(RoleName="AWSReservedSSO_Lead_0123456789abcdef", AssumeRolePolicyDocument=json.dumps(TRUST))
    sets = ["Research", "Research_Lead", "Lead", "Res.*"]
    facts = gather_facts(settings(target={"users": [{"permissionSet": name} for name in sets]}))
    assert facts.permission_sets == {"Research": tuple(arns[:2]), "Research_Lead": (arns[2],), "Lead": (), "Res.*": ()}


@pytest.mark.usefixtures("aws_account")
def test_users_keep_their_access_if_roles_cannot_be_listed(set_answer: Callable[..., None]) -> None:
    set_answer(**IDENTITY, **OFFERED, ListRoles="AccessDenied")
    with pytest.raises(FactsError, match="may not call iam:ListRoles, which planning requires"):
        gather_facts(settings(target={"users": [{"permissionSet": "Researcher"}]}))


@pytest.mark.usefixtures("aws_account")
def test_node_group_quota_is_read_only_for_stacks_near_the_default_limit(set_answer: Callable[..., None]) -> None:
    set_answer(**IDENTITY, **OFFERED)
    assert gather_facts(settings()).node_groups_allowed == 30
    assert gather_facts(settings(*(pool(f"p{number}") for number in range(30)))).node_groups_allowed == 96


@pytest.mark.usefixtures("aws_account")
def test_an_existing_file_system_is_read(set_answer: Callable[..., None]) -> None:
    set_answer(**IDENTITY, **OFFERED)
    vpc_id, private, public = create_network(boto3.client("ec2", REGION))
    client = boto3.client("efs", REGION)
    file_system = client.create_file_system(CreationToken="x")["FileSystemId"]
    ec2 = boto3.client("ec2", REGION)
    group = ec2.create_security_group(GroupName="efs", Description="mount targets", VpcId=vpc_id)["GroupId"]
    client.create_mount_target(FileSystemId=file_system, SubnetId=private, SecurityGroups=[group])
    tags = [{"Key": "gpumpi:stack", "Value": "test"}, {"Key": "Name", "Value": "gpumpi-test-nodes"}]
    nodes = ec2.create_security_group(
        GroupName="nodes",
        Description="nodes",
        VpcId=vpc_id,
        TagSpecifications=[{"ResourceType": "security-group", "Tags": tags}],
    )["GroupId"]
    nfs = {"IpProtocol": "tcp", "FromPort": 2049, "ToPort": 2049}
    ec2.authorize_security_group_ingress(
        GroupId=group,
        IpPermissions=[
            {**nfs, "IpRanges": [{"CidrIp": "10.0.0.0/24"}], "UserIdGroupPairs": [{"GroupId": nodes}]},
            {"IpProtocol": "-1", "IpRanges": [{"CidrIp": "10.1.0.0/24"}]},
            {"IpProtocol": "tcp", "FromPort": 1024, "ToPort": 4096, "IpRanges": [{"CidrIp": "10.2.0.0/24"}]},
            {"IpProtocol": "tcp", "FromPort": 22, "ToPort": 22, "IpRanges": [{"CidrIp": "10.3.0.0/24"}]},
            {**nfs, "IpProtocol": "udp", "IpRanges": [{"CidrIp": "10.4.0.0/24"}]},
        ],
    )
    stack = settings(network={"vpcId": vpc_id, "subnetIds": [private, public]}, storage={"efs": {"fileSystemId": file_system}})
    admitted = frozenset({nodes, "10.0.0.0/24", "10.1.0.0/24", "10.2.0.0/24"})
    zone = "us-west-2a"
    expected = FileSystem(file_system, "available", {zone: vpc_id}, {zone: {group: admitted}}, frozenset({nodes}))
    assert gather_facts(stack).efs == {file_system: expected}


@pytest.mark.usefixtures("aws_account")
@pytest.mark.parametrize("adds_rule", [False, True])
def test_unreadable_mount_target_security_groups_fail_only_stacks_that_add_rules(
    set_answer: Callable[..., None], adds_rule: bool
) -> None:
    set_answer(**IDENTITY, **OFFERED, DescribeMountTargetSecurityGroups="AccessDeniedException")
    vpc_id, private, public = create_network(boto3.client("ec2", REGION))
    client = boto3.client("efs", REGION)
    file_system = client.create_file_system(CreationToken=f"unreadable-{adds_rule}")["FileSystemId"]
    client.create_mount_target(FileSystemId=file_system, SubnetId=private)
    efs = {"fileSystemId": file_system, "addIngressRule": adds_rule}
    stack = settings(network={"vpcId": vpc_id, "subnetIds": [private, public]}, storage={"efs": efs})
    if adds_rule:
        with pytest.raises(FactsError, match="DescribeMountTargetSecurityGroups, which planning requires"):
            gather_facts(stack)
    else:
        facts = gather_facts(stack)
        assert facts.efs[file_system].admitted is None
        assert [
            sentence
            for sentence in facts.unchecked_sentences
            if sentence.startswith(f"security groups of {file_system}'s mount targets: ")
        ]


@pytest.mark.usefixtures("aws_account")
def test_missing_resources_are_reported(set_answer: Callable[..., None]) -> None:
    set_answer(
        **IDENTITY,
        **OFFERED,
        DescribePlacementGroups={"PlacementGroups": []},
        DescribeCapacityReservations="InvalidCapacityReservationId.NotFound",
    )
    facts = gather_facts(
        settings(
            pool("a", amiId=IMAGE, placementGroup="mine"),
            pool("b", capacity={"kind": "targeted-odcr", "reservationId": RESERVATION}),
            network={"vpcId": VPC, "subnetIds": [subnet_id("a"), subnet_id("b")]},
            storage={"efs": {"fileSystemId": FILE_SYSTEM}},
        )
    )
    assert facts.not_found == {IMAGE, "mine", RESERVATION, VPC, subnet_id("a"), subnet_id("b"), FILE_SYSTEM}


@pytest.mark.parametrize(
    ("described", "expected"),
    [
        (
            {},
            CapacityReservation(RESERVATION, "default", "active", "p5.48xlarge", "us-west-2b", 4, 1),
        ),
        (
            {
                "ReservationType": "capacity-block",
                "PlacementGroupArn": f"arn:aws:ec2:{REGION}:{ACCOUNT}:placement-group/theirs",
            },
            CapacityReservation(RESERVATION, "capacity-block", "active", "p5.48xlarge", "us-west-2b", 4, 1, "theirs"),
        ),
    ],
)
def test_capacity_reservation_is_read(described: dict[str, Any], expected: CapacityReservation) -> None:
    clients = Clients(REGION)
    answer = {
        "CapacityReservationId": RESERVATION,
        "State": "active",
        "InstanceType": "p5.48xlarge",
        "AvailabilityZone": "us-west-2b",
        "TotalInstanceCount": 4,
        "AvailableInstanceCount": 1,
        **described,
    }
    with Stubber(clients.ec2) as stub:
        asked = {"CapacityReservationIds": [RESERVATION]}
        stub.add_response("describe_capacity_reservations", {"CapacityReservations": [answer]}, asked)
        assert ec2.read_reservations(clients, [RESERVATION]).get(RESERVATION) == expected


def test_placement_groups_are_read() -> None:
    clients = Clients(REGION)
    groups = [
        {"GroupName": "mine", "Strategy": "cluster", "State": "available"},
        {"GroupName": "gone", "Strategy": "cluster", "State": "deleting"},
    ]
    with Stubber(clients.ec2) as stub:
        stub.add_response("describe_placement_groups", {"PlacementGroups": groups})
        assert ec2.read_placement_groups(clients, ["mine", "gone"]) == {"mine": "cluster"}


def test_available_and_default_addon_versions_are_read() -> None:
    clients = Clients(REGION)

    def describe_addon_version(version: str, *, default: bool) -> dict[str, Any]:
        return {"addonVersion": version, "compatibilities": [{"clusterVersion": "1.35", "defaultVersion": default}]}

    releases = [describe_addon_version("v2", default=False), describe_addon_version("v1", default=True)]
    with (
        patch.object(eks, "ADDONS", ("coredns", "metrics-server")),
        patch.object(eks, "PARALLEL", 1),
        Stubber(clients.eks) as stub,
    ):
        for name, answers in (("coredns", releases), ("metrics-server", [])):
            addons = [{"addonName": name, "addonVersions": answers}]
            stub.add_response("describe_addon_versions", {"addons": addons}, {"kubernetesVersion": "1.35", "addonName": name})
        assert eks.read_addon_versions(clients, "1.35") == {"coredns": AddonVersions(frozenset({"v1", "v2"}), "v1")}


# --- the caller --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arn", "role", "principal"),
    [
        (USER, None, USER),
        (f"arn:aws:sts::{ACCOUNT}:assumed-role/Ops/ada", "Ops", f"arn:aws:iam::{ACCOUNT}:role/team/Ops"),
        (
            f"arn:aws:sts::{ACCOUNT}:assumed-role/AWSReservedSSO_Admin_01/ada@example.com",
            "AWSReservedSSO_Admin_01",
            f"arn:aws:iam::{ACCOUNT}:role/aws-reserved/sso.amazonaws.com/AWSReservedSSO_Admin_01",
        ),
        (f"arn:aws:iam::{ACCOUNT}:root", None, None),
        (f"arn:aws:sts::{ACCOUNT}:federated-user/ada", None, None),
    ],
)
@pytest.mark.usefixtures("aws_account")
def test_the_caller_is_resolved_to_a_user_or_role(
    arn: str, role: str | None, principal: str | None, set_answer: Callable[..., None]
) -> None:
    set_answer(GetCallerIdentity={"Account": ACCOUNT, "Arn": arn}, GetRole={"Role": {"Arn": principal}}, **OFFERED)
    assert account.parse_role_name(arn) == role
    facts = gather_facts(settings())
    assert facts.caller.principal_arn == principal
    assert facts.caller.is_root is arn.endswith(":root")
