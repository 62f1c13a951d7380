"""Signature Version 4 of requests, in the Authorization header or in the query of a presigned URL.

https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
"""

import functools
import hashlib
import hmac
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from urllib.parse import quote, unquote

from botocore.utils import normalize_url_path
from moto.core.request import Request

from localcloud.aws import clock

ALGORITHM = "AWS4-HMAC-SHA256"
SKEW = timedelta(minutes=15)
"""https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-troubleshooting.html"""
_CREDENTIAL = r"(?P<key>[^/,\s]+)/(?P<scope>(?P<day>\d{8})/(?P<region>[^/,\s]+)/(?P<service>[^/,\s]+)/aws4_request)"
_HEADER = re.compile(
    rf"{ALGORITHM}\s+Credential={_CREDENTIAL},\s*SignedHeaders=(?P<headers>[^,\s]+),\s*Signature=(?P<signature>[0-9a-f]{{64}})"
)
_HASH = re.compile("[0-9a-f]{64}")
_MOMENT = "%Y%m%dT%H%M%SZ"


@dataclass(frozen=True)
class Signature:
    """What a request contains about its signature."""

    access_key: str
    region: str
    service: str
    scope: str
    moment: datetime
    headers: tuple[str, ...]
    """Names of the signed headers."""
    value: str
    session_token: str | None = field(repr=False)
    lifetime: timedelta | None
    """How long a presigned URL is valid; None for a signature in the Authorization header."""

    def is_expired(self) -> bool:
        """Return whether the signature was created too long ago, or in the future.

        Clients use the clock of this machine, or the date of the local AWS if they correct their clock by its responses.
        """
        machine = datetime.now(UTC)
        earliest, latest = sorted((machine, clock.now()))
        return not earliest - (self.lifetime or SKEW) <= self.moment <= latest + SKEW

    def is_valid(self, request: Request, secret_key: str) -> bool:
        """Return whether the owner of the secret key signed the request. Signatures of single chunks of an upload are not
        checked."""
        body = hashlib.sha256(request.get_data()).hexdigest()
        default = "UNSIGNED-PAYLOAD" if self.service == "s3" and self.lifetime is not None else body
        payload = request.headers.get("x-amz-content-sha256") or default
        if _HASH.fullmatch(payload) and payload != body:
            return False
        expected = compute_signature(
            secret_key, self.scope, self.moment.strftime(_MOMENT), self._build_canonical_request(request, payload)
        )
        return hmac.compare_digest(expected, self.value)

    def _build_canonical_request(self, request: Request, payload: str) -> str:
        path = request.raw_path
        if self.service != "s3":
            path = quote(normalize_url_path(path), safe="/~")
        pairs = (part.partition("=") for part in request.query_string.decode("latin-1").split("&") if part)
        query = sorted((_percent_encode(name), _percent_encode(value)) for name, _, value in pairs if name != "X-Amz-Signature")
        headers = "".join(f"{name}:{' '.join(request.headers.get(name, '').split())}\n" for name in self.headers)
        joined = "&".join(f"{name}={value}" for name, value in query)
        return "\n".join((request.method, path, joined, headers, ";".join(self.headers), payload))


def read_signature(request: Request) -> Signature | None:
    """Return the signature of a request, or None if it is not signed in a valid form."""
    header, query = request.headers.get("Authorization"), request.args
    if header is not None:
        match = _HEADER.fullmatch(header)
        moment, token, lifetime = request.headers.get("x-amz-date"), request.headers.get("x-amz-security-token"), None
        names, value = (match["headers"], match["signature"]) if match else ("", "")
    else:
        match = re.fullmatch(_CREDENTIAL, query.get("X-Amz-Credential", ""))
        moment, token, lifetime = query.get("X-Amz-Date"), query.get("X-Amz-Security-Token"), query.get("X-Amz-Expires", "")
        names, value = query.get("X-Amz-SignedHeaders", ""), query.get("X-Amz-Signature", "")
        if query.get("X-Amz-Algorithm") != ALGORITHM or not re.fullmatch(r"\d{1,6}", lifetime):
            return None
    signed = tuple(names.lower().split(";"))
    when = _parse_moment(moment or "")
    if match is None or when is None or "host" not in signed or match["day"] != f"{when:%Y%m%d}":
        return None
    valid = timedelta(seconds=int(lifetime)) if lifetime is not None else None
    return Signature(match["key"], match["region"], match["service"], match["scope"], when, signed, value, token, valid)


def compute_signature(secret_key: str, scope: str, moment: str, canonical_request: str) -> str:
    digest = hashlib.sha256(canonical_request.encode("latin-1", "replace")).hexdigest()
    text = "\n".join((ALGORITHM, moment, scope, digest))
    return hmac.digest(_derive_signing_key(secret_key, scope), text.encode(), "sha256").hex()


@functools.lru_cache(maxsize=256)
def _derive_signing_key(secret_key: str, scope: str) -> bytes:
    key = b"AWS4" + secret_key.encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    return key


def _parse_moment(moment: str) -> datetime | None:
    try:
        return datetime.strptime(moment, _MOMENT).replace(tzinfo=UTC)
    except ValueError:
        return None


def _percent_encode(text: str) -> str:
    return quote(unquote(text, "latin-1"), safe="-_.~", encoding="latin-1")
