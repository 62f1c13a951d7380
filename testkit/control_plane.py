"""Kubernetes control plane without nodes: etcd, kube-apiserver and the controllers that delete objects. Tests write
the statuses that kubelets and the other controllers would write.
"""

import base64
import json
import socket
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import urllib3
import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from localcloud.processes import read_tail
from localcloud.tools.build import ensure_tool
from localcloud.tools.catalogue import ETCD, KUBE_APISERVER, KUBE_CONTROLLER_MANAGER

CONTROLLERS = (
    "garbage-collector-controller",
    "namespace-controller",
    "persistentvolume-protection-controller",
    "persistentvolumeclaim-protection-controller",
)
USERS = {"root": "system:masters", "stranger": "nobody"}
"""Maps a user name to the user's group. The token of a user is the user name."""
START_SECONDS = 120.0
ATTEMPTS = 3
"""Number of start attempts. An attempt fails if another process takes the free port before the API server does."""


class NoAnswer(Exception):
    """The API server is still starting."""


class NoControlPlane(Exception):
    """The control plane did not start; the message contains the last lines of the component's log."""


@dataclass
class ControlPlane:
    """A running control plane."""

    folder: Path
    port: int = 0
    etcd_port: int = 0
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    def kubeconfig(self, user: str = "root", **user_entry: Any) -> str:
        """Return a kubeconfig for a user, by default with the user's token."""
        authority = base64.b64encode((self.folder / "certificates" / "apiserver.crt").read_bytes()).decode()
        return yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": "here", "cluster": {"server": self.url, "certificate-authority-data": authority}}],
                "users": [{"name": user, "user": user_entry or {"token": user}}],
                "contexts": [{"name": "here", "context": {"cluster": "here", "user": user}}],
                "current-context": "here",
            }
        )

    def start(self) -> None:
        for attempt in range(ATTEMPTS):
            try:
                self._start_servers()
                return
            except NoControlPlane:
                self.stop()
                if attempt == ATTEMPTS - 1:
                    raise

    def stop(self) -> None:
        """Kill the servers without a graceful shutdown, because their data is no longer needed."""
        for process in self.processes.values():
            process.kill()
        for process in self.processes.values():
            process.wait()
        self.processes.clear()

    def restart_api_server(self) -> None:
        """Kill the API server and start it again on the same port."""
        process = self.processes.pop("kube-apiserver")
        process.kill()
        process.wait()
        self._start_api_server()
        self._wait_until_ready("kube-apiserver", "/readyz")

    def request(self, method: str, path: str, body: Any = None, content_type: str = "application/json", **query: str) -> Any:
        """Send a request as a cluster admin. Return the object, or None if it does not exist."""
        authority = self.folder / "certificates" / "apiserver.crt"
        if not authority.exists():
            raise NoAnswer(f"{authority} is not ready yet")
        with urllib3.PoolManager(ca_certs=str(authority), retries=False) as pool:
            answer = pool.request(
                method,
                self.url + path,
                fields=None if method in ("POST", "PATCH", "PUT") else query or None,
                body=None if body is None else json.dumps(body).encode(),
                headers={"Authorization": "Bearer root", "Content-Type": content_type, "Accept": "application/json"},
                timeout=10.0,
            )
        if answer.status == 404:
            return None
        parsed = json.loads(answer.data) if answer.data.startswith(b"{") else answer.data.decode()
        assert answer.status < 400, parsed
        return parsed

    def _start_servers(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._make_keys()
        self.etcd_port, peer_port, self.port, kcm_port = find_free_ports(4)
        client, peer = f"http://127.0.0.1:{self.etcd_port}", f"http://127.0.0.1:{peer_port}"
        self._spawn(
            "etcd",
            ensure_tool(ETCD, print),
            data_dir=self.folder / "etcd",
            listen_client_urls=client,
            advertise_client_urls=client,
            listen_peer_urls=peer,
            initial_advertise_peer_urls=peer,
            initial_cluster=f"default={peer}",
            unsafe_no_fsync="true",
        )
        self._start_api_server()
        self._wait_until_ready("kube-apiserver", "/readyz")
        (self.folder / "kubeconfig").write_text(self.kubeconfig())
        self._spawn(
            "kube-controller-manager",
            ensure_tool(KUBE_CONTROLLER_MANAGER, print),
            kubeconfig=self.folder / "kubeconfig",
            leader_elect="false",
            controllers=",".join(CONTROLLERS),
            secure_port=kcm_port,
            bind_address="127.0.0.1",
            cert_dir=self.folder / "kcm",
        )
        self._wait_until_ready("kube-controller-manager", "/api/v1/namespaces/default")

    def _start_api_server(self) -> None:
        self._spawn(
            "kube-apiserver",
            ensure_tool(KUBE_APISERVER, print),
            etcd_servers=f"http://127.0.0.1:{self.etcd_port}",
            bind_address="127.0.0.1",
            secure_port=self.port,
            cert_dir=self.folder / "certificates",
            endpoint_reconciler_type="none",
            service_cluster_ip_range="10.251.0.0/20",
            authorization_mode="RBAC",
            anonymous_auth="false",
            token_auth_file=self.folder / "tokens",
            service_account_issuer="https://kubernetes.default.svc",
            service_account_key_file=self.folder / "service-accounts.pem",
            service_account_signing_key_file=self.folder / "service-accounts.pem",
            disable_admission_plugins="ServiceAccount",
        )

    def _make_keys(self) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        form = (serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption())
        (self.folder / "service-accounts.pem").write_bytes(key.private_bytes(*form))
        lines = [f'{user},{user},{number},"{group}"' for number, (user, group) in enumerate(USERS.items())]
        (self.folder / "tokens").write_text("\n".join(lines) + "\n")

    def _spawn(self, name: str, program: Path, **options: object) -> None:
        arguments = [f"--{option.replace('_', '-')}={value}" for option, value in options.items()]
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                [program, *arguments], stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def _wait_until_ready(self, name: str, path: str) -> None:
        deadline = time.monotonic() + START_SECONDS
        while True:
            for started, process in self.processes.items():
                if process.poll() is not None:
                    raise NoControlPlane(f"{started} ended:\n{read_tail(self.folder / f'{started}.log')}")
            try:
                if self.request("GET", path):
                    return
            except (urllib3.exceptions.HTTPError, OSError, NoAnswer, AssertionError) as error:
                last: object = error
            else:
                last = "not there"
            if time.monotonic() > deadline:
                raise NoControlPlane(f"{name}: {last}\n{read_tail(self.folder / f'{name}.log')}")
            time.sleep(0.05)


@dataclass(frozen=True)
class Objects:
    """Reads and writes the objects in a namespace as a cluster admin."""

    plane: ControlPlane
    namespace: str

    def get(self, resource: str, name: str) -> Any:
        return self.plane.request("GET", self._build_api_path(resource, name))

    def list_names(self, resource: str) -> list[str]:
        return sorted(item["metadata"]["name"] for item in self.plane.request("GET", self._build_api_path(resource))["items"])

    def create(self, resource: str, manifest: Mapping[str, Any]) -> Any:
        return self.plane.request("POST", self._build_api_path(resource), manifest)

    def patch(self, resource: str, name: str, patch: Mapping[str, Any]) -> Any:
        return self.plane.request("PATCH", self._build_api_path(resource, name), patch, "application/merge-patch+json")

    def apply(self, resource: str, name: str, manifest: Mapping[str, Any], manager: str) -> Any:
        """Apply an object like `kubectl apply --server-side --force-conflicts`."""
        path = f"{self._build_api_path(resource, name)}?fieldManager={manager}&force=true"
        return self.plane.request("PATCH", path, manifest, "application/apply-patch+yaml")

    def set_status(self, resource: str, name: str, **status: Any) -> Any:
        """Write the status that the object's controller would write."""
        path = f"{self._build_api_path(resource, name)}/status"
        return self.plane.request("PATCH", path, {"status": status}, "application/merge-patch+json")

    def delete(self, resource: str, name: str) -> None:
        self.plane.request("DELETE", self._build_api_path(resource, name))

    def _build_api_path(self, resource: str, name: str = "") -> str:
        """Return the API path of a resource such as `pods` or `apps/v1/deployments`. A leading slash marks a
        cluster-scoped resource: `/namespaces`.
        """
        group, _, plural = resource.strip("/").rpartition("/")
        root = f"/apis/{group}" if group else "/api/v1"
        place = root if resource.startswith("/") else f"{root}/namespaces/{self.namespace}"
        return f"{place}/{plural}" + (f"/{name}" if name else "")


def find_free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [listener.getsockname()[1] for listener in sockets]
    for listener in sockets:
        listener.close()
    return ports
