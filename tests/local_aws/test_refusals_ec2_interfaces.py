"""Network interface calls that EC2 rejects."""

from collections.abc import Iterator

import pytest

from tests.local_aws.ec2_refusals import (
    API,
    EFA,
    EFA_ONLY,
    ERRORS,
    GUIDE,
    LIMITS,
    PRIMARY,
    check_refusal,
    interface_params,
    launch_params,
    shared_ec2_world,
)
from tests.local_aws.ec2_world import World
from tests.local_aws.refusals import Refusal


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with shared_ec2_world() as refusing:
        yield refusing


def find_interface_in_use(world: World) -> str:
    filters = [{"Name": "attachment.status", "Values": ["attached"]}]
    return str(world.ec2.describe_network_interfaces(Filters=filters)["NetworkInterfaces"][0]["NetworkInterfaceId"])


INTERFACES = [
    Refusal(
        "EFA on an instance type without EFA",
        "run_instances",
        interface_params(PRIMARY, EFA_ONLY, InstanceType="g5.xlarge"),
        "InvalidParameterCombination",
        EFA,
        "g5.xlarge instances do not support Elastic Fabric Adapters.",
    ),
    Refusal(
        "an efa-only primary interface",
        "run_instances",
        interface_params({"DeviceIndex": 0, "InterfaceType": "efa-only"}),
        "InvalidParameterCombination",
        EFA,
    ),
    Refusal(
        "EFA on a network card without EFA",
        "run_instances",
        interface_params(PRIMARY, EFA_ONLY, InstanceType="p6-b300.48xlarge"),
        "InvalidParameterCombination",
        EFA,
        "Network card 0",
    ),
    Refusal(
        "an IP address for an efa-only interface",
        "run_instances",
        interface_params(PRIMARY, {**EFA_ONLY, "PrivateIpAddress": "10.0.0.77"}),
        "InvalidParameterCombination",
        EFA,
    ),
    Refusal(
        "more EFA interfaces than the instance type supports",
        "run_instances",
        interface_params(PRIMARY, EFA_ONLY, {"DeviceIndex": 2, "InterfaceType": "efa-only"}),
        "AttachmentLimitExceeded",
        EFA,
    ),
    Refusal(
        "more interfaces than the network card supports",
        "run_instances",
        interface_params(*({"DeviceIndex": index} for index in range(9))),
        "AttachmentLimitExceeded",
        LIMITS,
        "Interface count 9 exceeds the limit for g5.8xlarge",
    ),
    Refusal(
        "a network card that the instance type does not have",
        "run_instances",
        interface_params(PRIMARY, {"DeviceIndex": 0, "NetworkCardIndex": 1}),
        "InvalidParameterValue",
        f"{GUIDE}/using-eni.html#network-cards",
    ),
    Refusal(
        "two interfaces with the same card and device index",
        "run_instances",
        interface_params(PRIMARY, {"DeviceIndex": 1}, {"DeviceIndex": 1}),
        "InvalidParameterValue",
        f"{API}/API_InstanceNetworkInterfaceSpecification.html",
    ),
    Refusal(
        "interfaces without a primary interface",
        "run_instances",
        interface_params({"DeviceIndex": 1}),
        "InvalidParameterCombination",
        f"{API}/API_InstanceNetworkInterfaceSpecification.html",
    ),
    Refusal(
        "an interface without a device index",
        "run_instances",
        interface_params({}),
        "MissingParameter",
        f"{API}/API_InstanceNetworkInterfaceSpecification.html",
    ),
    Refusal(
        "a public address for one of several interfaces",
        "run_instances",
        interface_params({**PRIMARY, "AssociatePublicIpAddress": True}, {"DeviceIndex": 1}),
        "InvalidParameterCombination",
        f"{GUIDE}/using-instance-addressing.html",
    ),
    Refusal(
        "both network interfaces and an instance-level subnet",
        "run_instances",
        launch_params(SecurityGroupIds=None, NetworkInterfaces=[PRIMARY]),
        "InvalidParameterCombination",
        f"{API}/API_RunInstances.html",
    ),
    Refusal(
        "both network interfaces and instance-level security groups",
        "run_instances",
        launch_params(SubnetId=None, NetworkInterfaces=lambda world: [{"DeviceIndex": 0, "SubnetId": world.subnets[0]}]),
        "InvalidParameterCombination",
        f"{API}/API_RunInstances.html",
    ),
    Refusal(
        "an address in use",
        "run_instances",
        launch_params(PrivateIpAddress="10.0.0.250"),
        "InvalidIPAddress.InUse",
        ERRORS,
    ),
    Refusal(
        "an address of another subnet",
        "run_instances",
        launch_params(PrivateIpAddress="10.0.1.9"),
        "InvalidParameterValue",
        f"{API}/API_RunInstances.html",
    ),
    Refusal(
        "a nonexistent security group",
        "create_network_interface",
        lambda world: {"SubnetId": world.subnets[0], "Groups": ["sg-00000000000000000"]},
        "InvalidGroup.NotFound",
        ERRORS,
    ),
    Refusal(
        "a nonexistent instance type",
        "create_network_interface",
        lambda world: {"SubnetId": world.subnets[0], "InterfaceType": "infiniband"},
        "InvalidParameterValue",
        f"{API}/API_CreateNetworkInterface.html",
    ),
    Refusal(
        "an interface in use",
        "delete_network_interface",
        lambda world: {"NetworkInterfaceId": find_interface_in_use(world)},
        "InvalidParameterValue",
        f"{API}/API_DeleteNetworkInterface.html",
        "is currently in use",
    ),
]


@pytest.mark.parametrize("refusal", INTERFACES, ids=str)
def test_ec2_rejects_invalid_requests_and_creates_nothing(world: World, refusal: Refusal) -> None:
    check_refusal(world, refusal)
