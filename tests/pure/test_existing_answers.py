"""If a kubeconfig's server does not answer correctly, one error message reports the problem and its fix."""

import json
import ssl
import threading
from collections.abc import Iterator
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra import preflight
from infra.config.stack_file import RawStack
from infra.kubernetes import kubeconfigs
from localcloud.kubernetes import pki

NOTHING: dict[str, Any] = {"items": []}
NODE = {
    "metadata": {"name": "gpu1", "labels": {"example.com/rack": "1"}},
    "status": {"allocatable": {"cpu": "64", "memory": "528Gi", "nvidia.com/gpu": "8"}},
}
POOL = {"name": "rack1", "nodeSelector": {"example.com/rack": "1"}, "gpusPerNode": 8, "nodes": 1}


class Answering(ThreadingHTTPServer):
    """Server that returns `status` and the answer for each path in `answers`, and 404 for other paths."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers: dict[str, Any] = {}
        self.status = 200

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Answering

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        answer = self.server.answers.get(path)
        content = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.send_response(self.server.status if path in self.server.answers else 404)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Do not log to stderr."""


@pytest.fixture
def server() -> Iterator[Answering]:
    with Answering() as stub:
        thread = threading.Thread(target=stub.serve_forever, args=(0.01,))
        thread.start()
        yield stub
        stub.shutdown()
        thread.join()


def examine_stack(folder: Path, address: str, user: dict[str, Any], **cluster: str) -> preflight.Examined[Any, Any]:
    """Validate a stack whose kubeconfig contains this address and user."""
    content = {
        "current-context": "admin",
        "clusters": [{"name": "rack", "cluster": {"server": address, **cluster}}],
        "contexts": [{"name": "admin", "context": {"cluster": "rack", "user": "admin"}}],
        "users": [{"name": "admin", "user": user}],
    }
    (file := folder / "admin.conf").write_text(yaml.safe_dump(content))
    platform = {"devicePlugin": False, "mpiOperator": False, "queue": False}  # nothing to fetch
    target = {"kind": "existing", "kubeconfig": {"path": str(file)}}
    return preflight.examine_existing_stack(RawStack("mine", "", {"target": target, "pools": [POOL], "platform": platform}))


TOKEN = {"token": "of a user"}
ANSWERS: dict[str, tuple[int, Any, dict[str, Any], str]] = {
    "a web page": (200, b"<html>", TOKEN, "http://{} is not a Kubernetes API server. Check context admin"),
    "another API": (200, {"name": "x"}, TOKEN, "http://{} is not a Kubernetes API server. Check context admin"),
    "a list": (200, [1], TOKEN, "http://{} is not a Kubernetes API server. Check context admin"),
    "an error": (500, {}, TOKEN, "http://{} returned status 500 for /version. Check that it is a Kubernetes API server"),
    "rejected credentials": (
        401,
        {},
        TOKEN,
        "http://{} rejects the credentials of context admin. They may have expired; renew them",
    ),
    "a user with few permissions": (
        403,
        {},
        TOKEN,
        "the credentials of context admin may not read /version. `pulumi up` needs cluster-admin permissions",
    ),
    "no credentials": (
        403,
        {},
        {},
        "context admin has no credentials for http://{}. Add credentials, or use the administrator's kubeconfig",
    ),
}


@pytest.mark.parametrize("case", ANSWERS)
def test_responses_from_a_server_other_than_kubernetes_are_reported(server: Answering, tmp_path: Path, case: str) -> None:
    server.status, server.answers["/version"], user, expected = ANSWERS[case]
    answer = examine_stack(tmp_path, f"http://{server.address}", user)
    assert (answer.not_queried, answer.problems) == (f"target.kubeconfig: {expected.format(server.address)}", ())


def test_outdated_kubernetes_is_reported_with_the_required_version(server: Answering, tmp_path: Path) -> None:
    server.answers |= {
        "/version": {"major": "1", "minor": "29+"},
        "/api/v1/nodes": {"items": [NODE]},
        "/api/v1/namespaces/kube-system/pods": NOTHING,
        "/apis/storage.k8s.io/v1/storageclasses": {"items": None},  # an empty list may be null
    }
    (problem,) = examine_stack(tmp_path, f"http://{server.address}", TOKEN).problems
    assert str(problem) == (
        f"target.kubeconfig: the cluster at http://{server.address} has Kubernetes 1.29, but the platform needs 1.33 or newer. "
        "Upgrade the cluster."
    )


def test_server_that_accepts_requests_but_never_responds_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubeconfigs, "TIMEOUT", (5, 0.05))
    with Answering() as silent:  # listens, but never answers
        reason = examine_stack(tmp_path, f"http://{silent.address}", TOKEN).not_queried
        assert reason == (
            f"target.kubeconfig: http://{silent.address} does not respond (timeout). "
            "Check that the cluster is up and that its address in the kubeconfig is current"
        )


def test_invalid_server_address_is_reported(tmp_path: Path) -> None:
    for address, shown in (("10.0.0.1:6443", '"10.0.0.1:6443"'), ("", "nothing")):
        assert examine_stack(tmp_path, address, TOKEN).not_queried == (
            f'target.kubeconfig: the server of context "admin" is {shown}. Set it to an address such as https://10.0.0.1:6443'
        )


@pytest.mark.parametrize(
    ("lifetime", "authority", "reason"),
    [
        (timedelta(days=-1), "own", "its certificate has expired; on kubeadm clusters run `kubeadm certs renew all`"),
        (timedelta(days=1), "another", "its certificate does not match the certificate authority in the kubeconfig"),
    ],
)
def test_untrusted_certificate_is_reported(
    server: Answering, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lifetime: timedelta, authority: str, reason: str
) -> None:
    authorities = {name: pki.Authority(tmp_path / name) for name in ("own", "another")}
    monkeypatch.setattr(pki, "LIFETIME", lifetime)
    monkeypatch.setattr(pki, "SKEW", timedelta(days=30))
    issued = authorities["own"].issue("server", addresses=["127.0.0.1"])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(issued.file, issued.key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    trusted = {"certificate-authority": str(authorities[authority].certificate.file)}
    assert examine_stack(tmp_path, f"https://{server.address}", TOKEN, **trusted).not_queried == (
        f"target.kubeconfig: https://{server.address} does not respond ({reason}). "
        "Check that the cluster is up and that its address in the kubeconfig is current"
    )
