"""`platform.remoteWrite`: a real Prometheus with the rendered configuration sends its samples to a real receiver."""

import json
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

import pytest
import yaml

from infra.monitoring import parts, scrape
from infra.monitoring.model import TOKEN, Monitored, RemoteWrite
from localcloud.tools import debian
from testkit.control_plane import find_free_ports
from testkit.waiting import retry_until_success, wait_until

BEARER = "Bearer a-token"


@contextmanager
def run_prometheus(folder: Path, config: dict[str, Any], *flags: str) -> Iterator[str]:
    """Run Prometheus, and yield its address."""
    folder.mkdir()
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    (port,) = find_free_ports(1)
    address = f"127.0.0.1:{port}"
    program = debian.ensure_package(debian.PROMETHEUS, print) / "prometheus"
    own = [f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data", f"--web.listen-address={address}"]
    with (folder / "log").open("wb") as log, subprocess.Popen([program, *own, *flags], stdout=log, stderr=log) as process:
        try:
            retry_until_success(lambda: urlopen(f"http://{address}/-/ready", timeout=5).close(), URLError, ConnectionError)
            yield address
        finally:
            process.kill()


@contextmanager
def run_token_proxy(receiver: str, refused: list[str]) -> Iterator[str]:
    """Run a proxy that accepts only the right bearer token, like a hosted receiver; yield its URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers["Authorization"] != BEARER:
                refused.append(str(self.headers["Authorization"]))
                self.send_response(401)
            else:
                passed = {name: self.headers[name] for name in ("Content-Type", "Content-Encoding")}
                with urlopen(Request(f"http://{receiver}/api/v1/write", body, passed), timeout=10) as answer:
                    self.send_response(answer.status)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/receive"
    finally:
        server.shutdown()
        server.server_close()


def render_config(url: str, secret: str | None, token: Path, own: str) -> dict[str, Any]:
    """Return a cluster's Prometheus configuration, changed to scrape only itself, because the test has no pods."""
    config = scrape.build_prometheus_config(Monitored("gpumpi-demo", parts.PARTS, remote_write=RemoteWrite(url, secret)))
    parsed = json.loads(json.dumps(config).replace(TOKEN, str(token)))
    quick = {**parsed["global"], "scrape_interval": "1s", "evaluation_interval": "1s"}
    itself = {"job_name": "prometheus", "static_configs": [{"targets": [own]}]}
    return {**parsed, "global": quick, "rule_files": [], "alerting": {}, "scrape_configs": [itself]}


def query_samples(receiver: str) -> list[Any]:
    with urlopen(f"http://{receiver}/api/v1/query?query=up%7Bcluster%3D%22gpumpi-demo%22%7D", timeout=5) as answer:
        return list(json.load(answer)["data"]["result"])


@pytest.mark.parametrize("secret", ["receiver", None])
def test_remote_write_with_the_right_token_delivers_samples_with_cluster_name(tmp_path: Path, secret: str | None) -> None:
    token, refused = tmp_path / "token", list[str]()
    token.write_text(BEARER.split()[1])
    with (
        run_prometheus(tmp_path / "receiver", {}, "--web.enable-remote-write-receiver") as receiver,
        run_token_proxy(receiver, refused) as url,
        run_prometheus(tmp_path / "sender", render_config(url, secret, token, receiver)),
    ):
        if secret:
            wait_until(lambda: query_samples(receiver))
        else:
            wait_until(lambda: refused)
            assert query_samples(receiver) == []
    assert refused == [] if secret else set(refused) == {"None"}
