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


def create(what: str, code: str, source: str = CREATE, message: str = "", **changes: Any) -> Refusal:
    return Refusal(what, "create_file_system", lambda world, **_: world.build_request(**changes), code, source, message)


def network(what: str, params: Callable[[LustreWorld], dict[str, Any]], message: str = "", source: str = NETWORK) -> Refusal:
    return Refusal(
        what,
        "create_file_system",
        lambda world, **_: world.build_request(**params(world)),
        "InvalidNetworkSettings",
        source,
        message,
    )


def update(what: str, code: str, **changes: Any) -> Refusal:
    return Refusal(what, "update_file_system", lambda persistent, **_: {"FileSystemId": persistent, **changes}, code, UPDATE)


def link(what: str, code: str, **changes: Any) -> Refusal:
    def params(scratch: str, **_: Any) -> dict[str, Any]:
        request = {"FileSystemId": scratch, "FileSystemPath": "/other", "DataRepositoryPath": f"s3://{BUCKET}/other"}
        return request | changes

    return Refusal(what, "create_data_repository_association", params, code, LINK)


REFUSALS = [
    create("a size between the steps", "BadRequest", StorageCapacity=3600),
    create("a size below the smallest", "BadRequest", StorageCapacity=1000),
    create("PERSISTENT_2 without a throughput", "BadRequest", lustre={"PerUnitStorageThroughput": None}),
    create("a throughput of PERSISTENT_1", "InvalidPerUnitStorageThroughput", lustre={"PerUnitStorageThroughput": 200}),
    create("a throughput for SCRATCH_2", "BadRequest", lustre={"DeploymentType": "SCRATCH_2"}),
    create(
        "a key for SCRATCH_2",
        "BadRequest",
        lustre={"DeploymentType": "SCRATCH_2", "PerUnitStorageThroughput": None},
        KmsKeyId="alias/aws/fsx",
    ),
    create("a nonexistent key", "BadRequest", KmsKeyId="alias/missing"),
    create("an old version for PERSISTENT_2", "BadRequest", FileSystemTypeVersion="2.10"),
    create("no subnet", "BadRequest", SubnetIds=[]),
    Refusal(
        "two subnets", "create_file_system", lambda world, **_: world.build_request(SubnetIds=world.subnets), "BadRequest", CREATE
    ),
    network("a missing subnet", lambda world: {"SubnetIds": ["subnet-0123456789abcdef0"]}),
    network("a missing security group", lambda world: {"SecurityGroupIds": ["sg-0123456789abcdef0"]}),
    network("servers that cannot reach each other", lambda world: {"SecurityGroupIds": [world.nodes]}, "port 988", PORT),
    create("a setting that is not emulated", "NotImplementedInLocalCloud", lustre={"EfaEnabled": True}),
    create("a deployment type that is not emulated", "NotImplementedInLocalCloud", lustre={"DeploymentType": "SCRATCH_1"}),
    update("a smaller size", "BadRequest", StorageCapacity=1200),
    update("a size between the steps", "BadRequest", StorageCapacity=3600),
    update("an unknown throughput", "InvalidPerUnitStorageThroughput", LustreConfiguration={"PerUnitStorageThroughput": 300}),
    update("an older version", "BadRequest", FileSystemTypeVersion="2.12"),
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
    link("a missing file system", "FileSystemNotFound", FileSystemId="fs-00000000"),
    link("a path that is not in S3", "BadRequest", DataRepositoryPath="nfs://server/export"),
    link("a directory inside a linked one", "BadRequest", FileSystemPath="/data/more"),
    link("a prefix inside a linked one", "BadRequest", DataRepositoryPath=f"s3://{BUCKET}/sets/more"),
    link("the whole file system beside a linked directory", "BadRequest", FileSystemPath="/"),
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
    world.described(scratch)
    world.link(scratch)
    refusal.check(world.fsx, world=world, persistent=persistent, scratch=scratch)
