"""Mounting an EFS file system: results and errors, where the files are stored, and when they are deleted."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from infra.components import iam
from localcloud.aws import gateway
from localcloud.aws.efs import contents
from localcloud.aws.efs.mounting import Mounted, MountRefused, mount
from testkit.aws_clients import REGION, Client


@dataclass
class World:
    """A file system with a mount target in one of two zones. The mount target accepts connections from one security
    group, and an instance belongs to this group.
    """

    client: Client

    def __post_init__(self) -> None:
        ec2, self.efs = self.client("ec2"), self.client("efs")
        self.ec2 = ec2
        vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
        self.subnets = [
            ec2.create_subnet(VpcId=vpc, CidrBlock=f"10.0.{number}.0/24", AvailabilityZone=f"{REGION}{zone}")["Subnet"][
                "SubnetId"
            ]
            for number, zone in enumerate("ab")
        ]
        self.nodes, self.target_group = (
            ec2.create_security_group(GroupName=name, Description=name, VpcId=vpc)["GroupId"] for name in ("nodes", "target")
        )
        self.open_nfs_port()
        self.instance = self.launch_instance()
        self.file_system = self.create("first")
        self.target = self.efs.create_mount_target(
            FileSystemId=self.file_system, SubnetId=self.subnets[0], SecurityGroups=[self.target_group]
        )["MountTargetId"]

    def nfs_ingress(self, **source: Any) -> dict[str, Any]:
        source = source or {"UserIdGroupPairs": [{"GroupId": self.nodes}]}
        return {
            "GroupId": self.target_group,
            "IpPermissions": [{"IpProtocol": "tcp", "FromPort": 2049, "ToPort": 2049, **source}],
        }

    def open_nfs_port(self, **source: Any) -> None:
        self.ec2.authorize_security_group_ingress(**self.nfs_ingress(**source))

    def close(self) -> None:
        self.ec2.revoke_security_group_ingress(**self.nfs_ingress())

    def launch_instance(self, subnet: int = 0, group: str | None = None) -> str:
        image = self.ec2.describe_images(Owners=["amazon"])["Images"][0]["ImageId"]
        launch = self.ec2.run_instances(
            ImageId=image,
            MinCount=1,
            MaxCount=1,
            InstanceType="m5.large",
            SubnetId=self.subnets[subnet],
            SecurityGroupIds=[group or self.nodes],
        )
        return str(launch["Instances"][0]["InstanceId"])

    def create(self, token: str) -> str:
        return str(self.efs.create_file_system(CreationToken=token)["FileSystemId"])

    def create_access_point(self, path: str = "/shared", file_system: str | None = None, creation: bool = True) -> str:
        info = {"CreationInfo": {"OwnerUid": 1000, "OwnerGid": 1001, "Permissions": "0770"}} if creation else {}
        response = self.efs.create_access_point(
            ClientToken=f"{path}{file_system}",
            FileSystemId=file_system or self.file_system,
            PosixUser={"Uid": 1000, "Gid": 1001},
            RootDirectory={"Path": path, **info},
        )
        self.efs.describe_access_points()
        return str(response["AccessPointId"])

    def mount(self, point: str | None = None, instance: str | None = None, **settings: Any) -> Mounted:
        arguments = {"fileSystem": self.file_system, "accessPoint": point} | settings
        self.efs.describe_mount_targets(FileSystemId=self.file_system)  # any request applies state changes that are due
        with gateway.LOCK:
            return mount(region=REGION, instance=instance or self.instance, **arguments)


@pytest.fixture
def world(aws: Client, tmp_path: Path) -> Iterator[World]:
    contents.set_root_folder(tmp_path / "file-systems")
    yield World(aws)
    contents._root = None


def test_the_first_mount_creates_the_access_point_root_with_owner_and_permissions(world: World) -> None:
    mounted = world.mount(world.create_access_point("/a/b"))
    assert not mounted.read_only
    for folder in (mounted.folder, mounted.folder.parent):
        status = folder.stat()
        assert (status.st_uid, status.st_gid, status.st_mode & 0o777) == (1000, 1001, 0o770)
    assert mounted.folder == contents.get_file_system_root(world.file_system) / "a" / "b"


def test_two_clients_see_the_same_files(world: World) -> None:
    point = world.create_access_point()
    (world.mount(point).folder / "file").write_text("one")
    assert (world.mount(point, instance=world.launch_instance()).folder / "file").read_text() == "one"
    assert (world.mount().folder / "shared" / "file").read_text() == "one"


def test_deleting_a_file_system_deletes_its_files(world: World) -> None:
    folder = world.mount(world.create_access_point()).folder
    world.efs.delete_mount_target(MountTargetId=world.target)
    world.efs.describe_mount_targets(FileSystemId=world.file_system)
    world.efs.delete_file_system(FileSystemId=world.file_system)
    world.efs.describe_file_systems()
    assert not folder.exists() and list((contents.get_root_folder() or Path()).iterdir()) == []


def test_files_left_by_an_earlier_local_cloud_are_deleted(world: World) -> None:
    world.mount()
    root = contents.get_root_folder()
    assert root and list(root.iterdir())
    contents.set_root_folder(root)
    assert list(root.iterdir()) == []


def expect_refusal(world: World, *arguments: Any, **settings: Any) -> str:
    with pytest.raises(MountRefused) as caught:
        world.mount(*arguments, **settings)
    return str(caught.value)


def test_mounting_a_missing_file_system_is_refused(world: World) -> None:
    assert expect_refusal(world, fileSystem="fs-00000000") == "file system fs-00000000 does not exist"


def test_mounting_a_missing_access_point_is_refused(world: World) -> None:
    assert expect_refusal(world, "fsap-00000000") == (
        "mount.nfs4: access denied by server while mounting 127.0.0.1:/: access point fsap-00000000 does not exist"
    )


def test_mounting_an_access_point_of_another_file_system_is_refused(world: World) -> None:
    other = world.create("other")
    world.efs.describe_file_systems()
    point = world.create_access_point(file_system=other)
    assert expect_refusal(world, point).endswith(
        f"access point {point} belongs to file system {other}, not to {world.file_system}"
    )


def test_the_dns_name_does_not_resolve_without_a_mount_target_in_the_zone_of_the_node(world: World) -> None:
    assert expect_refusal(world, instance=world.launch_instance(subnet=1)) == (
        f"Failed to resolve {world.file_system}.efs.{REGION}.amazonaws.com: file system {world.file_system} "
        f"has no mount target in {REGION}b of the node's VPC; its mount targets are in {REGION}a"
    )


def test_mounting_times_out_if_the_mount_target_allows_no_ingress(world: World) -> None:
    world.close()
    assert expect_refusal(world) == (
        f"mount.nfs4: Connection timed out: no security group of mount target {world.target} ({world.target_group}) "
        "allows the node to connect to TCP port 2049"
    )
    world.open_nfs_port(IpRanges=[{"CidrIp": "10.0.0.0/24"}])
    world.mount()


def test_a_node_outside_the_allowed_security_group_cannot_mount(world: World) -> None:
    assert "Connection timed out" in expect_refusal(world, instance=world.launch_instance(group=world.target_group))


def test_the_file_system_policy_of_our_stacks_refuses_a_client_without_tls(world: World) -> None:
    arn = world.efs.describe_file_systems()["FileSystems"][0]["FileSystemArn"]
    world.efs.put_file_system_policy(
        FileSystemId=world.file_system,
        Policy=iam.to_json(iam.build_file_system_policy(arn)),
        BypassPolicyLockoutSafetyCheck=True,
    )
    assert not world.mount().read_only
    assert expect_refusal(world, encrypted=False).endswith(
        f"the policy of file system {world.file_system} denies clients without TLS"
    )


def test_a_policy_without_write_permission_makes_the_mount_read_only(world: World) -> None:
    arn = world.efs.describe_file_systems()["FileSystems"][0]["FileSystemArn"]
    statement = {"Effect": "Allow", "Principal": {"AWS": "*"}, "Action": "elasticfilesystem:ClientMount", "Resource": arn}
    world.efs.put_file_system_policy(
        FileSystemId=world.file_system,
        Policy=iam.to_json({"Version": "2012-10-17", "Statement": [statement]}),
        BypassPolicyLockoutSafetyCheck=True,
    )
    assert world.mount().read_only


@pytest.mark.parametrize("path", ["/missing", "/../../etc", "/link"])
def test_mounting_a_path_outside_the_file_system_is_refused(world: World, path: str) -> None:
    (world.mount().folder / "link").symlink_to("/etc")
    assert "No such file or directory" in expect_refusal(world, path=path)


def test_an_access_point_without_creation_info_creates_no_directory(world: World) -> None:
    assert "No such file or directory" in expect_refusal(world, world.create_access_point("/missing", creation=False))
    (world.mount().folder / "link").symlink_to("/etc")
    assert "No such file or directory" in expect_refusal(world, world.create_access_point("/link"))
