"""Bucket settings: public access, object ownership, encryption, policy, versioning."""

from abc import abstractmethod
from typing import Any

from botocore.exceptions import ClientError

from localcloud.engine.aws.resource import Args, Aws, Prop, Resource, State, register
from localcloud.engine.aws.resources.requests import get_error_code, ignore_gone, to_request, to_state
from localcloud.engine.aws.resources.s3 import BUCKET_GONE

SWITCHES = {
    "blockPublicAcls": "BlockPublicAcls",
    "blockPublicPolicy": "BlockPublicPolicy",
    "ignorePublicAcls": "IgnorePublicAcls",
    "restrictPublicBuckets": "RestrictPublicBuckets",
}
BY_DEFAULT = {"sseAlgorithm": "SSEAlgorithm", "kmsMasterKeyId": "KMSMasterKeyID"}


class BucketSetting(Resource):
    """Setting of an S3 bucket. The ID of a setting is the bucket's name, and `put` creates or changes the setting."""

    absent: str
    """Error code that S3 returns if the bucket does not have the setting."""

    @abstractmethod
    def put(self, aws: Aws, id: str, args: Args) -> None: ...

    @abstractmethod
    def get(self, aws: Aws, id: str, recorded: State) -> State | None: ...

    @abstractmethod
    def remove(self, aws: Aws, id: str) -> None: ...

    def create(self, aws: Aws, args: Args) -> str:
        id = str(args["bucket"])
        self.put(aws, id, args)
        return id

    def read(self, aws: Aws, id: str, recorded: State) -> State | None:
        try:
            setting = self.get(aws, id, recorded)
        except ClientError as error:
            if get_error_code(error) in (BUCKET_GONE, self.absent):
                return None
            raise
        return None if setting is None else {"bucket": id, **setting}

    def update(self, aws: Aws, id: str, old: State, new: Args, changed: frozenset[str]) -> None:
        if any(not self.props[name].write_only for name in changed):
            self.put(aws, id, new)

    def delete(self, aws: Aws, id: str, state: State) -> None:
        if not state.get("skipDestroy"):
            with ignore_gone(BUCKET_GONE, self.absent):
                self.remove(aws, id)


@register
class BucketPublicAccessBlock(BucketSetting):
    token = "aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock"
    title = "S3 Bucket Public Access Block"
    absent = "NoSuchPublicAccessBlockConfiguration"
    props = {
        "bucket": Prop(replace=True),
        **dict.fromkeys(SWITCHES, Prop(default=False)),
        "skipDestroy": Prop(write_only=True, default=False),
    }

    def put(self, aws: Aws, id: str, args: Args) -> None:
        switches = {theirs: bool(args.get(ours)) for ours, theirs in SWITCHES.items()}
        aws.client("s3").put_public_access_block(Bucket=id, PublicAccessBlockConfiguration=switches)

    def get(self, aws: Aws, id: str, recorded: State) -> State:
        block = aws.client("s3").get_public_access_block(Bucket=id)["PublicAccessBlockConfiguration"]
        return {ours: bool(block.get(theirs)) for ours, theirs in SWITCHES.items()}

    def remove(self, aws: Aws, id: str) -> None:
        aws.client("s3").delete_public_access_block(Bucket=id)


@register
class BucketOwnershipControls(BucketSetting):
    token = "aws:s3/bucketOwnershipControls:BucketOwnershipControls"
    title = "S3 Bucket Ownership Controls"
    absent = "OwnershipControlsNotFoundError"
    props = {"bucket": Prop(replace=True), "rule": Prop(fields={"objectOwnership": Prop()})}

    def put(self, aws: Aws, id: str, args: Args) -> None:
        rule = {"ObjectOwnership": args["rule"]["objectOwnership"]}
        aws.client("s3").put_bucket_ownership_controls(Bucket=id, OwnershipControls={"Rules": [rule]})

    def get(self, aws: Aws, id: str, recorded: State) -> State | None:
        rules = aws.client("s3").get_bucket_ownership_controls(Bucket=id)["OwnershipControls"]["Rules"]
        return {"rule": {"objectOwnership": rules[0]["ObjectOwnership"]}} if rules else None

    def remove(self, aws: Aws, id: str) -> None:
        aws.client("s3").delete_bucket_ownership_controls(Bucket=id)


@register
class BucketServerSideEncryptionConfiguration(BucketSetting):
    token = "aws:s3/bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration"
    title = "S3 Bucket Server Side Encryption Configuration"
    absent = "ServerSideEncryptionConfigurationNotFoundError"
    props = {
        "bucket": Prop(replace=True),
        "rules": Prop(
            unordered=True,
            fields={
                "applyServerSideEncryptionByDefault": Prop(fields={"sseAlgorithm": Prop(), "kmsMasterKeyId": Prop(default="")}),
                "bucketKeyEnabled": Prop(),
            },
        ),
    }

    def put(self, aws: Aws, id: str, args: Args) -> None:
        rules = []
        for rule in args["rules"]:
            request = to_request(rule, {"bucketKeyEnabled": "BucketKeyEnabled"})
            if rule.get("applyServerSideEncryptionByDefault"):
                request["ApplyServerSideEncryptionByDefault"] = to_request(rule["applyServerSideEncryptionByDefault"], BY_DEFAULT)
            rules.append(request)
        aws.client("s3").put_bucket_encryption(Bucket=id, ServerSideEncryptionConfiguration={"Rules": rules})

    def get(self, aws: Aws, id: str, recorded: State) -> State:
        rules = aws.client("s3").get_bucket_encryption(Bucket=id)["ServerSideEncryptionConfiguration"]["Rules"]
        return {"rules": [self._build_rule_state(rule) for rule in rules]}

    def remove(self, aws: Aws, id: str) -> None:
        aws.client("s3").delete_bucket_encryption(Bucket=id)

    @staticmethod
    def _build_rule_state(rule: dict[str, Any]) -> State:
        by_default = to_state(rule.get("ApplyServerSideEncryptionByDefault") or {}, BY_DEFAULT)
        return {
            **to_state(rule, {"bucketKeyEnabled": "BucketKeyEnabled"}),
            **({"applyServerSideEncryptionByDefault": by_default} if by_default else {}),
        }


@register
class BucketPolicy(BucketSetting):
    token = "aws:s3/bucketPolicy:BucketPolicy"
    title = "S3 Bucket Policy"
    absent = "NoSuchBucketPolicy"
    props = {"bucket": Prop(replace=True), "policy": Prop(json=True)}

    def put(self, aws: Aws, id: str, args: Args) -> None:
        aws.client("s3").put_bucket_policy(Bucket=id, Policy=args["policy"])

    def get(self, aws: Aws, id: str, recorded: State) -> State:
        return {"policy": aws.client("s3").get_bucket_policy(Bucket=id)["Policy"]}

    def remove(self, aws: Aws, id: str) -> None:
        aws.client("s3").delete_bucket_policy(Bucket=id)


@register
class BucketVersioning(BucketSetting):
    token = "aws:s3/bucketVersioning:BucketVersioning"
    title = "S3 Bucket Versioning"
    absent = BUCKET_GONE
    props = {"bucket": Prop(replace=True), "versioningConfiguration": Prop(fields={"status": Prop()})}

    def put(self, aws: Aws, id: str, args: Args) -> None:
        """Set the versioning status. `Disabled` needs no request: it is the initial status, and S3 cannot set it
        again."""
        status = args["versioningConfiguration"]["status"]
        if status != "Disabled":
            aws.client("s3").put_bucket_versioning(Bucket=id, VersioningConfiguration={"Status": status})

    def get(self, aws: Aws, id: str, recorded: State) -> State:
        status = aws.client("s3").get_bucket_versioning(Bucket=id).get("Status") or "Disabled"
        return {"versioningConfiguration": {"status": status}}

    def remove(self, aws: Aws, id: str) -> None:
        if aws.client("s3").get_bucket_versioning(Bucket=id).get("Status"):
            aws.client("s3").put_bucket_versioning(Bucket=id, VersioningConfiguration={"Status": "Suspended"})
