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
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reachability, "CONNECT_SECONDS", 0.0)
    monkeypatch.setattr(reachability, "ACCESS_SECONDS", 0.0)
    monkeypatch.setattr(reachability, "TIMEOUT_SECONDS", 0.5)
    monkeypatch.setattr(reachability, "PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(pulumi.runtime, "is_dry_run", lambda: False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIATESTTESTTESTTEST")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.delenv("AWS_SESSION_TOKEN", raising=False)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "own")


def trusting(authority: Authority, endpoint: str) -> ApiServer:
    text = base64.b64encode(authority.certificate.file.read_bytes()).decode()  # in base64, as EKS reports it
    return ApiServer("gpumpi-test", "us-west-2", endpoint, text)


@contextmanager
def served(authority: Authority, statuses: list[int], requests: list[tuple[str, str]]) -> Iterator[str]:
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
def serve(authority: Authority) -> Iterator[Serve]:
    """Return a function that starts an API server, and returns it with the list of received requests."""
    with ExitStack() as running:

        def start(*statuses: int) -> tuple[ApiServer, list[tuple[str, str]]]:
            requests: list[tuple[str, str]] = []
            return trusting(authority, running.enter_context(served(authority, list(statuses), requests))), requests

        yield start


@pytest.fixture
def closed(authority: Authority) -> ApiServer:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return trusting(authority, f"https://127.0.0.1:{server.getsockname()[1]}")


def test_an_authenticated_response_ends_the_check(serve: Serve) -> None:
    server, requests = serve(200)
    reachability.must_be_usable(server)
    assert [path for path, _ in requests] == ["/api/v1/namespaces?limit=1"], "anonymous callers may not list namespaces"


def test_the_request_carries_a_token_that_eks_accepts_for_this_cluster(serve: Serve) -> None:
    server, requests = serve(200)
    reachability.must_be_usable(server)
    scheme, _, token = requests[0][1].partition(" ")
    request = parse(token)
    request.check_signature(SECRET, "gpumpi-test")
    assert (scheme, request.access_key, request.region) == ("Bearer", "AKIATESTTESTTESTTEST", "us-west-2")


@pytest.mark.parametrize("refused", [401, 403, 503])
def test_the_check_retries_responses_that_deny_access(serve: Serve, monkeypatch: pytest.MonkeyPatch, refused: int) -> None:
    monkeypatch.setattr(reachability, "ACCESS_SECONDS", 30.0)
    server, requests = serve(refused, refused, 200)
    reachability.must_be_usable(server)
    assert len(requests) == 3


@pytest.mark.parametrize("refused", [401, 403])
def test_credentials_that_are_never_accepted_end_the_run_with_one_sentence(serve: Serve, refused: int) -> None:
    with pytest.raises(Stopped, match=UNAUTHORIZED % refused):
        reachability.must_be_usable(serve(refused)[0])


def test_a_closed_port_ends_the_run_with_one_sentence(closed: ApiServer) -> None:
    with pytest.raises(Stopped, match=UNREACHABLE):
        reachability.must_be_usable(closed)


def test_a_preview_only_warns_since_the_run_may_open_the_endpoint(closed: ApiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(pulumi.runtime, "is_dry_run", lambda: True)
    monkeypatch.setattr(reachability, "TIMEOUT_SECONDS", 0.1)
    monkeypatch.setattr(pulumi.log, "warn", said.append)
    reachability.must_be_usable(closed)
    assert len(said) == 1 and "cannot be reached from here" in said[0]


def test_another_server_at_the_address_is_not_accepted(serve: Serve, tmp_path: Path) -> None:
    """The other server may be a proxy that accepts connections to any address."""
    server, requests = serve(200)
    with pytest.raises(Stopped, match="CERTIFICATE_VERIFY_FAILED"):
        reachability.must_be_usable(trusting(Authority(tmp_path / "other"), server.endpoint))
    assert requests == []


def test_a_name_that_is_not_known_yet_is_tried_again(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    tries = iter(["not yet", "not yet", None])
    monkeypatch.setattr(reachability, "CONNECT_SECONDS", 30.0)
    monkeypatch.setattr(reachability, "_unreachable", lambda server: next(tries))
    reachability.must_be_usable(serve(200)[0])
    assert next(tries, "all used") == "all used"
