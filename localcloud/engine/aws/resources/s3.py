"""S3 buckets."""

from typing import Any

from botocore.exceptions import ClientError

from localcloud.engine.aws.resource import Args, AutoName, Aws, Failed, Prop, Resource, State, register
from localcloud.engine.aws.resources.efs import DNS_SUFFIXES
from localcloud.engine.aws.resources.names import choose_physical_name
from localcloud.engine.aws.resources.progress import Seen, await_gone
from localcloud.engine.aws.resources.requests import get_error_code, ignore_gone
from localcloud.engine.aws.resources.tags import (
    TAGS,
    build_tag_state,
    compute_tag_changes,
    from_pairs,
    get_program_tags,
    to_pairs,
)

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
        name = choose_physical_name(args, "bucket", "bucketPrefix")
        request: dict[str, Any] = {}
        # S3 rejects us-east-1 as a location constraint.
        place = {} if aws.region == "us-east-1" else {"LocationConstraint": aws.region}
        tags = {"Tags": to_pairs(get_program_tags(args))} if get_program_tags(args) else {}
        if place or tags:
            request["CreateBucketConfiguration"] = {**place, **tags}
        if args.get("objectLockEnabled"):
            request["ObjectLockEnabledForBucket"] = True
        aws.client("s3").create_bucket(Bucket=name, **request)
        return name

    def read(self, aws: Aws, id: str, recorded: State) -> State | None:
        if self._read_status(aws, id) is None:
            return None
        suffix = DNS_SUFFIXES[aws.partition]
        return {
            "bucket": id,
            "objectLockEnabled": self._is_locked(aws, id),
            **build_tag_state(
                from_pairs(aws.client("s3control").list_tags_for_resource(**self._build_control_parameters(aws, id))["Tags"])
            ),
            "arn": self._build_control_parameters(aws, id)["ResourceArn"],
            "bucketDomainName": f"{id}.s3.{suffix}",
            "bucketRegionalDomainName": f"{id}.s3.{aws.region}.{suffix}",
            "bucketRegion": aws.client("s3").get_bucket_location(Bucket=id).get("LocationConstraint") or "us-east-1",
        }

    def update(self, aws: Aws, id: str, old: State, new: Args, changed: frozenset[str]) -> None:
        control, tags = aws.client("s3control"), compute_tag_changes(old, new)
        if "tags" in changed and tags.removed:
            control.untag_resource(**self._build_control_parameters(aws, id), TagKeys=sorted(tags.removed))
        if "tags" in changed and tags.written:
            control.tag_resource(**self._build_control_parameters(aws, id), Tags=to_pairs(tags.written))

    def delete(self, aws: Aws, id: str, state: State) -> None:
        s3, may_empty = aws.client("s3"), bool(state.get("forceDestroy"))
        with ignore_gone(BUCKET_GONE):
            try:
                s3.delete_bucket(Bucket=id)
            except ClientError as error:
                if get_error_code(error) != "BucketNotEmpty" or not may_empty:
                    raise
                self._delete_all_objects(s3, id, bool(state.get("objectLockEnabled")))
                s3.delete_bucket(Bucket=id)
        await_gone(aws, f"S3 Bucket ({id}) delete", lambda: self._read_status(aws, id))

    @staticmethod
    def _delete_all_objects(s3: Any, id: str, locked: bool) -> None:
        """Delete all object versions and delete markers."""
        bypass = {"BypassGovernanceRetention": True} if locked else {}
        for page in s3.get_paginator("list_object_versions").paginate(Bucket=id):
            versions = [*page.get("Versions", ()), *page.get("DeleteMarkers", ())]
            objects = [{"Key": version["Key"], "VersionId": version["VersionId"]} for version in versions]
            if objects:
                answer = s3.delete_objects(Bucket=id, Delete={"Objects": objects, "Quiet": True}, **bypass)
                for error in answer.get("Errors", ()):
                    raise Failed(f"emptying S3 Bucket ({id}): {error['Key']}: {error['Code']}: {error['Message']}")

    @staticmethod
    def _build_control_parameters(aws: Aws, id: str) -> dict[str, str]:
        """Return the parameters with which S3 Control identifies the bucket."""
        return {"AccountId": aws.account_id, "ResourceArn": f"arn:{aws.partition}:s3:::{id}"}

    @staticmethod
    def _is_locked(aws: Aws, id: str) -> bool:
        try:
            configuration = aws.client("s3").get_object_lock_configuration(Bucket=id)["ObjectLockConfiguration"]
        except ClientError as error:
            if get_error_code(error) == "ObjectLockConfigurationNotFoundError":
                return False
            raise
        return bool(configuration.get("ObjectLockEnabled") == "Enabled")

    @staticmethod
    def _read_status(aws: Aws, id: str) -> Seen | None:
        try:
            aws.client("s3").head_bucket(Bucket=id)
        except ClientError as error:
            if get_error_code(error) in (BUCKET_GONE, "404"):
                return None
            raise
        return Seen("available")
