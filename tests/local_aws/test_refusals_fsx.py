"""Calls that FSx for Lustre rejects."""

from collections.abc import Callable
from typing import Any

import pytest

from testkit.aws_clients import Client
from tests.local_aws.lustre_world import BUCKET, LustreWorld
from tests.local_aws.refusals import Refusal

API = "https://docs.aws.amazon.com/fsx/latest/APIReference/API_"
CREATE, UPDATE = f"{API}CreateFileSystem.html", f"{API}UpdateFileSystem.html"
LINK = f"{API}CreateDataRepositoryAssociation.html"
NETWORK = "https://docs.aws.amazon.com/fsx/latest/LustreGuide/limit-access-security-groups.html"
PORT = "https://docs.aws.amazon.com/fsx/latest/LustreGuide/cannot-create-fs.html"


def reject_file_system(what: str, code: str, source: str = CREATE, message: str = "", **changes: Any) -> Refusal:
    return Refusal(what, "create_file_system", lambda world, **_: world.build_request(**changes), code, source, message)


def reject_network(
    what: str, params: Callable[[LustreWorld], dict[str, Any]], message: str = "", source: str = NETWORK
) -> Refusal:
    return Refusal(
        what,
        "create_file_system",
        lambda world, **_: world.build_request(**params(world)),
        "InvalidNetworkSettings",
        source,
        message,
    )


def reject_update(what: str, code: str, **changes: Any) -> Refusal:
    return Refusal(what, "update_file_system", lambda persistent, **_: {"FileSystemId": persistent, **changes}, code, UPDATE)


def reject_association(what: str, code: str, **changes: Any) -> Refusal:
    def params(scratch: str, **_: Any) -> dict[str, Any]:
        request = {"FileSystemId": scratch, "FileSystemPath": "/other", "DataRepositoryPath": f"s3://{BUCKET}/other"}
        return request | changes

    return Refusal(what, "create_data_repository_association", params, code, LINK)


REFUSALS = [
    reject_file_system("a size between the steps", "BadRequest", StorageCapacity=3600),
    reject_file_system("a size below the smallest", "BadRequest", StorageCapacity=1000),
    reject_file_system("PERSISTENT_2 without a throughput", "BadRequest", lustre={"PerUnitStorageThroughput": None}),
    reject_file_system(
        "a throughput of PERSISTENT_1", "InvalidPerUnitStorageThroughput", lustre={"PerUnitStorageThroughput": 200}
    ),
    reject_file_system("a throughput for SCRATCH_2", "BadRequest", lustre={"DeploymentType": "SCRATCH_2"}),
    reject_file_system(
        "a key for SCRATCH_2",
        "BadRequest",
        lustre={"DeploymentType": "SCRATCH_2", "PerUnitStorageThroughput": None},
        KmsKeyId="alias/aws/fsx",
    ),
    reject_file_system("a nonexistent key", "BadRequest", KmsKeyId="alias/missing"),
    reject_file_system("an old version for PERSISTENT_2", "BadRequest", FileSystemTypeVersion="2.10"),
    reject_file_system("no subnet", "BadRequest", SubnetIds=[]),
    Refusal(
        "two subnets", "create_file_system", lambda world, **_: world.build_request(SubnetIds=world.subnets), "BadRequest", CREATE
    ),
    reject_network("a missing subnet", lambda world: {"SubnetIds": ["subnet-0123456789abcdef0"]}),
    reject_network("a missing security group", lambda world: {"SecurityGroupIds": ["sg-0123456789abcdef0"]}),
    reject_network("servers that cannot reach each other", lambda world: {"SecurityGroupIds": [world.nodes]}, "port 988", PORT),
    reject_file_system("a setting that is not emulated", "NotImplementedInLocalCloud", lustre={"EfaEnabled": True}),
    reject_file_system(
        "a deployment type that is not emulated", "NotImplementedInLocalCloud", lustre={"DeploymentType": "SCRATCH_1"}
    ),
    reject_update("a smaller size", "BadRequest", StorageCapacity=1200),
    reject_update("a size between the steps", "BadRequest", StorageCapacity=3600),
    reject_update(
        "an unknown throughput", "InvalidPerUnitStorageThroughput", LustreConfiguration={"PerUnitStorageThroughput": 300}
    ),
    reject_update("an older version", "BadRequest", FileSystemTypeVersion="2.12"),
    Refusal(
        "a throughput for SCRATCH_2",
        "update_file_system",
        lambda scratch, **_: {"FileSystemId": scratch, "LustreConfiguration": {"PerUnitStorageThroughput": 125}},
        "BadRequest",
        UPDATE,
    ),
    Refusal("a missing file system", "update_file_system", {"FileSystemId": "fs-00000000"}, "FileSystemNotFound", UPDATE),
    Refusal("a missing file system", "describe_file_systems", {"FileSystemIds": ["fs-00000000"]}, "FileSystemNotFound", CREATE),
    Refusal("a missing file system", "delete_file_system", {"FileSystemId": "fs-00000000"}, "FileSystemNotFound", CREATE),
    reject_association("a missing file system", "FileSystemNotFound", FileSystemId="fs-00000000"),
    reject_association("a path that is not in S3", "BadRequest", DataRepositoryPath="nfs://server/export"),
    reject_association("a directory inside a linked one", "BadRequest", FileSystemPath="/data/more"),
    reject_association("a prefix inside a linked one", "BadRequest", DataRepositoryPath=f"s3://{BUCKET}/sets/more"),
    reject_association("the whole file system in addition to a linked directory", "BadRequest", FileSystemPath="/"),
    Refusal(
        "a missing association",
        "delete_data_repository_association",
        {"AssociationId": "dra-0123456789abcdef0"},
        "DataRepositoryAssociationNotFound",
        LINK,
    ),
]


@pytest.mark.parametrize("refusal", REFUSALS, ids=str)
def test_fsx_rejects_invalid_requests(aws: Client, refusal: Refusal) -> None:
    world = LustreWorld(aws)
    persistent = world.create(StorageCapacity=2400)
    scratch = world.create(lustre={"DeploymentType": "SCRATCH_2", "PerUnitStorageThroughput": None})
    world.describe_file_system(scratch)
    world.link(scratch)
    refusal.check(world.fsx, world=world, persistent=persistent, scratch=scratch)
