"""The instance metadata service as SDKs and cloud-init ask it."""

import json
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import replace

import pytest

from localcloud.hosts.metadata import TOKEN, TOKEN_LIFETIME, Answer, Credentials, Machine, Sessions, answer
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


class Asking:
    """Requests of one machine."""

    def __init__(self, machine: Machine = MACHINE) -> None:
        self.machine, self.now = machine, 0.0
        self.sessions = Sessions(lambda: self.now)

    def __call__(self, path: str, method: str = "GET", **headers: str) -> Answer:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return answer(self.machine, lambda: LENT, self.sessions, method, path, named)

    def token(self, seconds: str = "300") -> str:
        return self("/latest/api/token", "PUT", **{TOKEN_LIFETIME.lower().replace("-", "_"): seconds}).body.decode()

    def get(self, path: str) -> Answer:
        return self(path, **{TOKEN.lower().replace("-", "_"): self.token()})


def test_without_a_token_nothing_is_told() -> None:
    assert Asking()("/latest/meta-data/instance-id").status == 401


def test_where_tokens_are_optional_the_old_way_works() -> None:
    asking = Asking(replace(MACHINE, tokens_required=False))
    assert asking("/latest/meta-data/instance-id").body == b"i-0123456789abcdef0"


def test_a_token_ends() -> None:
    asking = Asking()
    token = asking.token("60")
    asking.now = 61.0
    assert asking("/latest/meta-data/instance-id", **{TOKEN.lower().replace("-", "_"): token}).status == 401


@pytest.mark.parametrize("seconds", ["", "0", "21601", "long"])
def test_a_token_has_a_lifetime_within_limits(seconds: str) -> None:
    assert Asking()("/latest/api/token", "PUT", **{TOKEN_LIFETIME.lower().replace("-", "_"): seconds}).status == 400


def test_a_request_through_a_proxy_gets_no_token() -> None:
    headers = {TOKEN_LIFETIME.lower().replace("-", "_"): "60", "x_forwarded_for": "10.0.0.9"}
    assert Asking()("/latest/api/token", "PUT", **headers).status == 403


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
def test_what_is_where(path: str, body: str) -> None:
    assert Asking().get(path) == Answer(200, body.encode())


def test_keys_are_listed_as_a_folder_which_is_how_cloud_init_finds_them() -> None:
    assert "public-keys/" in Asking().get("/latest/meta-data/").body.decode().splitlines()


def test_a_role_lends_its_credentials() -> None:
    lent = json.loads(Asking().get("/latest/meta-data/iam/security-credentials/node").body)
    assert (lent["Code"], lent["AccessKeyId"], lent["Expiration"]) == ("Success", "ASIA1", "2026-11-21T12:00:00Z")


def test_an_instance_without_a_role_or_user_data_has_none() -> None:
    asking = Asking(replace(MACHINE, role=None, profile_arn=None, user_data=None))
    assert asking.get("/latest/meta-data/iam/security-credentials/").status == 404
    assert asking.get("/latest/user-data").status == 404


@pytest.fixture
def served() -> Iterator[str]:
    listener = socket.create_server(("127.0.0.1", 0))
    server = MetadataServer(listener, lambda address: MACHINE if address == "127.0.0.1" else None, lambda machine: LENT)
    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    server.shutdown()
    server.server_close()


def test_it_answers_over_http_and_the_other_s_token_is_no_good(served: str) -> None:
    def ask(method: str, path: str, **headers: str) -> bytes:
        request = urllib.request.Request(served + path, method=method, headers=headers)
        with urllib.request.urlopen(request, timeout=5) as response:
            return bytes(response.read())

    token = ask("PUT", "/latest/api/token", **{TOKEN_LIFETIME: "60"}).decode()
    assert ask("GET", "/latest/meta-data/instance-id", **{TOKEN: token}) == b"i-0123456789abcdef0"
    with pytest.raises(urllib.error.HTTPError, match="401"):
        ask("GET", "/latest/meta-data/instance-id", **{TOKEN: "another"})
