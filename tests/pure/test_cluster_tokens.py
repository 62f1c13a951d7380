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


def presigned(cluster: str = "demo", url: str = f"{STS}/?Action=GetCallerIdentity&Version=2011-06-15", **options: str) -> str:
    request = AWSRequest("GET", url, headers={options.get("header", "x-k8s-aws-id"): cluster})
    credentials = Credentials(KEY, SECRET, options.get("session"))
    SigV4QueryAuth(credentials, options.get("service", "sts"), "us-west-2", int(options.get("expires", "60"))).add_auth(request)
    return str(request.url)


def token(url: str) -> str:
    return "k8s-aws-v1." + base64.urlsafe_b64encode(url.encode()).decode().rstrip("=")


def test_a_token_tells_whose_key_signed_it_for_which_endpoint() -> None:
    request = parse(token(presigned()))
    assert (request.access_key, request.region, request.host) == (KEY, "us-west-2", "127.0.0.1:4566")
    assert request.session_token is None


@pytest.mark.parametrize("session", [None, "a+session/token=="])
def test_the_signature_holds_for_the_cluster_that_the_token_was_made_for(session: str | None) -> None:
    request = parse(token(presigned("demo", **({"session": session} if session else {}))))
    request.check_signature(SECRET, "demo")
    assert request.session_token == session


@pytest.mark.parametrize(("secret", "cluster"), [(SECRET, "other"), ("another", "demo")])
def test_another_clusters_token_and_another_secrets_are_refused(secret: str, cluster: str) -> None:
    with pytest.raises(InvalidToken, match="the signature does not match"):
        parse(token(presigned("demo"))).check_signature(secret, cluster)


@pytest.mark.parametrize(
    ("old", "new"),
    [("us-west-2", "us-east-1"), (KEY, "AKIAOTHEROTHEROTHER0"), ("Version=2011-06-15", "Version=2012-06-15"), (":4566", ":4567")],
)
def test_a_changed_token_is_refused(old: str, new: str) -> None:
    url = presigned()
    assert old in url
    with pytest.raises(InvalidToken, match="the signature does not match"):
        parse(token(url.replace(old, new))).check_signature(SECRET, "demo")


def test_a_token_lives_fifteen_minutes_from_its_signing() -> None:
    request = parse(token(presigned()))
    request.check_time(request.signed + timedelta(minutes=15))
    with pytest.raises(InvalidToken, match="the token has expired"):
        request.check_time(request.signed + timedelta(minutes=15, seconds=1))
    with pytest.raises(InvalidToken, match="date is in the future"):
        request.check_time(request.signed - timedelta(minutes=6))
    assert abs(request.signed - datetime.now(UTC)) < timedelta(minutes=5)


def with_query(extra: str) -> str:
    return presigned() + extra


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("k8s-aws-v2.abc", "the token does not begin with k8s-aws-v1."),
        ("k8s-aws-v1." + "A" * 20000, "the token is too long"),
        ("k8s-aws-v1.!", "the token is not base64"),
        (token("file:///etc/passwd"), "the token does not contain an STS URL"),
        (token(f"{STS}/path?Action=GetCallerIdentity"), "the token does not contain an STS URL"),
        (token(with_query("&Action=GetCallerIdentity")), "the token's request has a duplicate parameter"),
        (token(with_query("&RoleArn=x")), "the token's request has a parameter that is not allowed: rolearn"),
        (token(f"{STS}/?Action=GetCallerIdentity"), "the token's request lacks x-amz-algorithm"),
        (
            token(presigned(url=f"{STS}/?Action=GetSessionToken&Version=2011-06-15")),
            "the token's request is GetSessionToken, not GetCallerIdentity",
        ),
        (token(presigned(header="x-other")), "the token's signed headers are host, x-other, not host and x-k8s-aws-id"),
        (token(presigned(expires="901")), "the token's X-Amz-Expires is 901; the maximum is 900 seconds"),
        (token(presigned(service="s3")), "the token is not signed for STS"),
    ],
    ids=lambda text: (
        "token" if text.startswith("k8s-aws") else text
    ),  # a token contains its signing time, so it cannot be part of a test ID
)
def test_what_is_no_token_for_a_cluster_is_refused_with_the_reason(text: str, message: str) -> None:
    with pytest.raises(InvalidToken) as caught:
        parse(text)
    assert str(caught.value) == message
