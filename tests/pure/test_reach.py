"""Whether `pulumi up` can use the Kubernetes API: connection, credentials, and the error message if it cannot."""

import base64
import http.server
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pulumi
import pytest

from infra.config.stopping import Stopped
from infra.kubernetes import reachability
from infra.kubernetes.reachability import ApiServer
from localcloud.kubernetes.access.token import parse
from localcloud.kubernetes.pki import Authority

UNREACHABLE = (
    r"the Kubernetes API of gpumpi-test at https://127\.0\.0\.1:\d+ cannot be reached from here "
    r"\(\[Errno 111\] Connection refused\): "
    r"run `pulumi up` from an address in target\.endpointAccess\.publicCidrs, or from a network that is connected to the VPC "
    r"and in privateCidrs; "
    r"or set `platform: \{install: false\}` to skip the platform"
)
UNAUTHORIZED = (
    r"the Kubernetes API of gpumpi-test at https://127\.0\.0\.1:\d+ does not accept the AWS credentials of this run "
    r"\(status %d\): new access entries take up to a few minutes; run `pulumi up` again\. If this persists, check with "
    r"`aws sts get-caller-identity` that the credentials are those of a principal in target\.admins"
)
SECRET = "a/secret+key"


@pytest.fixture(autouse=True)
def shorten_timeouts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reachability, "CONNECT_SECONDS", 0.0)
    monkeypatch.setattr(reachability, "ACCESS_SECONDS", 0.0)
    monkeypatch.setattr(reachability, "TIMEOUT_SECONDS", 0.5)
    monkeypatch.setattr(reachability, "PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(pulumi.runtime, "is_dry_run", lambda: False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIATESTTESTTESTTEST")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.delenv("AWS_SESSION_TOKEN", raising=False)


@pytest.fixture
def certificate_authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "own")


def make_api_server(authority: Authority, endpoint: str) -> ApiServer:
    text = base64.b64encode(authority.certificate.file.read_bytes()).decode()  # in base64, as EKS reports it
    return ApiServer("gpumpi-test", "us-west-2", endpoint, text)


@contextmanager
def serve_statuses(authority: Authority, statuses: list[int], requests: list[tuple[str, str]]) -> Iterator[str]:
    """Serve an API that returns these statuses in order, and then repeats the last one."""
    certificate = authority.issue("server", addresses=["127.0.0.1"])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.file, certificate.key)

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            requests.append((self.path, self.headers.get("Authorization", "")))
            self.send_response(statuses.pop(0) if len(statuses) > 1 else statuses[0])
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    class Server(http.server.ThreadingHTTPServer):
        def get_request(self) -> tuple[ssl.SSLSocket, tuple[str, int]]:
            connection, address = self.socket.accept()
            return context.wrap_socket(connection, server_side=True), address

        def handle_error(self, request: object, client_address: object) -> None:
            pass  # expected: some clients only connect, or do not trust the certificate

    with Server(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield f"https://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


Serve = Callable[..., tuple[ApiServer, list[tuple[str, str]]]]


@pytest.fixture
def start_server(certificate_authority: Authority) -> Iterator[Serve]:
    """Return a function that starts an API server, and returns it with the list of received requests."""
    with ExitStack() as running:

        def start_api_server(*statuses: int) -> tuple[ApiServer, list[tuple[str, str]]]:
            requests: list[tuple[str, str]] = []
            return make_api_server(
                certificate_authority, running.enter_context(serve_statuses(certificate_authority, list(statuses), requests))
            ), requests

        yield start_api_server


@pytest.fixture
def closed_api_server(certificate_authority: Authority) -> ApiServer:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return make_api_server(certificate_authority, f"https://127.0.0.1:{server.getsockname()[1]}")


def test_api_server_check_succeeds_on_an_authenticated_response(start_server: Serve) -> None:
    server, requests = start_server(200)
    reachability.wait_until_usable(server)
    assert [path for path, _ in requests] == ["/api/v1/namespaces?limit=1"], "anonymous callers may not list namespaces"


def test_request_carries_a_valid_eks_token_for_its_cluster(start_server: Serve) -> None:
    server, requests = start_server(200)
    reachability.wait_until_usable(server)
    scheme, _, token = requests[0][1].partition(" ")
    request = parse(token)
    request.check_signature(SECRET, "gpumpi-test")
    assert (scheme, request.access_key, request.region) == ("Bearer", "AKIATESTTESTTESTTEST", "us-west-2")


@pytest.mark.parametrize("refused", [401, 403, 503])
def test_api_server_check_retries_responses_that_deny_access(
    start_server: Serve, monkeypatch: pytest.MonkeyPatch, refused: int
) -> None:
    monkeypatch.setattr(reachability, "ACCESS_SECONDS", 30.0)
    server, requests = start_server(refused, refused, 200)
    reachability.wait_until_usable(server)
    assert len(requests) == 3


@pytest.mark.parametrize("refused", [401, 403])
def test_rejected_credentials_end_the_run_with_one_error_line(start_server: Serve, refused: int) -> None:
    with pytest.raises(Stopped, match=UNAUTHORIZED % refused):
        reachability.wait_until_usable(start_server(refused)[0])


def test_closed_port_ends_the_run_with_one_error_line(closed_api_server: ApiServer) -> None:
    with pytest.raises(Stopped, match=UNREACHABLE):
        reachability.wait_until_usable(closed_api_server)


def test_preview_only_warns_because_the_run_may_open_the_endpoint(
    closed_api_server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(pulumi.runtime, "is_dry_run", lambda: True)
    monkeypatch.setattr(reachability, "TIMEOUT_SECONDS", 0.1)
    monkeypatch.setattr(pulumi.log, "warn", said.append)
    reachability.wait_until_usable(closed_api_server)
    assert len(said) == 1 and "cannot be reached from here" in said[0]


def test_server_with_an_untrusted_certificate_is_not_accepted(start_server: Serve, tmp_path: Path) -> None:
    """The other server may be a proxy that accepts connections to any address."""
    server, requests = start_server(200)
    with pytest.raises(Stopped, match="CERTIFICATE_VERIFY_FAILED"):
        reachability.wait_until_usable(make_api_server(Authority(tmp_path / "other"), server.endpoint))
    assert requests == []


def test_unresolved_host_name_is_retried(start_server: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    tries = iter(["not yet", "not yet", None])
    monkeypatch.setattr(reachability, "CONNECT_SECONDS", 30.0)
    monkeypatch.setattr(reachability, "_check_connection", lambda server: next(tries))
    reachability.wait_until_usable(start_server(200)[0])
    assert next(tries, "all used") == "all used"
