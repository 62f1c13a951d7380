"""S3 buckets in the local AWS behave like those in AWS."""

from typing import Any

import pytest
from botocore.exceptions import ClientError

from testkit.aws_clients import Client, LocalAws
from tests.local_aws.documents import ACCOUNT_ROOT, allow_statement, deny_statement, make_policy, make_trust_policy

HERE = {"LocationConstraint": "us-west-2"}
BUCKET = "arn:aws:s3:::key-bucket"
TLS_ONLY = make_policy(
    deny_statement(
        Principal="*", Action="s3:*", Resource=[BUCKET, f"{BUCKET}/*"], Condition={"Bool": {"aws:SecureTransport": "false"}}
    )
)


@pytest.fixture
def s3(aws: Client) -> Any:
    client = aws("s3")
    client.create_bucket(Bucket="key-bucket", CreateBucketConfiguration=HERE)
    return client


def is_denied(call: Any, **params: Any) -> bool:
    try:
        call(**params)
    except ClientError as error:
        return error.response["ResponseMetadata"]["HTTPStatusCode"] == 403
    return False


def test_a_new_bucket_is_private_and_encrypted(s3: Any) -> None:
    block = s3.get_public_access_block(Bucket="key-bucket")["PublicAccessBlockConfiguration"]
    rules = s3.get_bucket_encryption(Bucket="key-bucket")["ServerSideEncryptionConfiguration"]["Rules"]
    ownership = s3.get_bucket_ownership_controls(Bucket="key-bucket")["OwnershipControls"]["Rules"]
    assert all(block.values())
    assert rules[0]["ApplyServerSideEncryptionByDefault"] == {"SSEAlgorithm": "AES256"}
    assert ownership == [{"ObjectOwnership": "BucketOwnerEnforced"}]


def test_deleting_the_bucket_encryption_restores_the_default(s3: Any) -> None:
    rules = [{"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "aws:kms"}, "BucketKeyEnabled": True}]
    s3.put_bucket_encryption(Bucket="key-bucket", ServerSideEncryptionConfiguration={"Rules": rules})
    s3.delete_bucket_encryption(Bucket="key-bucket")
    now = s3.get_bucket_encryption(Bucket="key-bucket")["ServerSideEncryptionConfiguration"]["Rules"]
    assert now[0]["ApplyServerSideEncryptionByDefault"] == {"SSEAlgorithm": "AES256"}


def test_acls_work_if_object_ownership_allows_them(s3: Any) -> None:
    s3.put_bucket_ownership_controls(
        Bucket="key-bucket", OwnershipControls={"Rules": [{"ObjectOwnership": "BucketOwnerPreferred"}]}
    )
    s3.put_bucket_acl(Bucket="key-bucket", ACL="private")


def test_a_policy_that_requires_tls_allows_only_https(aws: Client, s3: Any) -> None:
    s3.put_bucket_policy(Bucket="key-bucket", Policy=TLS_ONLY)
    plain = aws("s3", use_ssl=False)
    s3.put_object(Bucket="key-bucket", Key="k", Body=b"x")
    assert s3.get_object(Bucket="key-bucket", Key="k")["Body"].read() == b"x"
    assert is_denied(plain.get_object, Bucket="key-bucket", Key="k")
    assert is_denied(plain.head_object, Bucket="key-bucket", Key="k")
    assert is_denied(plain.put_object, Bucket="key-bucket", Key="k2", Body=b"x")
    assert is_denied(plain.list_objects_v2, Bucket="key-bucket")
    assert is_denied(plain.delete_objects, Bucket="key-bucket", Delete={"Objects": [{"Key": "k"}]})


def test_requests_over_the_loopback_interface_count_as_tls(server: LocalAws) -> None:
    s3 = server.client("s3")
    s3.create_bucket(Bucket="key-bucket", CreateBucketConfiguration=HERE)
    s3.put_bucket_policy(Bucket="key-bucket", Policy=TLS_ONLY)
    s3.put_object(Bucket="key-bucket", Key="a/b c+d", Body=b"x" * 100_000)
    assert s3.get_object(Bucket="key-bucket", Key="a/b c+d")["Body"].read() == b"x" * 100_000


@pytest.mark.parametrize(
    ("statement", "operation", "params", "denied"),
    [
        (
            deny_statement(Principal="*", Action="s3:DeleteObject", Resource=f"{BUCKET}/keep/*"),
            "delete_object",
            {"Key": "keep/a"},
            True,
        ),
        (
            deny_statement(Principal="*", Action="s3:DeleteObject", Resource=f"{BUCKET}/keep/*"),
            "delete_object",
            {"Key": "a"},
            False,
        ),
        (
            deny_statement(
                Principal="*", Action="s3:ListBucket", Resource=BUCKET, Condition={"StringNotLike": {"s3:prefix": "mine/*"}}
            ),
            "list_objects_v2",
            {"Prefix": "theirs/"},
            True,
        ),
        (
            deny_statement(
                Principal="*", Action="s3:ListBucket", Resource=BUCKET, Condition={"StringNotLike": {"s3:prefix": "mine/*"}}
            ),
            "list_objects_v2",
            {"Prefix": "mine/x"},
            False,
        ),
        (
            deny_statement(
                Principal="*", Action="s3:*", Resource=f"{BUCKET}/*", Condition={"NumericLessThan": {"s3:TlsVersion": "1.2"}}
            ),
            "get_object",
            {"Key": "a"},
            False,
        ),
        (
            deny_statement(Principal={"AWS": "111122223333"}, Action="s3:*", Resource=f"{BUCKET}/*"),
            "get_object",
            {"Key": "a"},
            False,
        ),
        (
            deny_statement(Principal={"AWS": ACCOUNT_ROOT}, Action="s3:*", Resource=f"{BUCKET}/*"),
            "get_object",
            {"Key": "a"},
            True,
        ),
        (deny_statement(Principal="*", NotAction="s3:GetObject", Resource=f"{BUCKET}/*"), "get_object", {"Key": "a"}, False),
        (deny_statement(Principal="*", Action="s3:GetObject", NotResource=f"{BUCKET}/b"), "get_object", {"Key": "a"}, True),
    ],
)
def test_a_deny_statement_applies_only_to_its_resources(
    s3: Any, statement: dict[str, Any], operation: str, params: dict[str, Any], denied: bool
) -> None:
    s3.put_object(Bucket="key-bucket", Key="a", Body=b"x")
    s3.put_bucket_policy(Bucket="key-bucket", Policy=make_policy(statement))
    assert is_denied(getattr(s3, operation), Bucket="key-bucket", **params) == denied


def test_a_role_session_has_the_permissions_of_its_role(aws: Client, s3: Any) -> None:
    iam = aws("iam")
    role = iam.create_role(RoleName="node", AssumeRolePolicyDocument=make_trust_policy({"AWS": ACCOUNT_ROOT}))["Role"]
    iam.put_role_policy(
        RoleName="node",
        PolicyName="keys",
        PolicyDocument=make_policy(
            allow_statement(Action="s3:PutObject", Resource=f"{BUCKET}/nodes/${{aws:userid}}/*"),
            allow_statement(Action="s3:GetObject", Resource=f"{BUCKET}/*"),
        ),
    )
    session = aws("sts").assume_role(RoleArn=role["Arn"], RoleSessionName="i-1")
    keys = session["Credentials"]
    node = aws(
        "s3",
        aws_access_key_id=keys["AccessKeyId"],
        aws_secret_access_key=keys["SecretAccessKey"],
        aws_session_token=keys["SessionToken"],
    )
    node.put_object(Bucket="key-bucket", Key=f"nodes/{session['AssumedRoleUser']['AssumedRoleId']}/key", Body=b"x")
    s3.put_object(Bucket="key-bucket", Key="nodes/other/key", Body=b"x")
    assert not is_denied(node.get_object, Bucket="key-bucket", Key="nodes/other/key")
    assert is_denied(node.put_object, Bucket="key-bucket", Key="nodes/other/key", Body=b"y")
    assert is_denied(node.list_objects_v2, Bucket="key-bucket")
    assert is_denied(node.delete_object, Bucket="key-bucket", Key="nodes/other/key")
