"""The dashboard's server: which requests it answers, and what a browser may do with the page."""

import hmac
import http.client
import json
import re
import signal
import socket
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cli import main
from cli.clusters.dashboard import dashboard_command
from cli.clusters.dashboard import server as module
from cli.clusters.dashboard.cluster_reader import EVERY_SECONDS, SPENDING_SECONDS, Kubernetes, Reader, SpendingReader
from cli.clusters.dashboard.server import FILES, PAGE, DashboardServer
from cli.clusters.status.cluster_status import Status
from cli.errors import CommandError, Forbidden
from cli.exit_codes import UNREACHABLE
from cli.nodes.health import repair_rows
from infra.config.stack_file import RawStack
from testkit.dashboard_world import NOW, SPENDING, STATUS

DOCUMENT = {"title": "a secret of the cluster"}


@pytest.fixture
def server() -> Iterator[DashboardServer]:
    with DashboardServer(0, lambda: DOCUMENT) as dashboard:
        thread = threading.Thread(target=dashboard.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield dashboard
        dashboard.shutdown()
        thread.join()


def send_request(server: DashboardServer, path: str, method: str = "GET", **headers: str) -> tuple[int, dict[str, str], str]:
    connection = http.client.HTTPConnection(*server.server_address, timeout=20)
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    body = answer.read().decode()
    connection.close()
    return answer.status, {name.lower(): value for name, value in answer.getheaders()}, body


# --- which clients get a response


def test_printed_url_serves_page_and_data(server: DashboardServer) -> None:
    path = server.url.removeprefix(f"http://127.0.0.1:{server.port}")
    assert path == f"/{server.token}/"
    status, headers, body = send_request(server, path)
    assert (status, headers["content-type"]) == (200, "text/html; charset=utf-8") and body.startswith("<!doctype html>")
    for name, (_, kind) in FILES.items():
        assert send_request(server, path + name)[:2][1]["content-type"] == kind
    assert json.loads(send_request(server, f"{path}data.json")[2]) == DOCUMENT


@pytest.mark.parametrize(
    "path", ["/", "/data.json", "/wrong/data.json", "/{token}", "/{part}/data.json", "/{token}x/data.json", "/?{token}"]
)
def test_request_without_the_token_gets_no_content(server: DashboardServer, path: str) -> None:
    asked = path.format(token=server.token, part=server.token[:-1])
    status, _, body = send_request(server, asked)
    assert status == 403 and "secret" not in body and server.token not in body


def test_the_token_is_long_random_and_compared_in_constant_time(server: DashboardServer, monkeypatch: pytest.MonkeyPatch) -> None:
    with DashboardServer(0, lambda: DOCUMENT) as other:
        assert server.token != other.token and len(server.token) >= 43  # 256 bits
    compared: list[tuple[bytes, bytes]] = []
    real = hmac.compare_digest
    monkeypatch.setattr(module.hmac, "compare_digest", lambda a, b: compared.append((a, b)) or real(a, b))
    send_request(server, "/guess/data.json")
    assert compared == [(b"guess", server.token.encode())]


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "user@127.0.0.1", "[bad", ""])
def test_foreign_host_header_is_refused_even_with_the_token(server: DashboardServer, host: str) -> None:
    status, _, body = send_request(server, f"/{server.token}/data.json", Host=host)
    assert status == 403 and "secret" not in body


def test_an_ssh_tunnel_may_use_another_port(server: DashboardServer) -> None:
    assert send_request(server, f"/{server.token}/data.json", Host="localhost:9999")[0] == 200


@pytest.mark.parametrize(
    "name", ["../server.py", "page/index.html", "index.html", "%2e%2e/server.py", "data.json/", "/etc/passwd"]
)
def test_only_files_of_the_page_are_served(server: DashboardServer, name: str) -> None:
    assert send_request(server, f"/{server.token}/{name}")[0] == 404


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"])
def test_server_rejects_writing_methods(server: DashboardServer, method: str) -> None:
    status, headers, body = send_request(server, f"/{server.token}/data.json", method, Origin="https://evil.example")
    assert status == 501 and "secret" not in body and "access-control-allow-origin" not in headers


def test_head_response_has_headers_but_no_body(server: DashboardServer) -> None:
    status, headers, body = send_request(server, f"/{server.token}/data.json", "HEAD")
    assert (status, body) == (200, "") and int(headers["content-length"]) == len(json.dumps(DOCUMENT))


def test_server_listens_only_on_the_loopback_address(server: DashboardServer) -> None:
    assert server.server_address[0] == "127.0.0.1"
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.2", server.port), timeout=20).close()


def test_port_in_use_gets_one_line_error_with_the_fix(server: DashboardServer) -> None:
    fix = re.escape(f"--port: cannot listen on 127.0.0.1:{server.port} (Address already in use). Choose another one: --port ")
    with pytest.raises(CommandError, match=fix):
        DashboardServer(server.port, lambda: DOCUMENT)


# --- restrictions on browsers


@pytest.mark.parametrize("path", ["/{token}/", "/{token}/data.json", "/{token}/page.js", "/{token}/absent", "/", "/wrong/"])
def test_every_response_forbids_external_content(server: DashboardServer, path: str) -> None:
    _, headers, _ = send_request(server, path.format(token=server.token), Origin="https://evil.example")
    policy = dict(part.strip().split(" ", 1) for part in headers["content-security-policy"].split(";"))
    assert policy.pop("default-src") == "'none'"
    assert {name: policy.pop(name) for name in ("script-src", "style-src", "connect-src", "img-src")} == dict.fromkeys(
        ("script-src", "style-src", "connect-src", "img-src"), "'self'"
    )
    assert policy == {
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
        "require-trusted-types-for": "'script'",
    }
    assert not [name for name in headers if name.startswith("access-control-") or name == "set-cookie"]
    assert (headers["referrer-policy"], headers["cache-control"]) == ("no-referrer", "no-store")
    assert (headers["x-content-type-options"], headers["cross-origin-resource-policy"]) == ("nosniff", "same-origin")
    assert headers["server"] == "gpumpi"


def test_page_scripts_never_insert_data_as_html() -> None:
    scripts = "".join((PAGE / name).read_text() for name in ("page.js", "table.js"))
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|setAttribute\(\"on", scripts
    )


@pytest.mark.parametrize("path", sorted(PAGE.iterdir()), ids=lambda path: path.name)
def test_page_loads_no_external_resources(path: Path) -> None:
    text = path.read_text().replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"https?:|@import|@font-face|url\(", text)
    assert not re.search(r"<style|<script(?![^>]*\bsrc=)|\bstyle=|\son\w+=", text) or path.suffix == ".js"
    assert path.name in {name for name, _ in FILES.values()}


# --- reading ------------------------------------------------------------------------------------------------------------


class World:
    """Fake clock, and a fake cluster that responds or fails."""

    def __init__(self) -> None:
        self.now, self.looks = 0.0, 0
        self.error: CommandError | None = None

    def clock(self) -> float:
        return self.now

    def look(self) -> tuple[Status, int]:
        self.looks += 1
        if self.error:
            raise self.error
        return STATUS, 0

    def make_reader(self) -> Reader:
        return Reader(self.look, None, SpendingReader(None, None), self.clock)


def test_several_open_pages_share_one_read_of_the_cluster() -> None:
    world = World()
    reader = world.make_reader()
    reader.start()
    assert [reader.build_page()["title"] for _ in range(5)] == ["gpumpi-mine"] * 5 and world.looks == 1
    world.now = EVERY_SECONDS
    reader.build_page()
    assert world.looks == 2


def test_page_keeps_the_last_data_and_shows_the_reason_when_the_cluster_stops_responding() -> None:
    world = World()
    reader = world.make_reader()
    reader.start()
    world.now, world.error = EVERY_SECONDS, CommandError("no cluster answers at https://a", UNREACHABLE)
    page = reader.build_page()
    assert (page["stale"], page["title"], len(page["jobs"]["rows"])) == ("no cluster answers at https://a", "gpumpi-mine", 3)
    world.now, world.error = 2 * EVERY_SECONDS, None
    assert reader.build_page()["stale"] == ""


def test_cluster_that_never_responded_ends_the_command() -> None:
    world = World()
    world.error = CommandError("no cluster answers at https://a", UNREACHABLE)
    with pytest.raises(CommandError, match="no cluster answers"):
        world.make_reader().start()


def test_caller_without_any_permission_gets_a_page_with_the_reason() -> None:
    world = World()
    world.error = Forbidden("ada may not read ConfigMap gpumpi-cluster", UNREACHABLE)
    reader = world.make_reader()
    reader.start()
    page = reader.build_page()
    assert (page["title"], page["unknown"]) == ("unknown cluster", ["ada may not read ConfigMap gpumpi-cluster"])


class Permitted:
    """Cluster in which the caller may list only some kinds, in some namespaces."""

    def __init__(self, *allowed: str) -> None:
        self.allowed = allowed

    def description(self) -> Any:
        self._check_permission("ConfigMap")
        return type("Described", (), {"namespaces": [type("N", (), {"name": name}) for name in ("red", "blue")]})

    def list(self, kind: str, namespace: str | None = None, fields: Any = None) -> Sequence[Any]:
        self._check_permission(kind)
        condition = {"type": "AcceleratedHardwareReady", "status": "False", "reason": "NvidiaXID79Error"}
        status = {"conditions": [{"type": "Ready", "status": "True"}, condition]}
        return [{"metadata": {"name": "one"}, "spec": {}, "status": status}] if kind == "Node" else []

    def list_labeled(self, kind: str, label: str, namespace: str) -> Sequence[Any]:
        self._check_permission(f"{kind} {namespace}")
        return []

    def find(self, kind: str, name: str, namespace: str) -> Any:
        self._check_permission(name)
        journal = {"version": 1, "entries": [], "held": ["one"]}
        return {"data": {"nodes.json": json.dumps(journal)}}

    def _check_permission(self, what: str) -> None:
        if what not in self.allowed:
            raise Forbidden(f"ada may not list {what}", UNREACHABLE)


def make_kubernetes(*allowed: str) -> Kubernetes:
    cluster: Any = Permitted(*allowed)
    return Kubernetes(lambda: cluster)


def test_forbidden_namespace_does_not_hide_records_of_others() -> None:
    reader = make_kubernetes("ConfigMap", "ConfigMap blue")
    assert reader.records() == [] and reader.unknown == ["records of jobs: ada may not list ConfigMap red"]


def test_unreadable_records_are_not_shown_as_an_empty_list() -> None:
    assert make_kubernetes("ConfigMap").records() == "; ".join(
        f"records of jobs: ada may not list ConfigMap {name}" for name in ("red", "blue")
    )
    assert make_kubernetes().records() == "ada may not list ConfigMap"


def test_nodes_are_shown_without_access_to_events_and_records() -> None:
    reader = make_kubernetes("Node")
    nodes = reader.nodes(reader.records(), NOW)
    assert not isinstance(nodes, str) and [node.name for node in nodes] == ["one"]
    assert reader.unknown == ["events of nodes: ada may not list Event", "journal of nodes: ada may not list gpumpi-node-health"]
    assert make_kubernetes().nodes([], NOW) == "ada may not list Node"


def test_actions_on_a_broken_node_come_from_the_job_controllers_journal() -> None:
    (node,) = make_kubernetes("Node", "Event", "gpumpi-node-health").nodes([], NOW)
    assert not isinstance(node, str) and node.next == repair_rows.HELD


def test_the_spending_is_read_in_the_background_once_per_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    world, read = World(), threading.Semaphore(0)
    answers: list[int] = []

    def read_spending(self: SpendingReader, raw: RawStack) -> Any:
        read.acquire()
        answers.append(1)
        return SPENDING

    monkeypatch.setattr(SpendingReader, "_read_spending", read_spending)
    reader = SpendingReader(RawStack("mine", "us-west-2", {"target": {"kind": "eks"}}), None, world.clock)
    assert reader.get_latest_spending() == "cost so far: reading prices" == reader.get_latest_spending()
    read.release()
    assert reader._thread is not None
    reader._thread.join()
    assert reader.get_latest_spending() is SPENDING and len(answers) == 1
    world.now = SPENDING_SECONDS
    read.release()
    reader.get_latest_spending()
    reader._thread.join()
    assert len(answers) == 2


@pytest.mark.parametrize(("kind", "words"), [(None, "Start the dashboard with -s STACK"), ("existing", "does not run in AWS")])
def test_cluster_without_prices_shows_why_the_cost_is_unknown(kind: str | None, words: str) -> None:
    raw = RawStack("mine", "", {"target": {"kind": kind}}) if kind else None
    assert words in str(SpendingReader(raw, None).get_latest_spending())


# --- the verb -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def fake_cluster(monkeypatch: pytest.MonkeyPatch) -> World:
    world = World()
    monkeypatch.setattr(dashboard_command, "make_status_query", lambda *_, **__: world.look)
    nothing = make_kubernetes()
    monkeypatch.setattr(dashboard_command.stack_cluster, "connect_to_stack", lambda *_: nothing.cluster())
    return world


def interrupt_server(server: DashboardServer) -> None:
    assert fetch_data_once(server)["title"] == "gpumpi-mine"
    signal.raise_signal(signal.SIGINT)


def fetch_data_once(server: DashboardServer) -> Any:
    thread = threading.Thread(target=server.handle_request)
    thread.start()
    data = json.loads(send_request(server, f"/{server.token}/data.json")[2])
    thread.join()
    return data


@pytest.mark.parametrize("arguments", [[], ["--json"]], ids=["text", "json"])
def test_dashboard_command_prints_its_url_and_serves_until_interrupted(
    fake_cluster: World, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    monkeypatch.setattr(DashboardServer, "serve_forever", interrupt_server)
    done = CliRunner().invoke(main.app, ["dashboard", *arguments])
    assert (done.exit_code, done.stderr) == (130, ""), done.output
    url = json.loads(done.stdout)["url"] if arguments else done.stdout.splitlines()[0]
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/[\w-]{43}/", url)


def test_dashboard_command_fails_with_the_reason_if_the_cluster_does_not_respond(fake_cluster: World) -> None:
    fake_cluster.error = CommandError("no cluster answers at https://a", UNREACHABLE)
    done = CliRunner().invoke(main.app, ["dashboard"])
    assert (done.exit_code, done.stdout, done.stderr) == (5, "", "cluster dashboard: no cluster answers at https://a\n")
