"""An account for calls that EC2 rejects, and helpers that build these calls."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import boto3
from moto import mock_aws

from localcloud.aws.ec2 import capacity_reservations
from testkit.aws_clients import NO_RETRIES, REGION
from tests.local_aws.ec2_world import World, find_eks_ami, make_world
from tests.local_aws.refusals import Refusal

API = "https://docs.aws.amazon.com/AWSEC2/latest/APIReference"
GUIDE = "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide"
ERRORS = f"{API}/errors-overview.html"
EFA = f"{GUIDE}/efa-acc-inst-types.html"
LIMITS = f"{GUIDE}/AvailableIpPerENI.html"
BLOCK = "cr-0b10c000000000000"
EMPTY = "cr-0e000000000000000"


def launch_params(**changes: Any) -> Any:
    """Return RunInstances parameters for one g5.8xlarge. `changes` override parameters; the value None removes a
    parameter.
    """

    def params(world: World) -> dict[str, Any]:
        base: dict[str, Any] = {
            "ImageId": find_eks_ami(),
            "InstanceType": "g5.8xlarge",
            "MinCount": 1,
            "MaxCount": 1,
            "SubnetId": world.subnets[0],
            "SecurityGroupIds": [world.group],
        }
        base.update({name: value(world) if callable(value) else value for name, value in changes.items()})
        return {name: value for name, value in base.items() if value is not None}

    return params


def interface_params(*interfaces: dict[str, Any], **changes: Any) -> Any:
    """Return `launch` parameters with network interfaces in the first subnet, instead of a subnet and a security
    group.
    """

    def build(world: World) -> list[dict[str, Any]]:
        return [{"SubnetId": world.subnets[0], "Groups": [world.group], **item} for item in interfaces]

    return launch_params(SubnetId=None, SecurityGroupIds=None, NetworkInterfaces=build, **changes)


PRIMARY = {"DeviceIndex": 0}
EFA_ONLY = {"DeviceIndex": 1, "InterfaceType": "efa-only"}


@contextmanager
def shared_ec2_world() -> Iterator[World]:
    """One environment shared by all rejected calls in a test module; this is safe because a rejected call changes
    nothing.
    """
    with mock_aws():
        refusing = make_world(lambda service, region=REGION: boto3.client(service, region, config=NO_RETRIES))
        refusing.ec2.create_placement_group(GroupName="close")
        refusing.ec2.create_placement_group(GroupName="used")
        refusing.client("iam").create_instance_profile(InstanceProfileName="empty")
        refusing.run(Placement={"GroupName": "used"}, PrivateIpAddress="10.0.0.250")
        capacity_reservations.seed_reservation("p5.48xlarge", "us-west-2a", 1, kind="capacity-block", reservation_id=BLOCK)
        capacity_reservations.seed_reservation(
            "g5.8xlarge", "us-west-2a", 1, match="targeted", state="expired", reservation_id=EMPTY
        )
        refusing.ec2.create_launch_template(LaunchTemplateName="known", LaunchTemplateData={"ImageId": "ami-00000000000000000"})
        yield refusing


def count_resources(world: World) -> dict[str, int]:
    """Count the resources that a launch creates."""
    ec2 = world.ec2
    return {
        "instances": len(ec2.describe_instances()["Reservations"]),
        "interfaces": len(ec2.describe_network_interfaces()["NetworkInterfaces"]),
        "volumes": len(ec2.describe_volumes()["Volumes"]),
        "addresses": world.count_free_addresses(world.subnets[0]),
        "groups": len(ec2.describe_placement_groups()["PlacementGroups"]),
        "reservations": len(ec2.describe_capacity_reservations()["CapacityReservations"]),
        "templates": len(ec2.describe_launch_templates()["LaunchTemplates"]),
    }


def check_refusal(world: World, refusal: Refusal) -> None:
    """Check that the call fails with AWS's error and creates nothing."""
    before = count_resources(world)
    refusal.check(world.ec2, **({"world": world} if callable(refusal.params) else {}))
    assert count_resources(world) == before
