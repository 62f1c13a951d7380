"""Images are looked up anonymously in their registry. Without a response, the result is unknown."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from infra.facts.registry_api import NotAnswered, read_image_config

INDEX = {
    "manifests": [
        {"digest": "sha256:arm", "platform": {"architecture": "arm64"}},
        {"digest": "sha256:amd", "platform": {"architecture": "amd64"}},
    ]
}
MANIFEST = {"config": {"digest": "sha256:config"}}
CONFIG = {"config": {"Env": ["PATH=/opt/amazon/efa/bin"]}}
CONTENT: dict[str, Any] = {
    "team/train/manifests/1": INDEX,
    "team/train/manifests/sha256:amd": MANIFEST,
    "team/train/blobs/sha256:config": CONFIG,
    "public/app/manifests/latest": MANIFEST,
    "public/app/blobs/sha256:config": CONFIG,
}


class Handler(BaseHTTPRequestHandler):
    """A registry: `public/` needs an anonymous token, `private/` a login, and `broken/` returns 500."""

    def do_GET(self) -> None:
        path = self.path.removeprefix("/v2/")
        host = self.headers["Host"]
        if self.path.startswith("/token"):
            return self._send_answer(200, {"token": "anyone"})
        if path.startswith("private/"):
            return self._send_answer(401, {}, 'Basic realm="private"')
        if path.startswith("public/") and self.headers["Authorization"] != "Bearer anyone":
            return self._send_answer(401, {}, f'Bearer realm="http://{host}/token",service="x",scope="pull"')
        if path.startswith("broken/"):
            return self._send_answer(500, {})
        return self._send_answer(200 if path in CONTENT else 404, CONTENT.get(path, {}))

    def _send_answer(self, code: int, body: Any, challenge: str = "") -> None:
        content = json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Length", str(len(content)))
        if challenge:
            self.send_header("WWW-Authenticate", challenge)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        return


@pytest.fixture(scope="module")
def registry() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"localhost:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.parametrize("name", ["team/train:1", "public/app"])
def test_image_configuration_matches_the_architecture(registry: str, name: str) -> None:
    assert read_image_config(f"{registry}/{name}", "x86_64", "http") == CONFIG


@pytest.mark.parametrize("name", ["team/train:2", "team/nothing:1"])
def test_lookup_of_missing_image_returns_none(registry: str, name: str) -> None:
    assert read_image_config(f"{registry}/{name}", "x86_64", "http") is None


@pytest.mark.parametrize(
    ("name", "reason"),
    [("private/app:1", "requires a login"), ("broken/app:1", "answers 500")],
)
def test_unexpected_registry_response_is_an_error(registry: str, name: str, reason: str) -> None:
    with pytest.raises(NotAnswered, match=reason):
        read_image_config(f"{registry}/{name}", "x86_64", "http")


def test_unreachable_registry_is_an_error() -> None:
    with pytest.raises(NotAnswered, match="localhost:1 cannot be reached"):
        read_image_config("localhost:1/app:1", "x86_64", "http")
