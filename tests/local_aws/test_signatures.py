"""The server verifies the signature of each request with the secret key of its access key."""

import io
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

import botocore.auth
import pytest
import requests
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials
from botocore.exceptions import ClientError

from localcloud.aws.account import ACCOUNT, USER_ARN
from testkit.aws_clients import NO_RETRIES, REGION, LocalAws
from tests.local_aws.documents import make_trust_policy

WRONG_SECRET = {
    "ec2": ("describe_vpcs", "AuthFailure"),
    "eks": ("list_clusters", "InvalidSignatureException"),
    "iam": ("list_roles", "SignatureDoesNotMatch"),
    "kms": ("list_keys", "InvalidSignatureException"),
    "s3": ("list_buckets", "SignatureDoesNotMatch"),
    "sts": ("get_caller_identity", "SignatureDoesNotMatch"),
}
SKEWED = {
    "ec2": ("describe_vpcs", "RequestExpired"),
    "eks": ("list_clusters", "InvalidSignatureException"),
    "s3": ("list_buckets", "RequestTimeTooSkewed"),
    "sts": ("get_caller_identity", "SignatureDoesNotMatch"),
}


@pytest.fixture
def set_signing_clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Function that sets the clock with which this process signs, relative to the machine's clock."""

    def set_clock(offset: timedelta) -> None:
        monkeypatch.setattr(botocore.auth, "get_current_datetime", lambda: (datetime.now(UTC) + offset).replace(tzinfo=None))

    return set_clock


def catch_error_code(client: Any, operation: str, **params: Any) -> str:
    with pytest.raises(ClientError) as caught:
        getattr(client, operation)(**params)
    return str(caught.value.response["Error"]["Code"])


@pytest.mark.parametrize("service", WRONG_SECRET)
def test_a_request_signed_with_another_secret_key_is_refused(server: LocalAws, service: str) -> None:
    operation, code = WRONG_SECRET[service]
    getattr(server.client(service), operation)()
    assert catch_error_code(server.client(service, aws_secret_access_key="guessed"), operation) == code


@pytest.mark.parametrize("minutes", [-16, 16, -60 * 24])
@pytest.mark.parametrize("service", SKEWED)
def test_a_request_signed_too_long_ago_or_in_the_future_is_refused(
    server: LocalAws, set_signing_clock: Any, service: str, minutes: int
) -> None:
    operation, code = SKEWED[service]
    set_signing_clock(timedelta(minutes=minutes))
    assert catch_error_code(server.client(service), operation) == code
    set_signing_clock(timedelta(minutes=14 if minutes > 0 else -14))
    getattr(server.client(service), operation)()


def test_clients_can_sign_with_the_machine_clock_or_the_local_aws_clock(server: LocalAws, set_signing_clock: Any) -> None:
    server.call_control_api("POST", "clock", {"seconds": timedelta(days=30).total_seconds()})
    sts = server.client("sts")
    for days in (0, 15, 30):
        set_signing_clock(timedelta(days=days))
        assert sts.get_caller_identity()["Arn"] == USER_ARN
    set_signing_clock(timedelta(days=31))
    assert catch_error_code(sts, "get_caller_identity") == "SignatureDoesNotMatch"


def sign_request(server: LocalAws, body: str = "Action=ListRoles&Version=2010-05-08") -> AWSRequest:
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    request = AWSRequest("POST", f"{server.endpoint}/?first=1", headers=headers, data=body)
    credentials = Credentials(server.key.access_key_id, server.key.secret_access_key)
    botocore.auth.SigV4Auth(credentials, "iam", "us-east-1").add_auth(request)
    return request


def send_request(request: AWSRequest, **changes: Any) -> int:
    prepared = request.prepare()
    sent = {"method": prepared.method, "url": prepared.url, "headers": dict(prepared.headers), "data": prepared.body} | changes
    return requests.request(**sent, timeout=30).status_code


def test_a_request_modified_after_signing_is_refused(server: LocalAws) -> None:
    request = sign_request(server)
    assert send_request(request) == 200
    headers = dict(request.prepare().headers)
    assert send_request(request, data=b"Action=ListUsers&Version=2010-05-08") == 403, "body"
    assert send_request(request, url=request.url.replace("first=1", "first=2")) == 403, "query"
    assert send_request(request, url=request.url.replace("/?", "/x?")) == 403, "path"
    assert send_request(request, method="PUT") == 403, "method"
    assert send_request(request, headers={**headers, "Content-Type": "application/x-www-form-urlencoded; a=b"}) == 403
    assert send_request(request, headers={**headers, "X-Amz-Content-SHA256": "0" * 64}) == 403
    assert send_request(request, headers={**headers, "Host": f"localhost:{urlsplit(server.endpoint).port}"}) == 403
    assert send_request(request, headers={**headers, "X-Amz-Security-Token": "any"}) == 403, "a long-term key has none"
    assert send_request(request) == 200


@pytest.fixture
def role_credentials(server: LocalAws) -> dict[str, str]:
    """Credentials of a role session."""
    server.client("iam").create_role(RoleName="job", AssumeRolePolicyDocument=make_trust_policy({"AWS": USER_ARN}))
    role = f"arn:aws:iam::{ACCOUNT}:role/job"
    credentials: dict[str, str] = server.client("sts").assume_role(RoleArn=role, RoleSessionName="me")["Credentials"]
    return credentials


@pytest.mark.parametrize("kind", ["assumed role", "session token"])
def test_temporary_credentials_require_their_session_token(server: LocalAws, role_credentials: dict[str, str], kind: str) -> None:
    keys = role_credentials if kind == "assumed role" else server.client("sts").get_session_token()["Credentials"]

    def get_caller(token: str | None) -> Any:
        sts = server.client(
            "sts",
            aws_access_key_id=keys["AccessKeyId"],
            aws_secret_access_key=keys["SecretAccessKey"],
            aws_session_token=token,
        )
        return sts

    expected = f"arn:aws:sts::{ACCOUNT}:assumed-role/job/me" if kind == "assumed role" else USER_ARN
    assert get_caller(keys["SessionToken"]).get_caller_identity()["Arn"] == expected
    for wrong in (None, keys["SessionToken"] + "x", "any"):
        assert catch_error_code(get_caller(wrong), "get_caller_identity") == "InvalidClientTokenId"


def test_secret_keys_of_role_sessions_are_random(server: LocalAws, role_credentials: dict[str, str]) -> None:
    other_sessions = [server.client("sts").get_session_token()["Credentials"] for _ in range(3)]
    secrets = {keys["SecretAccessKey"] for keys in (role_credentials, *other_sessions)}
    assert (len(secrets), {len(secret) for secret in secrets}) == (4, {40})


KEYS = ["a", "a b", "a+b", "ä/ö", "a//b", "a/../b", "a%2Fb", "a~b", "a=b&c", "(a)'!*", "a:b@c", "x" * 900]


def create_s3_client(server: LocalAws, **options: Any) -> Any:
    s3 = server.client("s3", **options)
    s3.create_bucket(Bucket="bucket", CreateBucketConfiguration={"LocationConstraint": REGION})
    return s3


@pytest.mark.parametrize("key", KEYS)
def test_requests_for_s3_keys_with_special_characters_can_be_signed(server: LocalAws, key: str) -> None:
    s3 = create_s3_client(server)
    metadata = {"spaced": "two  spaces", "under_score": "1"}
    s3.put_object(Bucket="bucket", Key=key, Body=key.encode(), Metadata=metadata, Tagging="a=b%20c")
    assert s3.get_object(Bucket="bucket", Key=key)["Body"].read() == key.encode()
    assert [item["Key"] for item in s3.list_objects_v2(Bucket="bucket", Prefix=key[:1])["Contents"]] == [key]


@pytest.mark.parametrize("payload", ["signed", "unsigned"])
def test_a_multipart_upload_with_a_signed_or_unsigned_body_is_accepted(server: LocalAws, payload: str) -> None:
    s3 = create_s3_client(server)
    config = NO_RETRIES.merge(Config(s3={"payload_signing_enabled": payload == "signed"}))
    boto = server.client("s3", config=config)
    boto.upload_fileobj(io.BytesIO(b"z" * 9_000_000), "bucket", "large")
    boto.put_object(Bucket="bucket", Key="checked", Body=b"q", ChecksumAlgorithm="SHA256")
    assert len(s3.get_object(Bucket="bucket", Key="large")["Body"].read()) == 9_000_000
    assert boto.get_object(Bucket="bucket", Key="checked")["Body"].read() == b"q"


def test_a_presigned_url_works_until_it_expires(server: LocalAws, set_signing_clock: Any) -> None:
    s3 = create_s3_client(server, config=NO_RETRIES.merge(Config(signature_version="s3v4")))
    s3.put_object(Bucket="bucket", Key="a b", Body=b"content")
    params = {"Bucket": "bucket", "Key": "a b"}
    url = s3.generate_presigned_url("get_object", params, ExpiresIn=3600)
    assert requests.get(url, timeout=30).content == b"content"
    assert requests.get(url.replace("a%20b", "c"), timeout=30).status_code == 403
    assert requests.get(url.replace("X-Amz-Expires=3600", "X-Amz-Expires=7200"), timeout=30).status_code == 403
    assert requests.delete(url, timeout=30).status_code == 403
    set_signing_clock(timedelta(minutes=-61))
    assert requests.get(s3.generate_presigned_url("get_object", params, ExpiresIn=3600), timeout=30).status_code == 403


def test_a_request_with_an_arn_in_its_path_can_be_signed(server: LocalAws) -> None:
    arn = f"arn:aws:eks:{REGION}:{ACCOUNT}:cluster/none"
    assert catch_error_code(server.client("eks"), "list_tags_for_resource", resourceArn=arn) == "NotFoundException"


def test_reading_a_public_object_requires_no_signature(server: LocalAws) -> None:
    s3 = create_s3_client(server)
    s3.put_object(Bucket="bucket", Key="public", Body=b"read me")
    url = f"{server.endpoint}/bucket/public"
    assert requests.get(url, timeout=30).status_code == 403
    s3.delete_public_access_block(Bucket="bucket")
    statement = {"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::bucket/public"}
    s3.put_bucket_policy(Bucket="bucket", Policy=json.dumps({"Version": "2012-10-17", "Statement": [statement]}))
    assert requests.get(url, timeout=30).content == b"read me"
    assert requests.put(url, data=b"changed", timeout=30).status_code == 403


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("target", [None, "DynamoDB_20120810.ListTables", "TrentService.ListKeys", "x"])
def test_a_presigned_url_is_valid_only_for_the_service_it_was_signed_for(
    server: LocalAws, method: str, target: str | None
) -> None:
    """EKS tokens are presigned URLs of STS: a server that receives one cannot use it for other services."""
    url = server.client("sts").generate_presigned_url("get_caller_identity", HttpMethod=method)
    response = requests.request(method, url, headers={"X-Amz-Target": target}, timeout=30)
    assert response.status_code == 200 and f"<Arn>{USER_ARN}</Arn>" in response.text
