"""ECR repositories: behavior that the tests for all resource types do not cover."""

import json

import pytest

from localcloud.engine.aws.lifecycle import OperationFailed
from localcloud.engine.aws.resource import RESOURCES
from tests.engine.life import Life
from tests.engine.world import World, module_account, new_world  # noqa: F401

REPOSITORY = RESOURCES["aws:ecr/repository:Repository"]


def push_image(world: World, repository: str) -> None:
    manifest = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "layers": []}
    world.client("ecr").put_image(repositoryName=repository, imageManifest=json.dumps(manifest), imageTag="1")


def test_a_repository_with_images_is_not_deleted(world: World) -> None:
    repository = Life(REPOSITORY, world.aws, {"name": world.name("train")})
    push_image(world, repository.id)
    with pytest.raises(OperationFailed, match=r"ECR Repository \(.*train\): not empty, consider using force_delete: .*images"):
        repository.delete()
    assert repository.refresh() is not None


def test_force_delete_deletes_a_repository_with_its_images(world: World) -> None:
    repository = Life(REPOSITORY, world.aws, {"name": world.name("train"), "forceDelete": True})
    push_image(world, repository.id)
    repository.delete()
    assert repository.refresh() is None


def test_kms_encryption_without_a_key_uses_the_aws_managed_key(world: World) -> None:
    repository = Life(
        REPOSITORY, world.aws, {"name": world.name("train"), "encryptionConfigurations": [{"encryptionType": "KMS"}]}
    )
    (encryption,) = repository.state["encryptionConfigurations"]
    assert world.client("kms").describe_key(KeyId=encryption["kmsKey"])["KeyMetadata"]["KeyManager"] == "AWS"
    repository.refresh()
    assert repository.find_differences() == set()
