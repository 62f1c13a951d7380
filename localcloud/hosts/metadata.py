"""IMDS responses: instance identity, user data and role credentials.

https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/configuring-instance-metadata-service.html
"""

import json
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

VERSIONS = ("1.0", "2009-04-04", "2016-09-02", "2018-09-24", "2021-03-23", "latest")
"""IMDS API versions that cloud-init and the SDKs request; EC2 supports more versions."""
TOKEN = "X-aws-ec2-metadata-token"
TOKEN_LIFETIME = "X-aws-ec2-metadata-token-ttl-seconds"
LONGEST_SECONDS = 21600


class Unauthorized(Exception):
    """The instance role's trust policy does not allow EC2 to assume the role."""


@dataclass(frozen=True)
class Credentials:
    """Temporary role credentials for one instance."""

    access_key_id: str
    secret_access_key: str
    token: str
    expires: str
    """Expiry time, e.g. `2026-11-21T12:00:00Z`."""


@dataclass(frozen=True)
class Machine:
    """Data that IMDS reports about an instance."""

    instance_id: str
    image_id: str
    instance_type: str
    account: str
    region: str
    zone: str
    hostname: str
    """Private DNS name."""
    address: str
    mac: str
    vpc: str
    subnet: str
    security_groups: tuple[str, ...]
    public_key: tuple[str, str] | None
    """Name and public key of the key pair."""
    profile_arn: str | None
    role: str | None
    """Name of the instance's role."""
    user_data: bytes | None
    tokens_required: bool
    hop_limit: int
    role_arn: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    """Instance tags; empty unless the metadata options at launch enable tags."""
    announced: Callable[[], Mapping[str, str]] = dict
    """Returns the IMDS values of the notices that EC2 has announced for the instance, keyed by IMDS path."""


@dataclass(frozen=True)
class Answer:
    status: int
    body: bytes = b""
    is_token: bool = False
    """Whether this is a token response, which is sent with `hop_limit` as its IP TTL."""


def build_metadata_tree(machine: Machine, credentials: Callable[[], Credentials]) -> dict[str, Callable[[], bytes]]:
    """Return the metadata: Maps an IMDS path below the API version to the function that returns the value."""
    group_names = "\n".join(machine.security_groups)
    interface = f"meta-data/network/interfaces/macs/{machine.mac}"
    identity = {
        "accountId": machine.account,
        "architecture": "x86_64",
        "availabilityZone": machine.zone,
        "imageId": machine.image_id,
        "instanceId": machine.instance_id,
        "instanceType": machine.instance_type,
        "privateIp": machine.address,
        "region": machine.region,
        "version": "2017-09-30",
    }
    texts = {
        "meta-data/ami-id": machine.image_id,
        "meta-data/hostname": machine.hostname,
        "meta-data/instance-id": machine.instance_id,
        "meta-data/instance-type": machine.instance_type,
        "meta-data/local-hostname": machine.hostname,
        "meta-data/local-ipv4": machine.address,
        "meta-data/mac": machine.mac,
        "meta-data/placement/availability-zone": machine.zone,
        "meta-data/placement/region": machine.region,
        "meta-data/security-groups": group_names,
        f"{interface}/device-number": "0",
        f"{interface}/local-hostname": machine.hostname,
        f"{interface}/local-ipv4s": machine.address,
        f"{interface}/mac": machine.mac,
        f"{interface}/security-groups": group_names,
        f"{interface}/subnet-id": machine.subnet,
        f"{interface}/vpc-id": machine.vpc,
        "dynamic/instance-identity/document": json.dumps(identity, indent=2),
    }
    texts |= machine.announced()
    texts |= {f"meta-data/tags/instance/{key}": value for key, value in machine.tags.items()}
    if machine.public_key is not None:
        name, text = machine.public_key
        texts |= {"meta-data/public-keys": f"0={name}", "meta-data/public-keys/0/openssh-key": text}
    if machine.role is not None:
        texts["meta-data/iam/info"] = json.dumps({"Code": "Success", "InstanceProfileArn": machine.profile_arn})
    entries = {path: _create_constant_getter(text.encode()) for path, text in texts.items()}
    if machine.role is not None:
        entries[f"meta-data/iam/security-credentials/{machine.role}"] = lambda: _render_credentials(credentials)
    if machine.user_data is not None:
        entries["user-data"] = _create_constant_getter(machine.user_data)
    return entries


def _create_constant_getter(body: bytes) -> Callable[[], bytes]:
    return lambda: body


def _render_credentials(credentials: Callable[[], Credentials]) -> bytes:
    """https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instance-metadata-security-credentials.html"""
    try:
        lent = credentials()
    except Unauthorized as error:
        content = {"Code": "AssumeRoleUnauthorizedAccess", "Message": str(error)}
    else:
        content = {
            "Code": "Success",
            "Type": "AWS-HMAC",
            "AccessKeyId": lent.access_key_id,
            "SecretAccessKey": lent.secret_access_key,
            "Token": lent.token,
            "Expiration": lent.expires,
        }
    return json.dumps(content, indent=2).encode()


class Sessions:
    """Issued session tokens. Each token is valid for one instance."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until: dict[tuple[str, str], float] = {}

    def open(self, instance_id: str, seconds: int) -> str:
        token = secrets.token_urlsafe(40)
        self._until[instance_id, token] = self._clock() + seconds
        return token

    def has_token(self, instance_id: str, token: str) -> bool:
        return self._until.get((instance_id, token), 0.0) > self._clock()


def handle_request(
    machine: Machine,
    credentials: Callable[[], Credentials],
    sessions: Sessions,
    method: str,
    path: str,
    headers: Mapping[str, str],
) -> Answer:
    """Return the response to a request. Header names must be lowercase."""
    if method == "PUT":
        return _issue_token(machine, sessions, path, headers)
    if method not in ("GET", "HEAD"):
        return Answer(405)
    token = headers.get(TOKEN.lower())
    if (token is None and machine.tokens_required) or (token is not None and not sessions.has_token(machine.instance_id, token)):
        return Answer(401)
    version, _, rest = path.strip("/").partition("/")
    if not version:
        return Answer(200, "\n".join(VERSIONS).encode())
    if version not in VERSIONS:
        return Answer(404)
    return _look_up(build_metadata_tree(machine, credentials), rest)


def _issue_token(machine: Machine, sessions: Sessions, path: str, headers: Mapping[str, str]) -> Answer:
    """Issue a session token, but reject requests forwarded by a proxy:
    https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instance-metadata-v2-how-it-works.html"""
    if path.rstrip("/") != "/latest/api/token":
        return Answer(404)
    if "x-forwarded-for" in headers:
        return Answer(403)
    lifetime = headers.get(TOKEN_LIFETIME.lower(), "")
    if not lifetime.isdigit() or not 1 <= int(lifetime) <= LONGEST_SECONDS:
        return Answer(400)
    return Answer(200, sessions.open(machine.instance_id, int(lifetime)).encode(), is_token=True)


def _look_up(entries: Mapping[str, Callable[[], bytes]], path: str) -> Answer:
    """Return the value at a path, or the listing of a folder. In listings, folder names end with a slash."""
    name = path.rstrip("/")
    if name in entries:
        return Answer(200, entries[name]())
    prefix = f"{name}/" if name else ""
    below = [entry[len(prefix) :] for entry in entries if entry.startswith(prefix)]
    if not below:
        return Answer(404)
    folders = {entry.split("/")[0] for entry in below if "/" in entry}
    names = sorted({entry.split("/")[0] for entry in below})
    return Answer(200, "\n".join(f"{child}/" if child in folders else child for child in names).encode())
