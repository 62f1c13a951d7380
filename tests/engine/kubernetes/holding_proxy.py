"""HTTP proxy in front of an API server; the proxy delays the response to the request that creates a given object."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import urllib3
import yaml

from testkit.control_plane import ControlPlane


class HoldingProxy(ThreadingHTTPServer):
    """Forwards requests at once, but holds the response to the creation of object `name` until `release` is set."""

    daemon_threads = True

    def __init__(self, plane: ControlPlane, name: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.plane = plane
        self.name = name
        self.held = threading.Event()
        self.release = threading.Event()
        self.upstream = urllib3.PoolManager(ca_certs=str(plane.folder / "certificates" / "apiserver.crt"), retries=False)

    def kubeconfig(self) -> str:
        content = yaml.safe_load(self.plane.kubeconfig())
        content["clusters"][0]["cluster"] = {"server": f"http://127.0.0.1:{self.server_port}"}
        return yaml.safe_dump(content)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: HoldingProxy

    def handle_request(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        names = ("Authorization", "Content-Type", "Accept")
        headers = {name: self.headers[name] for name in names if self.headers[name]}
        proxy = self.server
        answer = proxy.upstream.request(self.command, proxy.plane.url + self.path, body=body or None, headers=headers)
        if self.command == "POST" and "dryRun" not in self.path and _read_name(body) == proxy.name:
            proxy.held.set()
            proxy.release.wait()
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.headers.get("Content-Type", "application/json"))
        self.send_header("Content-Length", str(len(answer.data)))
        self.end_headers()
        self.wfile.write(answer.data)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_request

    def log_message(self, format: str, *args: Any) -> None:
        pass


def _read_name(body: bytes) -> str:
    return str(json.loads(body).get("metadata", {}).get("name", ""))
