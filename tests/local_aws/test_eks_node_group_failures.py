"""Failing node groups report the same status and health issues as on AWS."""

import pytest

from localcloud.aws import faults
from localcloud.aws.ec2 import capacity_reservations, instance_types
from localcloud.aws.faults import Fault
from testkit.aws_clients import REGION, Client
from testkit.eks_world import ZONES, World, list_health_issues

GPU = "g5.xlarge"


@pytest.fixture
def world(aws: Client) -> World:
    world = World(aws)
    world.cluster()
    return world


def test_insufficient_capacity_fails_the_node_group_creation(world: World) -> None:
    faults.add_fault(
        Fault("ec2", "RunInstances", "InsufficientInstanceCapacity", "We currently do not have sufficient capacity.")
    )
    group = world.node_group()
    assert group["status"] == "CREATE_FAILED"
    [(code, message)] = list_health_issues(group)
    assert code == "AsgInstanceLaunchFailures"
    assert message == (
        "Could not launch On-Demand Instances. InsufficientInstanceCapacity - We currently do not have sufficient capacity. "
        "Launching EC2 instance failed."
    )
    assert group["health"]["issues"][0]["resourceIds"] == [group["resources"]["autoScalingGroups"][0]["name"]]


@pytest.mark.parametrize("code", ["VcpuLimitExceeded", "MaxSpotInstanceCountExceeded", "UnfulfillableCapacity"])
def test_a_refused_launch_fails_the_node_group_creation(world: World, code: str) -> None:
    faults.add_fault(Fault("ec2", "RunInstances", code, "No."))
    assert [code for code, _ in list_health_issues(world.node_group())] == ["AsgInstanceLaunchFailures"]


def test_a_full_subnet_fails_the_node_group_creation(world: World) -> None:
    small = world.subnet(0, "a", cidr="10.0.200.0/28")
    settings = {"subnets": [small], "scalingConfig": {"minSize": 0, "maxSize": 20, "desiredSize": 20}}
    assert [code for code, _ in list_health_issues(world.node_group(**settings))] == ["InsufficientFreeAddresses"]


def test_an_instance_type_not_offered_in_the_zone_fails_the_node_group_creation(world: World) -> None:
    offered = instance_types.find_offered_zones(REGION)
    name, zone = next(
        (name, zone) for name in ("p4d.24xlarge", "p5e.48xlarge") for zone in ZONES if f"{REGION}{zone}" not in offered[name]
    )
    subnet = world.subnet(9, zone)
    group = world.node_group(subnets=[subnet], instanceTypes=[name], amiType="AL2023_x86_64_NVIDIA")
    [(code, message)] = list_health_issues(group)
    assert (group["status"], code) == ("CREATE_FAILED", "AsgInstanceLaunchFailures")
    assert "is not supported in your requested Availability Zone" in message


def test_a_reservation_that_is_too_small_fails_the_node_group_creation(world: World) -> None:
    reservation = capacity_reservations.seed_reservation(GPU, f"{REGION}a", 1, match="targeted")
    template = world.template(
        CapacityReservationSpecification={"CapacityReservationTarget": {"CapacityReservationId": reservation}}
    )
    settings = {"instanceTypes": [GPU], "amiType": "AL2023_x86_64_NVIDIA", "launchTemplate": template}
    group = world.node_group(**settings, scalingConfig={"minSize": 0, "maxSize": 2, "desiredSize": 2})
    [(code, message)] = list_health_issues(group)
    assert (group["status"], code) == ("CREATE_FAILED", "AsgInstanceLaunchFailures")
    assert "ReservationCapacityExceeded" in message


def test_an_interface_layout_not_supported_by_the_instance_type_fails_the_creation(world: World) -> None:
    groups = [world.describe()["resourcesVpcConfig"]["clusterSecurityGroupId"]]
    template = world.template(
        NetworkInterfaces=[{"DeviceIndex": 0, "NetworkCardIndex": 0, "InterfaceType": "efa", "Groups": groups}]
    )
    group = world.node_group(launchTemplate=template, instanceTypes=[GPU], amiType="AL2023_x86_64_NVIDIA")
    assert group["status"] == "CREATE_FAILED"
    assert [code for code, _ in list_health_issues(group)] == ["Ec2LaunchTemplateInvalidConfiguration"]


def test_nodes_do_not_become_ready_without_the_vpc_cni(aws: Client) -> None:
    world = World(aws)
    world.cluster(bootstrapSelfManagedAddons=False)
    group = world.node_group()
    assert (group["status"], list_health_issues(group)) == (
        "CREATE_FAILED",
        [
            (
                "NodeCreationFailure",
                "Unhealthy nodes in the kubernetes cluster: the cluster has no pod network; install the add-on vpc-cni",
            )
        ],
    )
    world.eks.create_addon(clusterName="demo", addonName="vpc-cni")
    assert world.node_group("later")["status"] == "ACTIVE"


def test_nodes_do_not_join_if_their_security_groups_block_the_control_plane(world: World) -> None:
    template = world.template(SecurityGroupIds=[world.security_group()])
    group = world.node_group(launchTemplate=template)
    assert (group["status"], list_health_issues(group)) == (
        "CREATE_FAILED",
        [
            (
                "NodeCreationFailure",
                "Instances failed to join the kubernetes cluster: security groups block port 443 of the control plane",
            )
        ],
    )


def test_nodes_with_ingress_to_the_control_plane_join_without_its_security_group(world: World) -> None:
    own, cluster_group = world.security_group(), world.describe()["resourcesVpcConfig"]["clusterSecurityGroupId"]
    https = {"IpProtocol": "tcp", "FromPort": 443, "ToPort": 443, "UserIdGroupPairs": [{"GroupId": own}]}
    world.ec2.authorize_security_group_ingress(GroupId=cluster_group, IpPermissions=[https])
    assert world.node_group(launchTemplate=world.template(SecurityGroupIds=[own]))["status"] == "ACTIVE"


def test_nodes_in_a_public_subnet_need_public_addresses(world: World) -> None:
    world.ec2.associate_route_table(RouteTableId=world.routes.public_table, SubnetId=world.subnets[0])
    without = world.node_group("without")
    assert (without["status"], [code for code, _ in list_health_issues(without)]) == (
        "CREATE_FAILED",
        ["Ec2SubnetInvalidConfiguration"],
    )
    world.ec2.modify_subnet_attribute(SubnetId=world.subnets[0], MapPublicIpOnLaunch={"Value": True})
    assert world.node_group("with")["status"] == "ACTIVE"


def test_a_failed_node_group_can_be_deleted_and_recreated(world: World) -> None:
    faults.add_fault(Fault("ec2", "RunInstances", "InsufficientInstanceCapacity"))
    assert world.node_group()["status"] == "CREATE_FAILED"
    world.eks.delete_nodegroup(clusterName="demo", nodegroupName="workers")
    assert world.node_group()["status"] == "ACTIVE"


def test_a_failed_scale_up_makes_the_node_group_degraded_until_it_succeeds(world: World) -> None:
    world.node_group()
    faults.add_fault(Fault("ec2", "RunInstances", "InsufficientInstanceCapacity"))
    assert world.update_config(scalingConfig={"desiredSize": 2})["status"] == "Successful"
    group = world.describe_node_group()
    assert (group["status"], [code for code, _ in list_health_issues(group)]) == ("DEGRADED", ["AsgInstanceLaunchFailures"])
    name = group["resources"]["autoScalingGroups"][0]["name"]
    world.autoscaling.set_desired_capacity(AutoScalingGroupName=name, DesiredCapacity=3)
    assert (world.describe_node_group()["status"], len(world.list_instance_ids())) == ("ACTIVE", 3)


def test_deleting_a_resource_created_by_eks_makes_the_node_group_degraded(world: World) -> None:
    group = world.node_group(scalingConfig={"minSize": 0, "maxSize": 2, "desiredSize": 0})
    uuid = group["nodegroupArn"].rsplit("/", 1)[-1]
    world.ec2.delete_launch_template(LaunchTemplateName=f"eks-{uuid}")
    group = world.describe_node_group()
    assert (group["status"], [code for code, _ in list_health_issues(group)]) == ("DEGRADED", ["Ec2LaunchTemplateNotFound"])
