"""The local AWS enforces the account's quotas when a resource is created."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from localcloud.aws import quotas, service_linked_roles
from localcloud.aws.ec2 import capacity_reservations, limits
from localcloud.aws.permissions import organization
from testkit.aws_clients import Client
from testkit.eks_world import World as EksWorld
from testkit.eks_world import list_health_issues
from tests.local_aws.ec2_world import TRUST, World, make_world

VCPU_TEXT = (
    r"VcpuLimitExceeded.*You have requested more vCPU capacity than your current vCPU limit of 64 allows for the instance "
    "bucket that the specified instance type belongs to"
)
SPOT = {"InstanceMarketOptions": {"MarketType": "spot"}}


@pytest.fixture
def world(aws: Client) -> World:
    return make_world(aws)


@pytest.fixture(autouse=True)
def restored_quotas() -> Iterator[None]:
    yield
    quotas._set.clear()
    quotas.select_account_kind("established")


@pytest.mark.parametrize(
    ("name", "market", "code"),
    [
        ("m7i.large", "on-demand", "Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances"),
        ("c7i-flex.large", "spot", "All Standard (A, C, D, H, I, M, R, T, Z) Spot Instance Requests"),
        ("g6e.xlarge", "on-demand", "Running On-Demand G and VT instances"),
        ("gr6.8xlarge", "spot", "All G and VT Spot Instance Requests"),
        ("p5en.48xlarge", "on-demand", "Running On-Demand P instances"),
        ("p4d.24xlarge", "spot", "All P4, P3 and P2 Spot Instance Requests"),
        ("p5.48xlarge", "spot", "All P5 Spot Instance Requests"),
        ("hpc7a.96xlarge", "on-demand", "Running On-Demand HPC instances"),
        ("u-6tb1.metal", "on-demand", "Running On-Demand High Memory instances"),
    ],
)
def test_instances_count_against_the_quota_of_their_family_and_market_type(name: str, market: str, code: str) -> None:
    quota_code = limits.find_vcpu_quota_code(name, market)
    assert [quota.name for quota in quotas.QUOTAS if quota.code == quota_code] == [code]


def test_on_demand_instances_share_the_quota_of_their_family(world: World) -> None:
    quotas.set_values({"L-DB2E81BA": 64})
    [first, _] = world.run(MinCount=2, MaxCount=2)
    with pytest.raises(ClientError, match=VCPU_TEXT):
        world.run(InstanceType="g6.xlarge")
    world.run(InstanceType="m7i.large")
    world.run(**SPOT)
    world.ec2.terminate_instances(InstanceIds=[first["InstanceId"]])
    world.run()


def test_spot_instances_have_separate_quotas(world: World) -> None:
    quotas.set_values({"L-3819A6DF": 32})
    world.run(**SPOT)
    with pytest.raises(ClientError, match=r"MaxSpotInstanceCountExceeded.*Max spot instance count exceeded"):
        world.run(**SPOT)
    world.run()


def test_a_reservation_counts_against_the_quota_but_its_instances_do_not(world: World) -> None:
    quotas.set_values({"L-DB2E81BA": 64})
    capacity_reservations.seed_reservation("g5.8xlarge", "us-west-2a", 2, match="open")
    world.run(MinCount=2, MaxCount=2)
    with pytest.raises(ClientError, match=VCPU_TEXT):
        world.run()
    request = {"InstanceType": "g5.8xlarge", "InstancePlatform": "Linux/UNIX", "AvailabilityZone": "us-west-2a"}
    with pytest.raises(ClientError, match=VCPU_TEXT):
        world.ec2.create_capacity_reservation(**request, InstanceCount=1)


def test_a_capacity_block_does_not_count_against_a_quota(world: World) -> None:
    quotas.set_values({"L-417A185B": 0})
    block = capacity_reservations.seed_reservation("p4d.24xlarge", "us-west-2a", 1, kind="capacity-block")
    target = {"CapacityReservationTarget": {"CapacityReservationId": block}}
    options = {"MarketType": "capacity-block"}
    world.run(InstanceType="p4d.24xlarge", InstanceMarketOptions=options, CapacityReservationSpecification=target)


def create_vpc(world: World) -> None:
    world.ec2.create_vpc(CidrBlock="10.9.0.0/16")


def create_internet_gateway(world: World) -> None:
    world.ec2.create_internet_gateway()


def allocate_address(world: World) -> None:
    world.ec2.allocate_address(Domain="vpc")


def create_nat_gateway(world: World, subnet: int = 0) -> None:
    world.ec2.create_nat_gateway(SubnetId=world.subnets[subnet], ConnectivityType="private")


def run_instance(world: World) -> None:
    world.run()


@pytest.mark.parametrize(
    ("code", "create", "error"),
    [
        ("L-F678F1CE", create_vpc, "VpcLimitExceeded.*The maximum number of VPCs has been reached"),
        (
            "L-A4707A72",
            create_internet_gateway,
            "InternetGatewayLimitExceeded.*The maximum number of internet gateways has been reached",
        ),
        ("L-0263D0A3", allocate_address, "AddressLimitExceeded.*The maximum number of addresses has been reached"),
        ("L-FE5A380F", create_nat_gateway, "NatGatewayLimitExceeded.*would exceed the limit of . NAT gateways"),
        ("L-DF5E4CA3", run_instance, "NetworkInterfaceLimitExceeded"),
    ],
)
def test_network_resource_quotas_are_enforced(world: World, code: str, create: Callable[[World], None], error: str) -> None:
    create(world)
    quotas.set_values({code: {"L-F678F1CE": 3, "L-A4707A72": 3}.get(code, 2)})
    with pytest.raises(ClientError, match=error):
        for _ in range(3):
            create(world)


def test_the_nat_gateway_quota_is_enforced_per_zone(world: World) -> None:
    quotas.set_values({"L-FE5A380F": 1})
    create_nat_gateway(world)
    create_nat_gateway(world, subnet=1)
    with pytest.raises(ClientError, match="NatGatewayLimitExceeded"):
        create_nat_gateway(world)


def test_a_node_group_reports_an_exceeded_quota_as_a_health_issue(aws: Client) -> None:
    quotas.set_values({"L-1216C47A": 2})
    world = EksWorld(aws)
    world.cluster()
    [(code, message)] = list_health_issues(world.node_group(scalingConfig={"minSize": 0, "maxSize": 4, "desiredSize": 2}))
    assert code == "AsgInstanceLaunchFailures"
    assert message.startswith("Could not launch On-Demand Instances. VcpuLimitExceeded - You have requested more vCPU capacity")


@pytest.mark.parametrize(
    ("code", "value", "call"),
    [
        ("L-1194D53C", 1, lambda world: world.cluster(name="second")),
        ("L-6D54EA21", 0, lambda world: world.node_group()),
        ("L-BD136A63", 3, lambda world: world.node_group(scalingConfig={"minSize": 0, "maxSize": 4, "desiredSize": 1})),
    ],
)
def test_eks_enforces_quotas_for_clusters_node_groups_and_nodes(
    aws: Client, code: str, value: int, call: Callable[[Any], Any]
) -> None:
    world = EksWorld(aws)
    world.cluster()
    quotas.set_values({code: value})
    with pytest.raises(ClientError, match="ResourceLimitExceededException"):
        call(world)


def test_quotas_of_other_services_can_be_queried(aws: Client) -> None:
    quotas.set_values({"L-6D54EA21": 12, "L-DF5E4CA3": 7})
    client = aws("service-quotas")
    for service, code, value in (("eks", "L-6D54EA21", 12), ("vpc", "L-DF5E4CA3", 7), ("eks", "L-BD136A63", 450)):
        assert client.get_service_quota(ServiceCode=service, QuotaCode=code)["Quota"]["Value"] == value
    assert client.get_aws_default_service_quota(ServiceCode="vpc", QuotaCode="L-F678F1CE")["Quota"]["Value"] == 5


def test_the_gp3_storage_quota_is_enforced(world: World) -> None:
    quotas.set_values({"L-7A658B76": 1})
    volume = {"DeviceName": "/dev/sdf", "Ebs": {"VolumeSize": 500, "VolumeType": "gp3"}}
    world.run(BlockDeviceMappings=[volume])
    with pytest.raises(ClientError, match=r"VolumeLimitExceeded.*your maximum gp3 storage limit of 1 TiB in this region"):
        world.run(BlockDeviceMappings=[volume, {**volume, "DeviceName": "/dev/sdg"}])


def test_the_iam_role_quota_is_enforced(aws: Client) -> None:
    iam = aws("iam")
    quotas.set_values({"L-FE177D64": len(iam.list_roles()["Roles"])})
    with pytest.raises(ClientError, match=r"LimitExceeded.*Cannot exceed quota for RolesPerAccount"):
        iam.create_role(RoleName="one-more", AssumeRolePolicyDocument=TRUST)


def test_iam_quotas_exist_in_only_one_region(aws: Client) -> None:
    quota = {"ServiceCode": "iam", "QuotaCode": "L-FE177D64"}
    assert aws("service-quotas", "us-east-1").get_service_quota(**quota)["Quota"]["GlobalQuota"]
    with pytest.raises(ClientError, match="NoSuchResourceException"):
        aws("service-quotas", "us-west-2").get_service_quota(**quota)


def test_a_new_account_has_default_quotas_and_gets_service_linked_roles_on_first_use(aws: Client) -> None:
    quotas.select_account_kind("new")
    iam, world = aws("iam"), make_world(aws)
    assert iam.list_roles(PathPrefix="/aws-service-role/")["Roles"] == []
    with pytest.raises(ClientError, match=r"VcpuLimitExceeded.*your current vCPU limit of 0 allows"):
        world.run()
    quotas.set_values({"L-3819A6DF": 32})
    world.run(**SPOT)
    assert [role["RoleName"] for role in iam.list_roles(PathPrefix="/aws-service-role/")["Roles"]] == ["AWSServiceRoleForEC2Spot"]


def test_the_spot_service_linked_role_is_not_created_without_permission(aws: Client) -> None:
    quotas.select_account_kind("new")
    quotas.set_values({"L-3819A6DF": 32})
    world = make_world(aws)
    organization.deny_action("iam:CreateServiceLinkedRole")
    with pytest.raises(ClientError, match=r"AuthFailure.ServiceLinkedRoleCreationNotPermitted.*do not have permission to create"):
        world.run(**SPOT)


def test_an_established_account_already_has_the_service_linked_roles(aws: Client) -> None:
    role_names = {role["RoleName"] for role in aws("iam").list_roles(PathPrefix="/aws-service-role/")["Roles"]}
    assert role_names == set(service_linked_roles.NAMES.values())


@pytest.mark.parametrize(("code", "data"), [("L-3819A6DF", SPOT), ("L-DF5E4CA3", {}), ("L-DB2E81BA", {})])
def test_a_group_of_size_zero_needs_no_quota(code: str, data: dict[str, Any], world: World) -> None:
    quotas.set_values({code: 0})
    template = {"LaunchTemplateId": world.template(**data)}
    group_request = {
        "AutoScalingGroupName": "nodes",
        "MinSize": 0,
        "MaxSize": 1,
        "DesiredCapacity": 0,
        "LaunchTemplate": template,
    }
    world.client("autoscaling").create_auto_scaling_group(**group_request, VPCZoneIdentifier=world.subnets[0])
