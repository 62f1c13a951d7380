"""Anonymous queries to container registries: whether an image exists, and what its configuration contains.

https://github.com/opencontainers/distribution-spec/blob/v1.1.0/spec.md. Public registries issue tokens to anonymous
clients: https://distribution.github.io/distribution/spec/auth/token/.
"""

import json
import re
import urllib.error
import urllib.request
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

from infra.jobs.images import strip_tag_and_digest

TIMEOUT_SECONDS: Final = 2.0
"""Timeout of each request. If a registry does not respond in time, `plan` does not know whether the image exists."""
DOCKER_HUB: Final = ("docker.io", "index.docker.io")
_ACCEPT: Final = ", ".join(
    (
        "application/vnd.oci.image.index.v1+json",
        "application/vnd.oci.image.manifest.v1+json",
        "application/vnd.docker.distribution.manifest.list.v2+json",
        "application/vnd.docker.distribution.manifest.v2+json",
    )
)
_CHALLENGE: Final = re.compile(r'(\w+)="([^"]*)"')
LARGEST: Final = 4 * 1024 * 1024
"""Maximum size of a manifest in bytes: registries accept at most 4 MiB."""


class NotAnswered(Exception):
    """The registry did not report whether the image exists. The message gives the reason."""


def read_image_config(image: str, architecture: str, scheme: str = "https") -> Mapping[str, Any] | None:
    """Return the configuration of an image; None if it does not exist. Raises NotAnswered."""
    registry = _Registry(scheme, *_split_host_and_name(image))
    manifest = registry.read_manifest(_parse_reference(image))
    if manifest is not None and "manifests" in manifest:
        digest = _find_platform_digest(manifest["manifests"], architecture)
        manifest = registry.read_manifest(digest) if digest else None
    if manifest is None:
        return None
    return registry.read_blob(str(manifest.get("config", {}).get("digest", ""))) or {}


def _split_host_and_name(image: str) -> tuple[str, str]:
    """Return the registry's host, and the repository's name on this host.

    >>> _split_host_and_name("docker.io/ubuntu:24.04"), _split_host_and_name("nvcr.io/nvidia/pytorch@sha256:0")
    (('registry-1.docker.io', 'library/ubuntu'), ('nvcr.io', 'nvidia/pytorch'))
    """
    host, _, name = strip_tag_and_digest(image).partition("/")
    if host in DOCKER_HUB:
        return "registry-1.docker.io", name if "/" in name else f"library/{name}"
    return host, name


def _parse_reference(image: str) -> str:
    """Return the digest of an image, or its tag, which is `latest` by default."""
    name, _, digest = image.partition("@")
    return digest or name.rpartition("/")[2].partition(":")[2] or "latest"


def _find_platform_digest(manifests: Any, architecture: str) -> str:
    platform = {"x86_64": "amd64"}.get(architecture, architecture)
    fitting = (str(each.get("digest", "")) for each in manifests if each.get("platform", {}).get("architecture") == platform)
    return next(fitting, "")


class _Registry:
    """Client for one repository of a registry."""

    def __init__(self, scheme: str, host: str, name: str) -> None:
        self._scheme, self._base, self._host, self._token = scheme, f"{scheme}://{host}/v2/{name}", host, ""

    def read_manifest(self, reference: str) -> Mapping[str, Any] | None:
        return self._read_json(f"{self._base}/manifests/{reference}")

    def read_blob(self, digest: str) -> Mapping[str, Any] | None:
        return self._read_json(f"{self._base}/blobs/{digest}") if digest else None

    def _read_json(self, address: str) -> Mapping[str, Any] | None:
        try:
            return self._get_with_token(address)
        except urllib.error.HTTPError as error:
            if error.code == HTTPStatus.UNAUTHORIZED and not self._token:
                self._token = self._request_anonymous_token(error.headers.get("WWW-Authenticate", ""))
                return self._read_json(address)
            if error.code == HTTPStatus.NOT_FOUND:
                return None
            if error.code in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
                raise NotAnswered(f"{self._host} requires a login") from None
            raise NotAnswered(f"{self._host} answers {error.code} {error.reason}") from None
        except (OSError, ValueError) as error:
            raise NotAnswered(f"{self._host} cannot be reached: {getattr(error, 'reason', error)}") from None

    def _get_with_token(self, address: str) -> Mapping[str, Any]:
        headers = {"Accept": _ACCEPT, **({"Authorization": f"Bearer {self._token}"} if self._token else {})}
        request = urllib.request.Request(address, headers=headers)
        with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as answer:
            document: Mapping[str, Any] = json.loads(answer.read(LARGEST))
        return document

    def _request_anonymous_token(self, challenge: str) -> str:
        """Request a token from the service that the challenge specifies. Raises NotAnswered if the service requires a
        login."""
        parameters = dict(_CHALLENGE.findall(challenge))
        realm = parameters.pop("realm", "")
        if not challenge.startswith("Bearer ") or urlsplit(realm).scheme != self._scheme:
            raise NotAnswered(f"{self._host} requires a login")
        try:
            answer = self._get_with_token(f"{realm}?{urlencode(parameters)}")
        except urllib.error.HTTPError:
            raise NotAnswered(f"{self._host} requires a login") from None
        token = answer.get("token") or answer.get("access_token")
        if not token:
            raise NotAnswered(f"{self._host} requires a login")
        return str(token)
