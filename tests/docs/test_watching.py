"""A benchmark's watch misses no event."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from bench.watching import Watch


class ApiServer(BaseHTTPRequestHandler):
    """API server whose watches end after one event. In each event, the object has a new version."""

    def do_GET(self) -> None:
        query = {name: values[0] for name, values in parse_qs(urlsplit(self.path).query).items()}
        version = query.get("resourceVersion", "1")
        changed = {"type": "MODIFIED", "object": {"metadata": {"resourceVersion": str(int(version) + 1)}}}
        content = changed if "watch" in query else {"metadata": {"resourceVersion": version}}
        self.send_response(200)
        self.end_headers()
        self.wfile.write(f"{json.dumps(content)}\n".encode())

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Iterator[Path]:
    with ThreadingHTTPServer(("127.0.0.1", 0), ApiServer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        cluster = {"name": "one", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}
        context = {"name": "one", "context": {"cluster": "one", "user": "one"}}
        user = {"name": "one", "user": {"token": "any"}}
        file = tmp_path / "kubeconfig.yaml"
        file.write_text(
            json.dumps({"clusters": [cluster], "contexts": [context], "users": [user], "current-context": "one"}),
            encoding="utf-8",
        )
        yield file
        server.shutdown()


def test_a_watch_closed_by_the_api_server_resumes_after_its_last_event(kubeconfig: Path) -> None:
    resource_versions: list[str] = []
    heard_three = threading.Event()

    def record_event(_: str, node: dict[str, dict[str, str]], __: float) -> None:
        resource_versions.append(node["metadata"]["resourceVersion"])
        if len(resource_versions) == 3:
            heard_three.set()

    with Watch(kubeconfig, "/api/v1/nodes", record_event):
        assert heard_three.wait(60)
    assert resource_versions[:3] == ["2", "3", "4"]
