"""Calls that S3 rejects."""

import pytest

from testkit.aws_clients import Client
from tests.local_aws.documents import allow_statement, deny_statement, make_policy
from tests.local_aws.refusals import Refusal

NAMES = "https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html"
OWNERSHIP = "https://docs.aws.amazon.com/AmazonS3/latest/userguide/about-object-ownership.html"
POLICY = "https://docs.aws.amazon.com/AmazonS3/latest/API/API_PutBucketPolicy.html"
PUBLIC = "https://docs.aws.amazon.com/AmazonS3/latest/userguide/access-control-block-public-access.html"
LIFECYCLE = "https://docs.aws.amazon.com/AmazonS3/latest/API/API_PutBucketLifecycleConfiguration.html"
ENCRYPTION = "https://docs.aws.amazon.com/AmazonS3/latest/API/API_PutBucketEncryption.html"
HERE = {"LocationConstraint": "us-west-2"}
BUCKET = "arn:aws:s3:::key-bucket"


def reject_name(what: str, bucket: str) -> Refusal:
    return Refusal(what, "create_bucket", {"Bucket": bucket, "CreateBucketConfiguration": HERE}, "InvalidBucketName", NAMES)


def reject_policy(what: str, text: str, message: str) -> Refusal:
    return Refusal(what, "put_bucket_policy", {"Bucket": "key-bucket", "Policy": text}, "MalformedPolicy", POLICY, message)


def reject_lifecycle(what: str, code: str, **rule: object) -> Refusal:
    whole = {"ID": "r", "Status": "Enabled", "Filter": {"Prefix": ""}, **rule}
    params = {"Bucket": "key-bucket", "LifecycleConfiguration": {"Rules": [whole]}}
    return Refusal(what, "put_bucket_lifecycle_configuration", params, code, LIFECYCLE)


def reject_encryption(what: str, code: str, **default: str) -> Refusal:
    rules = [{"ApplyServerSideEncryptionByDefault": default}]
    params = {"Bucket": "key-bucket", "ServerSideEncryptionConfiguration": {"Rules": rules}}
    return Refusal(what, "put_bucket_encryption", params, code, ENCRYPTION)


REFUSALS = [
    reject_name("a name with capitals", "Capitals"),
    reject_name("a name with an underscore", "under_score"),
    reject_name("a name of two letters", "ab"),
    reject_name("a name that is too long", "a" * 64),
    reject_name("a name in the form of an IP address", "192.168.5.4"),
    reject_name("a name with consecutive dots", "a..b"),
    reject_name("a trailing hyphen", "bucket-"),
    reject_name("a reserved prefix", "xn--bucket"),
    reject_name("a reserved suffix", "bucket-s3alias"),
    Refusal(
        "a create request to another Region without a location constraint",
        "create_bucket",
        {"Bucket": "some-bucket"},
        "IllegalLocationConstraintException",
        "https://docs.aws.amazon.com/AmazonS3/latest/API/API_CreateBucket.html",
    ),
    Refusal(
        "the name of a bucket that the caller already owns",
        "create_bucket",
        {"Bucket": "key-bucket", "CreateBucketConfiguration": HERE},
        "BucketAlreadyOwnedByYou",
        "https://docs.aws.amazon.com/AmazonS3/latest/API/API_CreateBucket.html",
    ),
    Refusal(
        "an ACL on a new bucket, for which ACLs are disabled",
        "create_bucket",
        {"Bucket": "some-bucket", "CreateBucketConfiguration": HERE, "ACL": "public-read"},
        "InvalidBucketAclWithObjectOwnership",
        OWNERSHIP,
    ),
    Refusal("an ACL", "put_bucket_acl", {"Bucket": "key-bucket", "ACL": "private"}, "AccessControlListNotSupported", OWNERSHIP),
    Refusal(
        "an unknown ownership",
        "put_bucket_ownership_controls",
        {"Bucket": "key-bucket", "OwnershipControls": {"Rules": [{"ObjectOwnership": "Nobody"}]}},
        "MalformedXML",
        "https://docs.aws.amazon.com/AmazonS3/latest/API/API_PutBucketOwnershipControls.html",
    ),
    reject_policy("a policy that is not JSON", "{nope", "valid JSON"),
    reject_policy("a policy without statements", make_policy(), "Statement"),
    reject_policy("an unknown version", make_policy(allow_statement(), Version="2020-01-01"), "version"),
    reject_policy("a statement without a principal", make_policy(deny_statement(Action="s3:*", Resource=BUCKET)), "Principal"),
    reject_policy("a statement without a resource", make_policy(deny_statement(Principal="*", Action="s3:*")), "Resource"),
    reject_policy(
        "another bucket",
        make_policy(deny_statement(Principal="*", Action="s3:*", Resource="arn:aws:s3:::other")),
        "invalid resource",
    ),
    reject_policy(
        "another service's action",
        make_policy(deny_statement(Principal="*", Action="ec2:RunInstances", Resource=BUCKET)),
        "invalid action",
    ),
    reject_policy(
        "an object action whose only resource is the bucket",
        make_policy(deny_statement(Principal="*", Action="s3:GetObject", Resource=BUCKET)),
        "does not apply to any resource",
    ),
    reject_policy(
        "a bucket action whose only resources are objects",
        make_policy(deny_statement(Principal="*", Action="s3:ListBucket", Resource=f"{BUCKET}/*")),
        "does not apply to any resource",
    ),
    reject_policy(
        "a nonexistent role",
        make_policy(allow_statement(Principal={"AWS": "arn:aws:iam::123456789012:role/nobody"}, Action="s3:*", Resource=BUCKET)),
        "Invalid principal",
    ),
    reject_policy(
        "an unknown element", make_policy(deny_statement(Principal="*", Action="s3:*", Resource=BUCKET, Reason="x")), "Reason"
    ),
    reject_policy(
        "an unknown condition",
        make_policy(
            deny_statement(Principal="*", Action="s3:*", Resource=BUCKET, Condition={"Booll": {"aws:SecureTransport": "false"}})
        ),
        "Booll",
    ),
    reject_policy(
        "a lowercase effect", make_policy({"Effect": "deny", "Principal": "*", "Action": "s3:*", "Resource": BUCKET}), "effect"
    ),
    Refusal(
        "a public policy on a bucket that blocks public policies",
        "put_bucket_policy",
        {
            "Bucket": "key-bucket",
            "Policy": make_policy(allow_statement(Principal="*", Action="s3:GetObject", Resource=f"{BUCKET}/*")),
        },
        "AccessDenied",
        PUBLIC,
        "BlockPublicPolicy",
    ),
    reject_lifecycle("a rule without an action", "InvalidRequest"),
    reject_lifecycle("expiration after 0 days", "InvalidArgument", Expiration={"Days": 0}),
    reject_lifecycle("an invalid status", "MalformedXML", Status="On", Expiration={"Days": 1}),
    reject_encryption("an unknown algorithm", "MalformedXML", SSEAlgorithm="AES512"),
    reject_encryption("a KMS key with AES256", "InvalidArgument", SSEAlgorithm="AES256", KMSMasterKeyID="alias/k"),
    Refusal(
        "an unknown versioning status",
        "put_bucket_versioning",
        {"Bucket": "key-bucket", "VersioningConfiguration": {"Status": "On"}},
        "IllegalVersioningConfigurationException",
        "https://docs.aws.amazon.com/AmazonS3/latest/API/API_PutBucketVersioning.html",
    ),
    Refusal(
        "a bucket with objects",
        "delete_bucket",
        {"Bucket": "key-bucket"},
        "BucketNotEmpty",
        "https://docs.aws.amazon.com/AmazonS3/latest/API/API_DeleteBucket.html",
    ),
    Refusal(
        "a missing bucket",
        "get_bucket_policy",
        {"Bucket": "missing-bucket"},
        "NoSuchBucket",
        "https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html",
    ),
]


@pytest.mark.parametrize("refusal", REFUSALS, ids=str)
def test_s3_rejects_invalid_requests(aws: Client, refusal: Refusal) -> None:
    s3 = aws("s3")
    s3.create_bucket(Bucket="key-bucket", CreateBucketConfiguration=HERE)
    s3.put_object(Bucket="key-bucket", Key="k", Body=b"x")
    refusal.check(s3)
