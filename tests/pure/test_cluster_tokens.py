"""Tokens of `aws eks get-token`: created with botocore as the CLI does, and parsed as EKS does."""

import base64
from datetime import UTC, datetime, timedelta

import pytest
from botocore.auth import SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from localcloud.kubernetes.access.token import InvalidToken, parse

KEY, SECRET = "AKIATESTTESTTESTTEST", "a/secret+key"
STS = "http://127.0.0.1:4566"


def presign_url(cluster: str = "demo", url: str = f"{STS}/?Action=GetCallerIdentity&Version=2011-06-15", **options: str) -> str:
    request = AWSRequest("GET", url, headers={options.get("header", "x-k8s-aws-id"): cluster})
    credentials = Credentials(KEY, SECRET, options.get("session"))
    SigV4QueryAuth(credentials, options.get("service", "sts"), "us-west-2", int(options.get("expires", "60"))).add_auth(request)
    return str(request.url)


def make_token(url: str) -> str:
    return "k8s-aws-v1." + base64.urlsafe_b64encode(url.encode()).decode().rstrip("=")


def test_token_reveals_signing_key_and_endpoint() -> None:
    request = parse(make_token(presign_url()))
    assert (request.access_key, request.region, request.host) == (KEY, "us-west-2", "127.0.0.1:4566")
    assert request.session_token is None


@pytest.mark.parametrize("session", [None, "a+session/token=="])
def test_signature_is_valid_for_the_cluster_in_the_token(session: str | None) -> None:
    request = parse(make_token(presign_url("demo", **({"session": session} if session else {}))))
    request.check_signature(SECRET, "demo")
    assert request.session_token == session


@pytest.mark.parametrize(("secret", "cluster"), [(SECRET, "other"), ("another", "demo")])
def test_tokens_for_another_cluster_or_secret_are_refused(secret: str, cluster: str) -> None:
    with pytest.raises(InvalidToken, match="the signature does not match"):
        parse(make_token(presign_url("demo"))).check_signature(secret, cluster)


@pytest.mark.parametrize(
    ("old", "new"),
    [("us-west-2", "us-east-1"), (KEY, "AKIAOTHEROTHEROTHER0"), ("Version=2011-06-15", "Version=2012-06-15"), (":4566", ":4567")],
)
def test_modified_token_is_refused(old: str, new: str) -> None:
    url = presign_url()
    assert old in url
    with pytest.raises(InvalidToken, match="the signature does not match"):
        parse(make_token(url.replace(old, new))).check_signature(SECRET, "demo")


def test_token_expires_fifteen_minutes_after_signing() -> None:
    request = parse(make_token(presign_url()))
    request.check_expiry(request.signed + timedelta(minutes=15))
    with pytest.raises(InvalidToken, match="the token has expired"):
        request.check_expiry(request.signed + timedelta(minutes=15, seconds=1))
    with pytest.raises(InvalidToken, match="date is in the future"):
        request.check_expiry(request.signed - timedelta(minutes=6))
    assert abs(request.signed - datetime.now(UTC)) < timedelta(minutes=5)


def presign_with_query(extra: str) -> str:
    return presign_url() + extra


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("k8s-aws-v2.abc", "the token does not begin with k8s-aws-v1."),
        ("k8s-aws-v1." + "A" * 20000, "the token is too long"),
        ("k8s-aws-v1.!", "the token is not base64"),
        (make_token("file:///etc/passwd"), "the token does not contain an STS URL"),
        (make_token(f"{STS}/path?Action=GetCallerIdentity"), "the token does not contain an STS URL"),
        (make_token(presign_with_query("&Action=GetCallerIdentity")), "the token's request has a duplicate parameter"),
        (make_token(presign_with_query("&RoleArn=x")), "the token's request has a parameter that is not allowed: rolearn"),
        (make_token(f"{STS}/?Action=GetCallerIdentity"), "the token's request lacks x-amz-algorithm"),
        (
            make_token(presign_url(url=f"{STS}/?Action=GetSessionToken&Version=2011-06-15")),
            "the token's request is GetSessionToken, not GetCallerIdentity",
        ),
        (make_token(presign_url(header="x-other")), "the token's signed headers are host, x-other, not host and x-k8s-aws-id"),
        (make_token(presign_url(expires="901")), "the token's X-Amz-Expires is 901; the maximum is 900 seconds"),
        (make_token(presign_url(service="s3")), "the token is not signed for STS"),
    ],
    ids=lambda text: (
        "token" if text.startswith("k8s-aws") else text
    ),  # a token contains its signing time, so it cannot be part of a test ID
)
def test_invalid_cluster_token_is_refused_with_the_reason(text: str, message: str) -> None:
    with pytest.raises(InvalidToken) as caught:
        parse(text)
    assert str(caught.value) == message
