"""S3 buckets: cases beyond those tested for every resource type."""

import pytest

from localcloud.engine.aws.lifecycle import OperationFailed
from localcloud.engine.aws.resource import RESOURCES, Aws
from tests.engine.life import Life
from tests.engine.world import World, module_account, new_world  # noqa: F401

BUCKET = RESOURCES["aws:s3/bucket:Bucket"]
VERSIONING = RESOURCES["aws:s3/bucketVersioning:BucketVersioning"]
PUBLIC_ACCESS = RESOURCES["aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock"]


def create_full_bucket(world: World, **inputs: bool) -> Life:
    """Create a bucket with old object versions and a delete marker."""
    bucket = Life(BUCKET, world.aws, {"bucket": world.name("keys"), **inputs})
    Life(VERSIONING, world.aws, {"bucket": bucket.id, "versioningConfiguration": {"status": "Enabled"}})
    s3 = world.client("s3")
    for body in (b"one", b"two"):
        s3.put_object(Bucket=bucket.id, Key="nodes/one", Body=body)
    s3.put_object(Bucket=bucket.id, Key="nodes/two", Body=b"three")
    s3.delete_object(Bucket=bucket.id, Key="nodes/one")
    return bucket


def test_force_destroy_deletes_a_bucket_with_all_versions(world: World) -> None:
    bucket = create_full_bucket(world, forceDestroy=True)
    bucket.delete()
    assert bucket.refresh() is None


def test_a_bucket_with_objects_is_not_deleted(world: World) -> None:
    bucket = create_full_bucket(world)
    with pytest.raises(OperationFailed, match=r"deleting S3 Bucket .*BucketNotEmpty"):
        bucket.delete()
    assert len(world.client("s3").list_object_versions(Bucket=bucket.id)["Versions"]) == 3


@pytest.mark.parametrize("region", ["us-east-1", "eu-central-1"])
def test_a_bucket_is_created_in_the_region_of_the_provider(world: World, region: str) -> None:
    bucket = Life(BUCKET, Aws(region, endpoint=None), {"bucket": world.name("keys")})
    assert bucket.state["bucketRegion"] == region
    assert bucket.state["bucketRegionalDomainName"] == f"{bucket.id}.s3.{region}.amazonaws.com"


def test_tags_set_elsewhere_stay_on_a_bucket(world: World) -> None:
    bucket = Life(BUCKET, world.aws, {"bucket": world.name("keys"), "tags": {"ours": "1"}})
    tags = [{"Key": "ours", "Value": "1"}, {"Key": "theirs", "Value": "2"}]
    world.client("s3").put_bucket_tagging(Bucket=bucket.id, Tagging={"TagSet": tags})
    bucket.update({"bucket": bucket.id, "tags": {"ours": "3"}})
    assert bucket.state["tags"] == {"ours": "3", "theirs": "2"}


def test_skip_destroy_keeps_the_public_access_block_on_the_bucket(world: World) -> None:
    block = Life(PUBLIC_ACCESS, world.aws, {"bucket": world.bucket, "blockPublicAcls": True, "skipDestroy": True})
    block.delete()
    assert block.refresh() is not None


def test_settings_of_a_deleted_bucket_are_gone_after_a_refresh(world: World) -> None:
    bucket = Life(BUCKET, world.aws, {"bucket": world.name("keys")})
    block = Life(PUBLIC_ACCESS, world.aws, {"bucket": bucket.id, "blockPublicAcls": True})
    bucket.delete()
    assert block.refresh() is None
    block.delete()
