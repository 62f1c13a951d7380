"""The instance metadata service as SDKs and cloud-init use it."""

import json
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import replace

import pytest

from localcloud.hosts.metadata import TOKEN, TOKEN_LIFETIME, Answer, Credentials, Machine, Sessions, handle_request
from localcloud.hosts.metadata_server import MetadataServer

MACHINE = Machine(
    instance_id="i-0123456789abcdef0",
    image_id="ami-0123456789abcdef0",
    instance_type="g5.xlarge",
    account="123456789012",
    region="us-west-2",
    zone="us-west-2a",
    hostname="ip-10-0-1-5.us-west-2.compute.internal",
    address="10.0.1.5",
    mac="02:00:0a:00:01:05",
    vpc="vpc-1",
    subnet="subnet-1",
    security_groups=("nodes",),
    public_key=("packer", "ssh-ed25519 AAAA packer"),
    profile_arn="arn:aws:iam::123456789012:instance-profile/node",
    role="node",
    user_data=b"#!/bin/sh\n",
    tokens_required=True,
    hop_limit=2,
)
LENT = Credentials("ASIA1", "secret", "token", "2026-11-21T12:00:00Z")


class Requester:
    """Client that calls the metadata service as the instance `machine` would."""

    def __init__(self, machine: Machine = MACHINE) -> None:
        self.machine, self.now = machine, 0.0
        self.sessions = Sessions(lambda: self.now)

    def __call__(self, path: str, method: str = "GET", **headers: str) -> Answer:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return handle_request(self.machine, lambda: LENT, self.sessions, method, path, named)

    def token(self, seconds: str = "300") -> str:
        return self("/latest/api/token", "PUT", **{TOKEN_LIFETIME.lower().replace("-", "_"): seconds}).body.decode()

    def get(self, path: str) -> Answer:
        return self(path, **{TOKEN.lower().replace("-", "_"): self.token()})


def test_a_metadata_request_without_a_token_is_unauthorized() -> None:
    assert Requester()("/latest/meta-data/instance-id").status == 401


def test_imdsv1_works_if_tokens_are_optional() -> None:
    requester = Requester(replace(MACHINE, tokens_required=False))
    assert requester("/latest/meta-data/instance-id").body == b"i-0123456789abcdef0"


def test_a_metadata_token_expires() -> None:
    requester = Requester()
    token = requester.token("60")
    requester.now = 61.0
    assert requester("/latest/meta-data/instance-id", **{TOKEN.lower().replace("-", "_"): token}).status == 401


@pytest.mark.parametrize("seconds", ["", "0", "21601", "long"])
def test_a_token_lifetime_outside_the_limits_is_rejected(seconds: str) -> None:
    assert Requester()("/latest/api/token", "PUT", **{TOKEN_LIFETIME.lower().replace("-", "_"): seconds}).status == 400


def test_a_token_request_through_a_proxy_is_denied() -> None:
    headers = {TOKEN_LIFETIME.lower().replace("-", "_"): "60", "x_forwarded_for": "10.0.0.9"}
    assert Requester()("/latest/api/token", "PUT", **headers).status == 403


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/latest/meta-data/local-ipv4", "10.0.1.5"),
        ("/2009-04-04/meta-data/placement/availability-zone", "us-west-2a"),
        ("/latest/meta-data/public-keys/", "0=packer"),
        ("/latest/meta-data/public-keys/0/", "openssh-key"),
        ("/latest/meta-data/public-keys/0/openssh-key", "ssh-ed25519 AAAA packer"),
        ("/latest/meta-data/iam/security-credentials/", "node"),
        ("/latest/meta-data/network/interfaces/macs/", "02:00:0a:00:01:05/"),
        ("/latest/dynamic/", "instance-identity/"),
        ("/latest/user-data", "#!/bin/sh\n"),
        ("/latest", "dynamic/\nmeta-data/\nuser-data"),
    ],
)
def test_a_metadata_path_returns_its_value(path: str, body: str) -> None:
    assert Requester().get(path) == Answer(200, body.encode())


def test_public_keys_are_listed_as_a_folder_as_cloud_init_expects() -> None:
    assert "public-keys/" in Requester().get("/latest/meta-data/").body.decode().splitlines()


def test_an_instance_role_provides_credentials() -> None:
    lent = json.loads(Requester().get("/latest/meta-data/iam/security-credentials/node").body)
    assert (lent["Code"], lent["AccessKeyId"], lent["Expiration"]) == ("Success", "ASIA1", "2026-11-21T12:00:00Z")


def test_metadata_of_an_instance_without_role_or_user_data_returns_404() -> None:
    requester = Requester(replace(MACHINE, role=None, profile_arn=None, user_data=None))
    assert requester.get("/latest/meta-data/iam/security-credentials/").status == 404
    assert requester.get("/latest/user-data").status == 404


@pytest.fixture
def metadata_url() -> Iterator[str]:
    listener = socket.create_server(("127.0.0.1", 0))
    server = MetadataServer(listener, lambda address: MACHINE if address == "127.0.0.1" else None, lambda machine: LENT)
    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    server.shutdown()
    server.server_close()


def test_the_metadata_server_rejects_an_unknown_token(metadata_url: str) -> None:
    def send_request(method: str, path: str, **headers: str) -> bytes:
        request = urllib.request.Request(metadata_url + path, method=method, headers=headers)
        with urllib.request.urlopen(request, timeout=5) as response:
            return bytes(response.read())

    token = send_request("PUT", "/latest/api/token", **{TOKEN_LIFETIME: "60"}).decode()
    assert send_request("GET", "/latest/meta-data/instance-id", **{TOKEN: token}) == b"i-0123456789abcdef0"
    with pytest.raises(urllib.error.HTTPError, match="401"):
        send_request("GET", "/latest/meta-data/instance-id", **{TOKEN: "another"})
