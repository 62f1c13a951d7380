"""Parse and check tokens of `aws eks get-token`. Each token contains a presigned STS request, which the cluster sends
to get the caller's identity.

Token format and validation: https://github.com/kubernetes-sigs/aws-iam-authenticator/blob/master/pkg/token/token.go
"""

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qsl, quote, urlsplit

from localcloud.aws import signatures

PREFIX = "k8s-aws-v1."
CLUSTER_HEADER = "x-k8s-aws-id"
LIFETIME = timedelta(minutes=15)
"""Lifetime of a token after signing. X-Amz-Expires, which the AWS CLI sets to 60 seconds, does not shorten this lifetime."""
CLOCK_SKEW = timedelta(minutes=5)
"""Maximum time by which the signer's clock may be ahead."""
_LONGEST = 1024 * 16
_PARAMETERS = {
    "action",
    "version",
    "x-amz-algorithm",
    "x-amz-credential",
    "x-amz-date",
    "x-amz-expires",
    "x-amz-security-token",
    "x-amz-signature",
    "x-amz-signedheaders",
    "x-amz-user-agent",
}
_CREDENTIAL = re.compile(r"(?P<key>[^/]+)/(?P<scope>(?P<day>\d{8})/(?P<region>[^/]+)/(?P<service>[^/]+)/aws4_request)")
_EMPTY_BODY = hashlib.sha256(b"").hexdigest()


class InvalidToken(Exception):
    """The cluster rejects the token. The message contains the reason."""


@dataclass(frozen=True)
class IdentityRequest:
    """The presigned STS request inside a token."""

    url: str
    host: str
    """Host as it was signed, including the port unless it is the scheme's default."""
    access_key: str
    region: str
    signed: datetime
    parameters: Mapping[str, str]
    """Query parameters, keyed by lowercase name."""
    _scope: str
    _query: tuple[tuple[str, str], ...]

    @property
    def session_token(self) -> str | None:
        return self.parameters.get("x-amz-security-token")

    def check_expiry(self, now: datetime) -> None:
        if now > self.signed + LIFETIME:
            raise InvalidToken(
                f"the token has expired: it was signed at {self.signed:%Y-%m-%dT%H:%M:%SZ} and is valid for 15 minutes"
            )
        if now < self.signed - CLOCK_SKEW:
            raise InvalidToken(f"the token's date is in the future: {self.signed:%Y-%m-%dT%H:%M:%SZ}")

    def check_signature(self, secret_key: str, cluster: str) -> None:
        """Check the signature. The signature covers the cluster's name, so a token is valid for one cluster only."""
        expected = self._compute_signature(secret_key, cluster)
        if not hmac.compare_digest(expected, self.parameters["x-amz-signature"]):
            raise InvalidToken(
                f"the signature does not match: the token was signed for a cluster other than {cluster}, was modified, "
                "or was signed with another secret key"
            )

    def _compute_signature(self, secret_key: str, cluster: str) -> str:
        """https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html"""
        values = {"host": self.host, CLUSTER_HEADER: cluster}
        names = self.parameters["x-amz-signedheaders"].lower().split(";")
        headers = "".join(f"{name}:{values[name]}\n" for name in names)
        pairs = sorted(
            (_percent_encode(name), _percent_encode(value)) for name, value in self._query if name.lower() != "x-amz-signature"
        )
        query = "&".join(f"{name}={value}" for name, value in pairs)
        request = "\n".join(("GET", "/", query, headers, ";".join(names), _EMPTY_BODY))
        return signatures.compute_signature(secret_key, self._scope, self.parameters["x-amz-date"], request)


def parse(token: str) -> IdentityRequest:
    """Parse the STS request in a token. Like EKS, accept only GetCallerIdentity requests. Raises InvalidToken."""
    if not token.startswith(PREFIX) or len(token) > _LONGEST:
        raise InvalidToken(f"the token does not begin with {PREFIX}" if len(token) <= _LONGEST else "the token is too long")
    parts = urlsplit(_decode_base64(token.removeprefix(PREFIX)))
    query = tuple(parse_qsl(parts.query, keep_blank_values=True))
    parameters = {name.lower(): value for name, value in query}
    if parts.scheme not in ("http", "https") or parts.path not in ("", "/") or parts.fragment or parts.username:
        raise InvalidToken("the token does not contain an STS URL")
    if len(parameters) != len(query):
        raise InvalidToken("the token's request has a duplicate parameter")
    if unknown := sorted(set(parameters) - _PARAMETERS):
        raise InvalidToken(f"the token's request has a parameter that is not allowed: {unknown[0]}")
    if missing := sorted(_PARAMETERS - set(parameters) - {"version", "x-amz-security-token", "x-amz-user-agent"}):
        raise InvalidToken(f"the token's request lacks {missing[0]}")
    _check_parameters(parameters)
    credential = _CREDENTIAL.fullmatch(parameters["x-amz-credential"])
    if credential is None or credential["service"] != "sts":
        raise InvalidToken("the token is not signed for STS")
    return IdentityRequest(
        url=parts.geturl(),
        host=_normalize_host(parts.scheme, parts.netloc),
        access_key=credential["key"],
        region=credential["region"],
        signed=_parse_timestamp(parameters["x-amz-date"]),
        parameters=parameters,
        _scope=credential["scope"],
        _query=query,
    )


def _decode_base64(text: str) -> str:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True).decode("ascii")
    except (binascii.Error, UnicodeError):
        raise InvalidToken("the token is not base64") from None


def _check_parameters(parameters: Mapping[str, str]) -> None:
    if parameters["action"] != "GetCallerIdentity":
        raise InvalidToken(f"the token's request is {parameters['action']}, not GetCallerIdentity")
    if parameters["x-amz-algorithm"] != signatures.ALGORITHM:
        raise InvalidToken(f"the token's signature algorithm is {parameters['x-amz-algorithm']}, not {signatures.ALGORITHM}")
    names = set(parameters["x-amz-signedheaders"].lower().split(";"))
    if names != {"host", CLUSTER_HEADER}:
        raise InvalidToken(f"the token's signed headers are {', '.join(sorted(names))}, not host and {CLUSTER_HEADER}")
    expires = parameters["x-amz-expires"]
    if not expires.isdigit() or int(expires) > LIFETIME.total_seconds():
        raise InvalidToken(f"the token's X-Amz-Expires is {expires}; the maximum is 900 seconds")


def _parse_timestamp(text: str) -> datetime:
    try:
        return datetime.strptime(text, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    except ValueError:
        raise InvalidToken(f"the token's date {text!r} is invalid") from None


def _normalize_host(scheme: str, netloc: str) -> str:
    """Return the host as clients sign it: lowercase, without the scheme's default port."""
    return netloc.lower().removesuffix({"http": ":80", "https": ":443"}[scheme])


def _percent_encode(text: str) -> str:
    return quote(text, safe="-_.~")
