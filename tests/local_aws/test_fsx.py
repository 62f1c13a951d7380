"""FSx for Lustre: states, mounts, and synchronization of a linked directory with its bucket."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from localcloud.aws import durations, gateway
from localcloud.aws.account import ACCOUNT
from localcloud.aws.call import backend_of
from localcloud.aws.efs import contents
from localcloud.aws.efs.mounting import MountRefused
from localcloud.aws.fsx import repository
from localcloud.aws.fsx.mounting import mount
from localcloud.aws.fsx.states import get_associations
from testkit.aws_clients import REGION, Client
from tests.local_aws.lustre_world import BUCKET, LustreWorld


@pytest.fixture
def world(aws: Client, tmp_path: Path) -> Iterator[LustreWorld]:
    contents.set_root_folder(tmp_path / "file-systems")
    yield LustreWorld(aws)
    contents._root = None


def synchronize(association: str) -> None:
    """Synchronize one linked directory with its bucket, as the background thread does every half second."""
    with gateway.LOCK:
        linked_association = get_associations(backend_of("fsx", ACCOUNT, REGION))[association]
        repository.synchronize(linked_association)


def launch_instance(world: LustreWorld, group: str) -> str:
    image = world.ec2.describe_images(Owners=["amazon"])["Images"][0]["ImageId"]
    launched = world.ec2.run_instances(
        ImageId=image, MinCount=1, MaxCount=1, InstanceType="m5.large", SubnetId=world.subnets[0], SecurityGroupIds=[group]
    )
    return str(launched["Instances"][0]["InstanceId"])


def get_mount_source(world: LustreWorld, name: str) -> str:
    file_system = world.describe_file_system(name)
    return f"{file_system['DNSName']}@tcp:/{file_system['LustreConfiguration']['MountName']}"


# --- states


def test_a_file_system_can_be_created_and_deleted_without_leaving_a_network_interface(world: LustreWorld) -> None:
    name = world.create()
    created = world.describe_file_system(name)
    assert created["Lifecycle"] == "AVAILABLE" and created["VpcId"] == world.vpc
    interfaces = created["NetworkInterfaceIds"]
    assert len(world.ec2.describe_network_interfaces(NetworkInterfaceIds=interfaces)["NetworkInterfaces"]) == 2
    world.fsx.delete_file_system(FileSystemId=name, LustreConfiguration={"SkipFinalBackup": True})
    assert world.fsx.describe_file_systems()["FileSystems"] == []
    assert not [
        interface
        for interface in world.ec2.describe_network_interfaces()["NetworkInterfaces"]
        if interface["NetworkInterfaceId"] in interfaces
    ]


def test_a_new_file_system_starts_in_state_creating(world: LustreWorld) -> None:
    file_system = world.fsx.create_file_system(**world.build_request())["FileSystem"]
    assert file_system["Lifecycle"] == "CREATING" and file_system["KmsKeyId"].startswith("arn:aws:kms:")


def test_the_storage_capacity_can_grow_only_once_in_six_hours(world: LustreWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(durations, "now", lambda: clock[0])
    durations.set_factor(1)
    name = world.create(StorageCapacity=2400)
    clock[0] += 3600
    assert world.fsx.update_file_system(FileSystemId=name, StorageCapacity=4800)["FileSystem"]["Lifecycle"] == "UPDATING"
    clock[0] += 3600
    assert world.describe_file_system(name)["Lifecycle"] == "AVAILABLE"
    with pytest.raises(world.fsx.exceptions.BadRequest, match="6 hours"):
        world.fsx.update_file_system(FileSystemId=name, StorageCapacity=7200)
    clock[0] += 6 * 3600
    assert world.fsx.update_file_system(FileSystemId=name, StorageCapacity=7200)["FileSystem"]["StorageCapacity"] == 7200


def test_a_missing_bucket_fails_the_data_repository_association(world: LustreWorld) -> None:
    name = world.create()
    world.describe_file_system(name)
    association = world.describe_association(world.link(name, DataRepositoryPath="s3://missing-bucket"))
    assert association["Lifecycle"] == "FAILED" and "does not exist" in association["FailureDetails"]["Message"]


# --- files


def link_bucket(world: LustreWorld, **changes: object) -> tuple[str, Path]:
    """Create a data repository association and wait for its first import. Return the association's ID and the linked
    directory.
    """
    name = world.create()
    world.describe_file_system(name)
    association = world.link(name, **changes)
    assert world.describe_association(association)["Lifecycle"] == "AVAILABLE"
    return association, contents.get_file_system_root(name) / "data"


def put_object(world: LustreWorld, key: str, text: str, **metadata: str) -> None:
    world.s3.put_object(Bucket=BUCKET, Key=key, Body=text.encode(), Metadata=metadata)


def test_objects_become_files_with_the_owner_from_their_metadata(world: LustreWorld) -> None:
    put_object(world, "sets/train/a.txt", "one", **{"file-owner": "1000", "file-group": "1001", "file-permissions": "0100640"})
    put_object(world, "elsewhere/b.txt", "not linked")
    _, folder = link_bucket(world)
    assert (folder / "train" / "a.txt").read_text() == "one"
    status = (folder / "train" / "a.txt").stat()
    assert (status.st_uid, status.st_gid, status.st_mode & 0o777) == (1000, 1001, 0o640)
    assert not list(folder.rglob("b.txt"))


def test_new_changed_and_deleted_objects_are_imported(world: LustreWorld) -> None:
    association, folder = link_bucket(world)
    put_object(world, "sets/a.txt", "one")
    synchronize(association)
    assert (folder / "a.txt").read_text() == "one"
    put_object(world, "sets/a.txt", "two")
    synchronize(association)
    assert (folder / "a.txt").read_text() == "two"
    world.s3.delete_object(Bucket=BUCKET, Key="sets/a.txt")
    synchronize(association)
    assert not (folder / "a.txt").exists()


def test_new_and_changed_files_are_exported(world: LustreWorld) -> None:
    association, folder = link_bucket(world)
    (folder / "out").mkdir()
    (folder / "out" / "model.pt").write_text("weights")
    synchronize(association)
    exported = world.s3.get_object(Bucket=BUCKET, Key="sets/out/model.pt")
    assert exported["Body"].read() == b"weights" and exported["Metadata"]["file-permissions"].endswith("644")
    (folder / "out" / "model.pt").write_text("better weights")
    synchronize(association)
    assert world.s3.get_object(Bucket=BUCKET, Key="sets/out/model.pt")["Body"].read() == b"better weights"


@pytest.mark.parametrize(("events", "left"), [(["NEW", "CHANGED"], ["sets/a.txt"]), (["NEW", "CHANGED", "DELETED"], [])])
def test_deleting_a_file_deletes_its_object_only_if_configured(world: LustreWorld, events: list[str], left: list[str]) -> None:
    put_object(world, "sets/a.txt", "one")
    association, folder = link_bucket(world, S3={"AutoExportPolicy": {"Events": events}})
    (folder / "a.txt").unlink()
    synchronize(association)
    assert [entry["Key"] for entry in world.s3.list_objects_v2(Bucket=BUCKET).get("Contents", [])] == left


def test_nothing_is_synchronized_after_the_first_import_without_events(world: LustreWorld) -> None:
    put_object(world, "sets/a.txt", "one")
    association, folder = link_bucket(world, S3={})
    put_object(world, "sets/b.txt", "two")
    (folder / "c.txt").write_text("three")
    synchronize(association)
    assert sorted(file.name for file in folder.iterdir()) == ["a.txt", "c.txt"]
    assert len(world.s3.list_objects_v2(Bucket=BUCKET)["Contents"]) == 2


def test_deleting_an_association_keeps_files_and_objects(world: LustreWorld) -> None:
    association, folder = link_bucket(world)
    (folder / "last.txt").write_text("exported before the end")
    world.fsx.delete_data_repository_association(AssociationId=association, DeleteDataInFileSystem=False)
    assert world.fsx.describe_data_repository_associations()["Associations"] == []
    assert (folder / "last.txt").exists()
    assert world.s3.list_objects_v2(Bucket=BUCKET)["Contents"][0]["Key"] == "sets/last.txt"


# --- mounts


def test_an_instance_admitted_by_the_security_group_sees_the_files(world: LustreWorld) -> None:
    name = world.create()
    world.allow_ingress(world.nodes)
    source = get_mount_source(world, name)
    assert mount(REGION, launch_instance(world, world.nodes), source) == contents.get_file_system_root(name)


def test_a_failed_mount_reports_the_same_error_as_lustre(world: LustreWorld) -> None:
    name = world.create()
    source, instance = get_mount_source(world, name), launch_instance(world, world.nodes)
    with pytest.raises(MountRefused, match="Is the MGS running"):
        mount(REGION, instance, source)
    world.allow_ingress(world.nodes)
    with pytest.raises(MountRefused, match="Is the filesystem name correct"):
        mount(REGION, instance, source.rpartition("/")[0] + "/wrong")
    with pytest.raises(MountRefused, match="Can't parse NID"):
        mount(REGION, instance, source.replace(name, "fs-0123456789abcdef0"))
