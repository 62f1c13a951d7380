"""Read-only registry of the local cloud's images. containerd uses it as a mirror for all registries.

The registry implements the pull operations in https://github.com/opencontainers/distribution-spec/blob/v1.1.0/spec.md. Requests
for unknown images return 404. As with real registries, pods with such images fail with ErrImagePull.
"""

import json
import re
import socket
import threading
from collections.abc import Callable, Iterator
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from localcloud.http_guard import Guarded
from localcloud.images import build
from localcloud.images.archive import MANIFEST, get_blob_path, read_manifest_digest
from localcloud.images.catalogue import IMAGES, REGISTRIES, Image, add_registry, find_image, matches_image_name
from localcloud.images.root import ImageError
from localcloud.tools.build import Report

_NAME = r"(?P<name>[a-z0-9][a-z0-9._:/-]*)"
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_TAG = re.compile(r"\w[\w.-]{0,127}", re.ASCII)
_MANIFESTS = re.compile(rf"/v2/{_NAME}/manifests/(?P<reference>[^/]+)")
_BLOBS = re.compile(rf"/v2/{_NAME}/blobs/(?P<digest>[^/]+)")
_TAGS = re.compile(rf"/v2/{_NAME}/tags/list")
ECR = ".amazonaws.com"
REASON_CHARACTERS = 500
_RANGE = re.compile(r"bytes=(\d+)-(\d*)")


class NotKnown(Exception):
    """The resource does not exist. The message is an error code from the specification, returned with status 404."""


Refuse = Callable[[str, str, bool], str]
"""Function that returns why a client cannot pull an image, or an empty string if it can. Arguments: the client's
address, the image's repository, and whether the client pulls a layer.
"""


class PullRefused(Exception):
    """Raised if, on AWS, the client could not reach the registry. The message contains the reason."""


class Registry:
    """Registry of the images in the catalog. Images that are not cached are built on the first request."""

    def __init__(
        self,
        report: Report,
        ensure: Callable[[Image, Report], Path] = build.ensure_image,
        refuse: Refuse = lambda address, repository, is_layer: "",
    ) -> None:
        self._report, self._ensure, self._refuse = report, ensure, refuse
        self._layouts: dict[str, Path] = {}
        self._servers: list[ThreadingHTTPServer] = []

    def serve(self, listening: socket.socket) -> None:
        """Serve requests on a listening socket in a new thread until `close` is called. The socket may be in any
        network namespace."""
        address = listening.getsockname()[:2]
        server = ThreadingHTTPServer(address, _create_handler_class(self), bind_and_activate=False)
        server.socket.close()
        server.socket, server.daemon_threads, server.block_on_close = listening, True, False
        self._servers.append(server)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, name="registry", daemon=True).start()

    def close(self) -> None:
        """Stop all servers and close their sockets."""
        while self._servers:
            server = self._servers.pop()
            server.shutdown()
            server.server_close()

    def check_access(self, address: str, name: str, *, is_layer: bool) -> None:
        """Raise PullRefused if, on AWS, the client with this address could not reach the image's registry."""
        host = name.partition("/")[0]
        if not (host in REGISTRIES or host.endswith((ECR, f"{ECR}.cn"))):
            return  # this is a user's mirror: it is unknown whether the client could reach it on AWS
        if reason := self._refuse(address, name, is_layer):
            self._report(f"registry: {name}: {reason}")
            raise PullRefused(reason)

    def find_manifest(self, name: str, reference: str) -> Path:
        """Return the path of an image's manifest, given its tag or digest."""
        if _DIGEST.fullmatch(reference):
            for layout in self._find_layouts(name):
                if read_manifest_digest(layout) == reference:
                    return get_blob_path(layout, reference)
            raise NotKnown("MANIFEST_UNKNOWN")
        image = find_image(f"{name}:{reference}") if _TAG.fullmatch(reference) else None
        if image is None:
            self._report(f"registry: no image {name}:{reference}")
            raise NotKnown("MANIFEST_UNKNOWN")
        layout = self._ensure_layout(image)
        return get_blob_path(layout, read_manifest_digest(layout))

    def find_blob(self, name: str, digest: str) -> Path:
        """Return the path of a layer or configuration of an image in a repository."""
        for layout in self._find_layouts(name) if _DIGEST.fullmatch(digest) else ():
            if (path := get_blob_path(layout, digest)).exists():
                return path
        raise NotKnown("BLOB_UNKNOWN")

    def tags(self, name: str) -> list[str]:
        """Return the tags of a repository. The tag of a project image can also be a pattern, as in `mpi:*`."""
        tags = sorted(tag for image in _find_images(name) for tag in image.tags)
        if not tags:
            raise NotKnown("NAME_UNKNOWN")
        return tags

    def _find_layouts(self, name: str) -> Iterator[Path]:
        for image in _find_images(name):
            layout = self._layouts.get(image.name) or build.get_cached_path(image)
            if layout.exists():
                yield layout

    def _ensure_layout(self, image: Image) -> Path:
        layout = self._layouts.get(image.name)
        if layout is None or not layout.exists():
            layout = self._layouts[image.name] = self._ensure(image, self._report)
        return layout


def _find_images(name: str) -> Iterator[Image]:
    for image in IMAGES:
        if matches_image_name(name, image.name.rpartition(":")[0]):
            yield image


def _create_handler_class(registry: Registry) -> type[BaseHTTPRequestHandler]:
    class Handler(_Handler):
        served = registry

    return Handler


class _Handler(Guarded):
    served: Registry
    protocol_version = "HTTP/1.1"
    server_version = "gpumpi"

    def do_GET(self) -> None:
        try:
            self._handle_request()
        except NotKnown as error:
            self._send_error_document(HTTPStatus.NOT_FOUND, str(error), "not found here")
        except PullRefused as error:
            self._send_error_document(HTTPStatus.GATEWAY_TIMEOUT, "UNAVAILABLE", str(error))
        except ImageError as error:
            self.served._report(f"registry: {error}")
            self._send_error_document(HTTPStatus.INTERNAL_SERVER_ERROR, "UNKNOWN", str(error))
        except ConnectionError:
            self.close_connection = True  # the client disconnected

    do_HEAD = do_GET

    def _reject_write(self) -> None:
        self.close_connection = True  # the request body has not been read
        self._send_error_document(HTTPStatus.METHOD_NOT_ALLOWED, "UNSUPPORTED", "the registry of the local cloud is read-only")

    do_POST = do_PUT = do_PATCH = do_DELETE = _reject_write

    def _handle_request(self) -> None:
        url = urlsplit(self.path)
        # In requests to a mirror, containerd passes the upstream registry in the query parameter `ns`:
        # https://github.com/containerd/containerd/blob/main/docs/hosts.md
        registry = parse_qs(url.query).get("ns", [""])[0]
        if url.path in ("/v2", "/v2/"):
            self._send_content(b"{}", "application/json")
        elif match := _MANIFESTS.fullmatch(url.path):
            name = add_registry(match["name"], registry)
            self.served.check_access(self.client_address[0], name, is_layer=False)
            self._send_file(self.served.find_manifest(name, match["reference"]), MANIFEST)
        elif match := _BLOBS.fullmatch(url.path):
            name = add_registry(match["name"], registry)
            self.served.check_access(self.client_address[0], name, is_layer=True)
            self._send_file(self.served.find_blob(name, match["digest"]), "application/octet-stream")
        elif match := _TAGS.fullmatch(url.path):
            tags = self.served.tags(add_registry(match["name"], registry))
            self._send_content(json.dumps({"name": match["name"], "tags": tags}).encode(), "application/json")
        else:
            raise NotKnown("NAME_UNKNOWN")

    def _send_file(self, path: Path, content_type: str) -> None:
        """Send a blob, or the requested range of it, without loading it into memory."""
        size, digest = path.stat().st_size, f"sha256:{path.name}"
        match = _RANGE.fullmatch(self.headers.get("Range", ""))
        start = int(match[1]) if match else 0
        end = min(int(match[2]) if match and match[2] else size - 1, size - 1)
        headers = {"Content-Type": content_type, "Docker-Content-Digest": digest, "ETag": f'"{digest}"', "Accept-Ranges": "bytes"}
        if match and (start >= size or end < start):
            self._send_head(
                HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, {"Content-Range": f"bytes */{size}", "Content-Length": "0"}
            )
            return
        if match:
            headers["Content-Range"] = f"bytes {start}-{end}/{size}"
        self._send_head(
            HTTPStatus.PARTIAL_CONTENT if match else HTTPStatus.OK, {**headers, "Content-Length": str(end - start + 1)}
        )
        if self.command == "GET":
            with path.open("rb") as file:
                self.connection.sendfile(file, start, end - start + 1)

    def _send_content(
        self, content: bytes, content_type: str, status: HTTPStatus = HTTPStatus.OK, reason: str | None = None
    ) -> None:
        self._send_head(status, {"Content-Type": content_type, "Content-Length": str(len(content))}, reason)
        if self.command != "HEAD":
            self.wfile.write(content)

    def _send_error_document(self, status: HTTPStatus, code: str, message: str) -> None:
        document = {"errors": [{"code": code, "message": message, "detail": self.path}]}
        # containerd reports only the status line of an error, so include the reason there for the pod's events
        reason = " ".join(message.split())[:REASON_CHARACTERS].encode("ascii", "replace").decode()
        self._send_content(json.dumps(document).encode(), "application/json", status, reason)

    def _send_head(self, status: HTTPStatus, headers: dict[str, str], reason: str | None = None) -> None:
        self.send_response(status, reason)
        for name, value in {"Docker-Distribution-API-Version": "registry/2.0", **headers}.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Do not log requests. The registry reports missing images itself."""
