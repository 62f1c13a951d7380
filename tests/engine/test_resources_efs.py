"""EFS: cases beyond those tested for every resource type."""

from collections.abc import Iterator

import pytest

from localcloud.aws import calls, durations
from localcloud.engine.aws.lifecycle import OperationFailed
from localcloud.engine.aws.resource import RESOURCES
from tests.engine.life import Life
from tests.engine.world import World, module_account, new_world  # noqa: F401

FILE_SYSTEM = RESOURCES["aws:efs/fileSystem:FileSystem"]
MOUNT_TARGET = RESOURCES["aws:efs/mountTarget:MountTarget"]
ACCESS_POINT = RESOURCES["aws:efs/accessPoint:AccessPoint"]


@pytest.fixture
def shortened_delays() -> Iterator[None]:
    """Shorten AWS operations to a thousandth of their real duration."""
    durations.set_factor(0.001)
    yield
    durations.set_factor(0)


def test_throughput_changes_in_place(world: World) -> None:
    shared = Life(FILE_SYSTEM, world.aws, {"throughputMode": "provisioned", "provisionedThroughputInMibps": 64}, world.prefix)
    shared.update({"throughputMode": "elastic"})
    assert shared.state["throughputMode"] == "elastic"
    assert shared.find_differences() == set()


def test_outputs_contain_the_dns_names_that_nodes_mount(world: World) -> None:
    shared = Life(FILE_SYSTEM, world.aws, {}, world.prefix)
    target = Life(MOUNT_TARGET, world.aws, {"fileSystemId": shared.id, "subnetId": world.subnets[0]})
    assert shared.state["dnsName"] == f"{shared.id}.efs.us-west-2.amazonaws.com"
    assert target.state["mountTargetDnsName"] == f"{target.state['availabilityZoneName']}.{shared.state['dnsName']}"
    assert target.state["fileSystemArn"] == shared.state["arn"]


@pytest.mark.usefixtures("shortened_delays")
def test_creation_and_deletion_wait_for_the_file_system(world: World) -> None:
    shared = Life(FILE_SYSTEM, world.aws, {}, world.prefix)
    target = Life(MOUNT_TARGET, world.aws, {"fileSystemId": shared.id, "subnetId": world.subnets[0]})
    point = Life(ACCESS_POINT, world.aws, {"fileSystemId": shared.id})
    efs = world.client("efs")
    assert efs.describe_file_systems(FileSystemId=shared.id)["FileSystems"][0]["LifeCycleState"] == "available"
    assert efs.describe_mount_targets(MountTargetId=target.id)["MountTargets"][0]["LifeCycleState"] == "available"
    point.delete()
    target.delete()
    assert efs.describe_mount_targets(FileSystemId=shared.id)["MountTargets"] == []
    shared.delete()
    with pytest.raises(efs.exceptions.FileSystemNotFound):
        efs.describe_file_systems(FileSystemId=shared.id)


def test_an_access_point_is_replaced_if_its_user_is_removed(world: World) -> None:
    point = Life(ACCESS_POINT, world.aws, {"fileSystemId": world.file_system, "posixUser": {"uid": 1000, "gid": 1000}})
    assert point.find_replacements({"fileSystemId": world.file_system}) == {"posixUser"}


def test_a_file_system_with_a_mount_target_cannot_be_deleted(world: World) -> None:
    shared = Life(FILE_SYSTEM, world.aws, {}, world.prefix)
    Life(MOUNT_TARGET, world.aws, {"fileSystemId": shared.id, "subnetId": world.subnets[0]})
    with pytest.raises(OperationFailed, match=r"deleting EFS File System .*FileSystemInUse"):
        shared.delete()


def test_an_unchanged_file_system_causes_no_write_requests(world: World) -> None:
    shared = Life(FILE_SYSTEM, world.aws, {"lifecyclePolicies": [{"transitionToIa": "AFTER_30_DAYS"}]}, world.prefix)
    calls.clear_counts()
    shared.refresh()
    shared.update(shared.program_inputs())
    assert calls.count_reads() and not calls.count_writes()
