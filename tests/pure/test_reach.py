"""Reachability of the Kubernetes API, and the error message if it is unreachable."""

import base64
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pulumi
import pytest

from infra.kubernetes import reachability
from localcloud.kubernetes.pki import Authority

REFUSED = (
    r"the Kubernetes API of gpumpi-test at https://127\.0\.0\.1:\d+ cannot be reached from here "
    r"\(\[Errno 111\] Connection refused\): "
    r"run `pulumi up` from inside its network, or from an address in target\.endpointAccess\.publicCidrs; "
    r"or set `platform: \{install: false\}` to skip the platform"
)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reachability, "PATIENCE_SECONDS", 0.0)
    monkeypatch.setattr(reachability, "TIMEOUT_SECONDS", 0.5)
    monkeypatch.setattr(reachability, "PAUSE_SECONDS", 0.01)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "own")


@pytest.fixture
def trusted(authority: Authority) -> str:
    """Return the certificate authority in base64, as EKS reports it."""
    return base64.b64encode(authority.certificate.file.read_bytes()).decode()


@pytest.fixture
def listening(authority: Authority) -> Iterator[str]:
    certificate = authority.issue("server", addresses=["127.0.0.1"])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.file, certificate.key)
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            try:
                while True:
                    connection, _ = server.accept()
                    with connection:
                        context.wrap_socket(connection, server_side=True).close()
            except OSError:
                return  # the server is closed, or the client does not trust it

        threading.Thread(target=serve, daemon=True).start()
        yield f"https://127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture
def closed() -> str:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"https://127.0.0.1:{server.getsockname()[1]}"


def test_an_open_way_says_nothing(listening: str, trusted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pulumi.runtime, "is_dry_run", lambda: False)
    reachability.must_be_reachable(listening, "gpumpi-test", trusted)


def test_no_way_ends_the_run_with_one_sentence(closed: str, trusted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pulumi.runtime, "is_dry_run", lambda: False)
    with pytest.raises(pulumi.RunError, match=REFUSED):
        reachability.must_be_reachable(closed, "gpumpi-test", trusted)


def test_a_preview_only_warns_since_the_run_may_open_the_way(closed: str, trusted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(pulumi.runtime, "is_dry_run", lambda: True)
    monkeypatch.setattr(pulumi.log, "warn", said.append)
    reachability.must_be_reachable(closed, "gpumpi-test", trusted)
    assert len(said) == 1 and "cannot be reached from here" in said[0]


def test_another_server_at_the_address_is_not_accepted(listening: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such a server may be a proxy that accepts connections to any address."""
    stranger = base64.b64encode(Authority(tmp_path / "other").certificate.file.read_bytes()).decode()
    monkeypatch.setattr(pulumi.runtime, "is_dry_run", lambda: False)
    with pytest.raises(pulumi.RunError, match="CERTIFICATE_VERIFY_FAILED"):
        reachability.must_be_reachable(listening, "gpumpi-test", stranger)


def test_a_name_that_is_not_known_yet_is_tried_again(listening: str, trusted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tries = iter(["not yet", "not yet", None])
    monkeypatch.setattr(pulumi.runtime, "is_dry_run", lambda: False)
    monkeypatch.setattr(reachability, "PATIENCE_SECONDS", 30.0)
    monkeypatch.setattr(reachability, "_refused", lambda endpoint, authority: next(tries))
    reachability.must_be_reachable(listening, "gpumpi-test", trusted)
    assert next(tries, "all used") == "all used"
