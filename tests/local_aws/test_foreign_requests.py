"""HTTP servers of the local cloud reject requests of web pages, and requests without the local cloud's secrets."""

import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from localcloud.hosts import hardware
from localcloud.hosts.metadata_server import MetadataServer
from localcloud.images.registry import Registry
from localcloud.keys import Key
from localcloud.kubernetes.pod_identity import servers
from testkit.aws_clients import LocalAws
from testkit.raw_http import Answer, connect_to_loopback, send_request

FORM = ("Content-Type", "application/x-www-form-urlencoded")
LAUNCH = b"Action=RunInstances&Version=2016-11-15&ImageId=ami-1&MinCount=1&MaxCount=1&UserData=cm9vdA%3D%3D"
SCOPE = "20261128/us-west-2/ec2/aws4_request, SignedHeaders=host;x-amz-date, Signature="


def get_port(server: LocalAws) -> int:
    return urlsplit(server.endpoint).port or 0


def send_to_loopback(port: int, target: str = "/", method: str = "GET", body: bytes = b"", **headers: str) -> Answer:
    """Send a request to 127.0.0.1. Underscores in header names stand for hyphens."""
    named = {"Host": f"127.0.0.1:{port}"} | {name.replace("_", "-"): value for name, value in headers.items()}
    return send_request(connect_to_loopback(port), method, target, named.items(), body)


@pytest.fixture(params=["local AWS", "registry", "instance metadata", "pod identity agent"])
def listening_port(request: pytest.FixtureRequest, server_process: LocalAws) -> Iterator[int]:
    if request.param == "local AWS":
        yield get_port(server_process)
        return
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    registry = Registry(lambda _: None)
    match request.param:
        case "registry":
            registry.serve(listener)
            end = registry.close
        case "instance metadata":
            end = MetadataServer(listener, lambda _: None, lambda _: pytest.fail("no credentials")).close
        case _:
            end = servers.serve_agent(listener, lambda _: pytest.fail("no credentials"))
    yield port
    end()


@pytest.mark.parametrize("host", ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "localhost.evil:{port}", ""])
def test_a_request_with_another_host_header_is_refused(listening_port: int, host: str) -> None:
    answer = send_to_loopback(listening_port, Host=host.format(port=listening_port))
    assert (answer.status, answer.body.count("\n")) == (403, 1)
    assert "Host header" in answer.body


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1", ""])
def test_a_request_from_a_web_page_is_refused(listening_port: int, origin: str) -> None:
    answer = send_to_loopback(listening_port, method="POST", body=b"{}", Origin=origin, Content_Type="text/plain")
    assert (answer.status, answer.body.count("\n")) == (403, 1)
    assert "Origin header" in answer.body


def test_a_request_with_two_host_headers_or_another_target_is_refused(listening_port: int) -> None:
    own = ("Host", f"127.0.0.1:{listening_port}")
    connect = connect_to_loopback(listening_port)
    assert send_request(connect, "GET", "/", [own, ("Host", "evil.example")]).status == 403
    assert send_request(connect, "GET", "/", []).status == 403
    assert send_request(connect, "GET", "http://evil.example/", [own]).status == 403


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "LOCALHOST", "bucket.with.dots.localhost", "123456789012.127.0.0.1"])
def test_host_names_of_the_server_are_accepted_with_a_bucket_or_account_prefix_too(listening_port: int, host: str) -> None:
    assert "Host header" not in send_to_loopback(listening_port, Host=f"{host}:{listening_port}").body


@pytest.mark.parametrize(
    "authorization",
    [
        None,
        "",
        "Bearer local",
        f"AWS4-HMAC-SHA256 Credential=AKIALOCALCLOUDENGINE/{SCOPE}0",
        f"AWS4-HMAC-SHA256 Credential={{key}}/{SCOPE}0",
        f"AWS4-HMAC-SHA256 Credential={{key}}/{SCOPE}{'0' * 64}",
        f"AWS4-HMAC-SHA256 Credential={{key}}/{SCOPE}{'0' * 64}, Signature={'0' * 64}",
        "AWS {key}:c2lnbmF0dXJl",
    ],
)
def test_launching_an_instance_requires_the_secret_key(server: LocalAws, authorization: str | None) -> None:
    signed = {} if authorization is None else {"Authorization": authorization.format(key=server.key.access_key_id)}
    headers = {"Content_Type": FORM[1], "X_Amz_Date": "20261128T000000Z", **signed}
    answer = send_to_loopback(get_port(server), "/", "POST", LAUNCH, **headers)
    assert answer.status in (401, 403), answer
    assert server.client("ec2").describe_instances()["Reservations"] == []


@pytest.mark.parametrize(
    ("target", "body", "kind"),
    [
        ("/", LAUNCH, FORM[1]),
        ("/", b"Action=ListRoles&Version=2010-05-08", FORM[1]),
        ("/", b"Action=GetCallerIdentity&Version=2011-06-15", FORM[1]),
        ("/", b"Action=AssumeRoleWithWebIdentity&RoleArn=arn:aws:iam::123456789012:role/admin&RoleSessionName=s", FORM[1]),
        ("/bucket/key", b"x" * 100_000, "application/octet-stream"),
        ("/", b"{}", "application/x-amz-json-1.1"),
        ("/moto-api/reset", b"{}", "application/json"),
        ("/clusters", b"{}", "application/json"),
        ("/bucket", b"--b\r\n", "multipart/form-data; boundary=b"),
    ],
)
def test_an_unsigned_request_with_a_body_is_refused_immediately(server: LocalAws, target: str, body: bytes, kind: str) -> None:
    assert 400 <= send_to_loopback(get_port(server), target, "POST", body, Content_Type=kind).status < 500


@pytest.mark.parametrize("authorization", [None, "Bearer ", "Bearer local", "Basic bG9jYWw6bG9jYWw=", "Bearer {id}"])
@pytest.mark.parametrize(("method", "path"), [("GET", "health"), ("POST", "clock"), ("POST", "reset"), ("GET", "nothing")])
def test_the_control_api_requires_the_secret_key(server: LocalAws, authorization: str | None, method: str, path: str) -> None:
    headers = {} if authorization is None else {"Authorization": authorization.format(id=server.key.access_key_id)}
    answer = send_to_loopback(get_port(server), f"/local-cloud/{path}", method, b'{"seconds": 60}', **headers)
    assert (answer.status, "Authorization must be: Bearer" in answer.body) == (401, True)


@pytest.mark.parametrize("kind", [None, "text/plain", "application/x-www-form-urlencoded", "text/plain; application/json"])
def test_the_control_api_accepts_only_content_types_that_web_pages_cannot_send(server: LocalAws, kind: str | None) -> None:
    headers = {"Authorization": f"Bearer {server.key.secret_access_key}"} | ({} if kind is None else {"Content_Type": kind})
    before = server.call_control_api("GET", "clock")["now"]
    answer = send_to_loopback(get_port(server), "/local-cloud/clock", "POST", b'{"seconds": 864000}', **headers)
    assert (answer.status, json.loads(answer.body)["error"]) == (415, "the header Content-Type must be: application/json")
    assert server.call_control_api("GET", "clock")["now"][:7] == before[:7]


def test_every_local_cloud_has_its_own_secret_key(server: LocalAws) -> None:
    keys = [server.key, Key.create(), Key.create()]
    assert len({key.access_key_id for key in keys}) == len({key.secret_access_key for key in keys}) == 3
    assert all(key.secret_access_key not in repr(key) for key in keys)


def test_only_root_on_a_host_can_read_the_mount_helper_token(tmp_path: Path) -> None:
    hardware.write_layer(tmp_path / "layer", "us-west-2", tmp_path / "files", "secret-token")
    files = [file for file in (tmp_path / "layer").rglob("*") if file.is_file() and not file.is_symlink()]
    holders = [file for file in files if "secret-token" in file.read_text()]
    assert [(f"/{file.relative_to(tmp_path / 'layer')}", file.stat().st_mode & 0o777) for file in holders] == [
        (hardware.CONTROL_TOKEN, 0o600)
    ]
    for kind in ("efs", "lustre"):
        helper = tmp_path / "layer" / "usr/sbin" / f"mount.{kind}"
        assert os.access(helper, os.X_OK)
        compile(helper.read_text(), helper, "exec")
