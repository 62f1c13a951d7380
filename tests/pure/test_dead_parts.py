"""If the API server, etcd or another component of a local cluster has crashed, commands fail at once and name the
crashed component.
"""

import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import psutil
import pytest
import yaml

from cli.clusters.kubernetes_access import Cluster
from cli.errors import CommandError
from cli.local import crashed_parts
from localcloud import instance
from localcloud.instance import LocalCloud
from localcloud.kubernetes.state import ClusterState
from localcloud.machine.supervisor import Crash
from localcloud.processes import Server, save_servers

ETCD_IS_DEAD = "[+]ping ok\n[-]etcd failed: reason withheld\n[+]poststarthook/start-informers ok\nreadyz check failed"
NO_KUEUE = (
    'Internal error occurred: failed calling webhook "mmpijob.kb.io": failed to call webhook: Post '
    '"https://kueue-webhook-service.kueue-system.svc:443/mutate-kubeflow-org-v2beta1-mpijob?timeout=10s": '
    'no endpoints available for service "kueue-webhook-service"'
)


@contextmanager
def serve_api(folder: Path, readyz: tuple[int, str] = (200, "ok"), creation: tuple[int, str] = (500, "")) -> Iterator[Cluster]:
    """API server with fixed responses to `/readyz` and to the creation of objects."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_answer(*readyz)

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_answer(creation[0], json.dumps({"reason": "InternalError", "message": creation[1]}))

        def send_answer(self, status: int, text: str) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, format: str, *args: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield Cluster(write_kubeconfig(folder, f"http://127.0.0.1:{server.server_port}"), None)
        finally:
            server.shutdown()
            thread.join()


def write_kubeconfig(folder: Path, server: str) -> Path:
    entry = {"clusters": [{"name": "c", "cluster": {"server": server}}], "users": [{"name": "u", "user": {"token": "t"}}]}
    contexts = [{"name": "here", "context": {"cluster": "c", "user": "u"}}]
    file = folder / "kubeconfig"
    file.write_text(yaml.safe_dump({"kind": "Config", **entry, "contexts": contexts, "current-context": "here"}))
    return file


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Configure this process to use a temporary local cloud; return the local cloud's folder."""
    monkeypatch.setenv(crashed_parts.BACKEND, f"file://{tmp_path / 'cloud' / 'backend'}")
    return tmp_path / "cloud"


def write_state_files(home: Path, server: str, *dead: str) -> LocalCloud:
    """Write the state files of a local cloud with a cluster in which the `dead` processes have crashed."""
    folder = home / "kubernetes" / "1-gpumpi-local"
    folder.mkdir(parents=True)
    crashes = [Crash(name, -9, "/log", "") for name in dead]
    ClusterState("gpumpi-local", "us-west-2", "ready", server, crashes=crashes).save(folder)
    started = psutil.Process().create_time()
    save_servers([Server(name, os.getpid(), started, 1, "") for name in instance.SERVERS], home / "servers.json")
    return LocalCloud(home)


def test_api_server_without_etcd_gets_no_further_requests(tmp_path: Path) -> None:
    with serve_api(tmp_path, (500, ETCD_IS_DEAD)) as cluster, pytest.raises(CommandError) as raised:
        cluster.list("Pod")
    assert str(raised.value).startswith(f"the API server at {cluster.server} is not ready: etcd; ")
    assert str(raised.value).endswith("scripts/cluster local start` restarts its dead parts")


def test_error_names_dead_local_component_and_the_restart_command(tmp_path: Path, home: Path) -> None:
    server = "https://127.0.0.1:1"
    cluster = Cluster(write_kubeconfig(tmp_path, server), None)
    write_state_files(home, server, "etcd", "kube-apiserver")
    with pytest.raises(CommandError) as raised:
        cluster.list("Pod")
    parts = "etcd of cluster gpumpi-local, kube-apiserver of cluster gpumpi-local"
    assert str(raised.value).startswith(f"not running: {parts}. Restart with: ")
    assert str(raised.value).endswith(f"scripts/cluster local start --home {home}")


def test_dead_node_blocks_only_commands_that_start_pods_or_change_the_stack(home: Path) -> None:
    server = "https://127.0.0.1:1"
    cloud = write_state_files(home, server, "containerd-ip-10-0-0-7")
    crashed_parts.check_control_plane_runs(server)
    crashed_parts.check_control_plane_runs("https://127.0.0.1:2", nodes=True)
    for refuse in (
        lambda: crashed_parts.check_control_plane_runs(server, nodes=True),
        lambda: crashed_parts.check_no_crashed_process(cloud),
    ):
        with pytest.raises(CommandError, match=r"^not running: containerd-ip-10-0-0-7 of cluster gpumpi-local"):
            refuse()


def test_creating_a_job_without_the_queue_controller_fails_with_a_clear_error(tmp_path: Path) -> None:
    job = {"kind": "MPIJob", "metadata": {"name": "a", "namespace": "mpi-jobs"}}
    with serve_api(tmp_path, creation=(500, NO_KUEUE)) as cluster, pytest.raises(CommandError) as raised:
        cluster.create(job)
    assert str(raised.value) == (
        "cannot create MPIJob a in namespace mpi-jobs: the webhook mmpijob.kb.io of service kueue-webhook-service in namespace "
        'kueue-system does not work: no endpoints available for service "kueue-webhook-service"; try again, or see '
        "`kubectl get pods -n kueue-system`; `pulumi up --refresh` restores deleted objects"
    )
