"""node-problem-detector, which emulates EKS's node monitoring agent, turns kernel log lines into node conditions."""

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from localcloud.kubernetes.node_monitoring import rules
from localcloud.kubernetes.nodes import kernel_log
from localcloud.tools.build import BuildError, ensure_tool
from localcloud.tools.catalogue import NODE_PROBLEM_DETECTOR
from testkit.waiting import wait_while

NODE = "ip-10-0-1-7"
OFF_THE_BUS = "NVRM: Xid (PCI:0000:10:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus"


@dataclass
class ApiServer:
    """Fake API server that records the conditions and events that the detector writes."""

    own: Path
    conditions: list[dict[str, Any]] = field(default_factory=list)
    """All states of the node's condition, oldest first."""
    events: list[str] = field(default_factory=list)
    """Readable text of each event, which the detector sends as protobuf."""

    def log(self, message: str) -> None:
        kernel_log.append_message(self.own, NODE, message, datetime.now(UTC))

    def log_xid(self, number: int, address: str = "00000000:10:00.0") -> None:
        self.log(kernel_log.format_xid_line(address, number))

    def wait_for_condition(self, reason: str) -> dict[str, Any]:
        """Wait until the node's condition has this reason."""
        return wait_while(
            lambda: self.conditions[-1] if self.conditions else {}, lambda condition: condition.get("reason") != reason
        )


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ApiServer]:
    """Run the detector on a node, with a fake API server."""
    try:
        program = ensure_tool(NODE_PROBLEM_DETECTOR, print)
    except BuildError as error:
        pytest.skip(str(error))
    (tmp_path / kernel_log.FILE).parent.mkdir(parents=True)
    kernel_log.create_log(tmp_path)
    api_server = ApiServer(tmp_path)
    api_server.log_xid(64)  # a log line from before the detector's start
    file = tmp_path / "rules.json"
    file.write_text(json.dumps(rules.build_configuration(tmp_path / kernel_log.FILE)))
    with ThreadingHTTPServer(("127.0.0.1", 0), make_handler(api_server)) as http, (tmp_path / "log").open("w") as log:
        Thread(target=http.serve_forever, daemon=True).start()
        where = f"--apiserver-override=http://127.0.0.1:{http.server_port}?inClusterConfig=false"
        flags = [f"--config.system-log-monitor={file}", f"--hostname-override={NODE}", where, "--port=0", "--prometheus-port=0"]
        with subprocess.Popen([program, *flags], stdout=log, stderr=log) as running:
            try:
                api_server.wait_for_condition("NvidiaGPUIsReady")
                yield api_server
            finally:
                running.terminate()
        http.shutdown()


def make_handler(api_server: ApiServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._send_json({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}, "status": {}})

        def do_PATCH(self) -> None:
            api_server.conditions += json.loads(self._read_body())["status"]["conditions"]
            self.do_GET()

        def do_POST(self) -> None:
            api_server.events.append(self._read_body().decode(errors="replace"))
            self._send_json({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "event"}})

        def _read_body(self) -> bytes:
            return self.rfile.read(int(self.headers["Content-Length"]))

        def _send_json(self, document: Any) -> None:
            data = json.dumps(document).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            return

    return Handler


def test_gpu_faults_set_the_same_condition_and_reasons_as_the_eks_agent(server: ApiServer) -> None:
    healthy = server.conditions[0]
    assert (healthy["type"], healthy["status"]) == ("AcceleratedHardwareReady", "True")
    server.log_xid(31)
    server.log("eth0: link becomes ready")
    server.log_xid(79)
    first = server.wait_for_condition("NvidiaXID79Error")
    assert (first["status"], first["message"]) == ("False", OFF_THE_BUS)
    server.log_xid(48, "00000000:11:00.0")
    second = server.wait_for_condition("NvidiaDoubleBitError")
    assert (second["status"], second["lastTransitionTime"]) == ("False", first["lastTransitionTime"])
    assert second["message"].startswith(f"{OFF_THE_BUS}; NVRM: Xid (PCI:0000:11:00): 48")
    reasons = [condition["reason"] for condition in server.conditions]
    assert "NvidiaXID64Error" not in reasons and "NvidiaXID31Warning" not in reasons
    assert all("NvidiaXID31Warning" in event for event in server.events), "no event about a condition"


def test_an_application_error_is_only_an_event_and_leaves_the_node_healthy(server: ApiServer) -> None:
    server.log_xid(31)
    (event,) = wait_while(lambda: list(server.events), lambda events: not events)
    assert all(text in event for text in ("Warning", "AcceleratedHardwareReady", NODE))
    assert "NvidiaXID31Warning: NVRM: Xid (PCI:0000:10:00): 31, " in event
    assert {condition["status"] for condition in server.conditions} == {"True"}
