"""S3 buckets."""

from typing import Any

from botocore.exceptions import ClientError

from localcloud.engine.aws.resource import Args, AutoName, Aws, Failed, Prop, Resource, State, register
from localcloud.engine.aws.resources.efs import DNS_SUFFIXES
from localcloud.engine.aws.resources.names import physical_name
from localcloud.engine.aws.resources.progress import Seen, until_gone
from localcloud.engine.aws.resources.requests import code_of, completing, unless_gone
from localcloud.engine.aws.resources.tags import TAGS, from_pairs, pairs, tag_changes, tag_state, wanted_tags

BUCKET_GONE = "NoSuchBucket"


@register
class Bucket(Resource):
    """S3 bucket. Its settings are separate resources (s3_settings.py, s3_lifecycle.py)."""

    token = "aws:s3/bucket:Bucket"
    title = "S3 Bucket"
    auto_name = AutoName(property="bucket", max_length=63, lower=True, unless=("bucketPrefix",))
    props = {
        "bucket": Prop(replace=True),
        "bucketPrefix": Prop(replace=True, write_only=True),
        "objectLockEnabled": Prop(replace=True),
        "forceDestroy": Prop(write_only=True, default=False),
        **TAGS,
    }

    def create(self, aws: Aws, args: Args) -> str:
        name = physical_name(args, "bucket", "bucketPrefix")
        request: dict[str, Any] = {}
        if aws.region != "us-east-1":  # S3 refuses us-east-1 as a location constraint
            request["CreateBucketConfiguration"] = {"LocationConstraint": aws.region}
        if args.get("objectLockEnabled"):
            request["ObjectLockEnabledForBucket"] = True
        aws.client("s3").create_bucket(Bucket=name, **request)
        with completing(name):
            if wanted_tags(args):
                aws.client("s3").put_bucket_tagging(Bucket=name, Tagging={"TagSet": pairs(wanted_tags(args))})
        return name

    def read(self, aws: Aws, id: str, known: State) -> State | None:
        if self._seen(aws, id) is None:
            return None
        suffix = DNS_SUFFIXES[aws.partition]
        return {
            "bucket": id,
            "objectLockEnabled": self._is_locked(aws, id),
            **tag_state(self._tags(aws, id)),
            "arn": f"arn:{aws.partition}:s3:::{id}",
            "bucketDomainName": f"{id}.s3.{suffix}",
            "bucketRegionalDomainName": f"{id}.s3.{aws.region}.{suffix}",
            "bucketRegion": aws.client("s3").get_bucket_location(Bucket=id).get("LocationConstraint") or "us-east-1",
        }

    def update(self, aws: Aws, id: str, old: State, new: Args, changed: frozenset[str]) -> None:
        if "tags" not in changed:
            return
        s3, tags = aws.client("s3"), tag_changes(old, new)
        kept = {key: value for key, value in self._tags(aws, id).items() if key not in tags.removed}
        if kept or tags.written:
            s3.put_bucket_tagging(Bucket=id, Tagging={"TagSet": pairs({**kept, **tags.written})})
        else:
            s3.delete_bucket_tagging(Bucket=id)

    def delete(self, aws: Aws, id: str, state: State) -> None:
        s3, may_empty = aws.client("s3"), bool(state.get("forceDestroy"))
        with unless_gone(BUCKET_GONE):
            try:
                s3.delete_bucket(Bucket=id)
            except ClientError as error:
                if code_of(error) != "BucketNotEmpty" or not may_empty:
                    raise
                self._empty(s3, id, bool(state.get("objectLockEnabled")))
                s3.delete_bucket(Bucket=id)
        until_gone(aws, f"S3 Bucket ({id}) delete", lambda: self._seen(aws, id))

    @staticmethod
    def _empty(s3: Any, id: str, locked: bool) -> None:
        """Delete all object versions and delete markers."""
        bypass = {"BypassGovernanceRetention": True} if locked else {}
        for page in s3.get_paginator("list_object_versions").paginate(Bucket=id):
            found = [*page.get("Versions", ()), *page.get("DeleteMarkers", ())]
            objects = [{"Key": one["Key"], "VersionId": one["VersionId"]} for one in found]
            if objects:
                answer = s3.delete_objects(Bucket=id, Delete={"Objects": objects, "Quiet": True}, **bypass)
                for error in answer.get("Errors", ()):
                    raise Failed(f"emptying S3 Bucket ({id}): {error['Key']}: {error['Code']}: {error['Message']}")

    @staticmethod
    def _tags(aws: Aws, id: str) -> dict[str, str]:
        try:
            return from_pairs(aws.client("s3").get_bucket_tagging(Bucket=id)["TagSet"])
        except ClientError as error:
            if code_of(error) == "NoSuchTagSet":
                return {}
            raise

    @staticmethod
    def _is_locked(aws: Aws, id: str) -> bool:
        try:
            found = aws.client("s3").get_object_lock_configuration(Bucket=id)["ObjectLockConfiguration"]
        except ClientError as error:
            if code_of(error) == "ObjectLockConfigurationNotFoundError":
                return False
            raise
        return bool(found.get("ObjectLockEnabled") == "Enabled")

    @staticmethod
    def _seen(aws: Aws, id: str) -> Seen | None:
        try:
            aws.client("s3").head_bucket(Bucket=id)
        except ClientError as error:
            if code_of(error) in (BUCKET_GONE, "404"):
                return None
            raise
        return Seen("available")
