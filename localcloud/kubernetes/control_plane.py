"""etcd, API server, controller manager and scheduler of one cluster.

RBAC and Node authorization are enabled. Clients authenticate with certificates; anonymous access is disabled.
https://kubernetes.io/docs/reference/command-line-tools-reference/kube-apiserver/
"""

import logging
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from localcloud.kubernetes.addresses import API_PORT
from localcloud.kubernetes.client import ApiError
from localcloud.kubernetes.pki import MASTERS, Authority, Certificate, make_key_pair
from localcloud.kubernetes.running import RunningCluster
from localcloud.machine import network
from localcloud.tools.build import ensure_tool
from localcloud.tools.catalogue import ETCD as ETCD_PROGRAM
from localcloud.tools.catalogue import KUBE_APISERVER, KUBE_CONTROLLER_MANAGER, KUBE_SCHEDULER

log = logging.getLogger(__name__)

ETCD, API_SERVER, CONTROLLER_MANAGER, SCHEDULER = "etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"
DAEMONS = (ETCD, API_SERVER, CONTROLLER_MANAGER, SCHEDULER)
READY_SECONDS = 120.0
RESTART_SECONDS = 2.0
"""How long a restart waits for running requests to finish. A restart also ends watches, which clients re-establish."""
ETCD_QUOTA_BYTES = 4 << 30
"""Size limit of the etcd database. A benchmark with a thousand nodes exceeds the default of 2 GiB."""
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
LOCAL = "127.0.0.1"
NAMES = (
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)
"""DNS names in the API server's certificate."""


@dataclass(frozen=True)
class Ports:
    """Ports of the daemons: the standard ports inside a namespace, free ports otherwise."""

    etcd: int = 2379
    etcd_peer: int = 2380
    api: int = API_PORT
    controller_manager: int = 10257
    scheduler: int = 10259


def find_free_ports() -> Ports:
    """Return ports that are currently free on 127.0.0.1."""
    sockets = [socket.create_server((LOCAL, 0)) for _ in range(5)]
    try:
        return Ports(*(each.getsockname()[1] for each in sockets))
    finally:
        for each in sockets:
            each.close()


class ControlPlane:
    """The four control plane daemons of a cluster and their files."""

    def __init__(self, cluster: RunningCluster) -> None:
        self._cluster = cluster
        self._options: Sequence[str] = ()
        self.ports = Ports() if cluster.namespace else find_free_ports()

    @property
    def url(self) -> str:
        """URL at which the other daemons reach the API server."""
        return self._cluster.addresses.api_server if self._cluster.namespace else f"https://{LOCAL}:{self.ports.api}"

    def start(self, options: Sequence[str]) -> None:
        """Start all daemons and wait until the API server is ready and the others are running. Raises StartError."""
        self._options = options
        self._start_etcd()
        self._start_api_server(self._prepare_api_server())
        for name, port in (
            (CONTROLLER_MANAGER, self.ports.controller_manager),
            (SCHEDULER, self.ports.scheduler),
        ):
            self._start_controller_daemon(name, port)
        supervisor, needs = self._cluster.supervisor, (ETCD, API_SERVER)
        supervisor.await_ready(CONTROLLER_MANAGER, self._has_service_account, READY_SECONDS, needs=needs)

    def restart_api_server(self) -> None:
        """Restart the API server, as a control plane upgrade does."""
        self._cluster.restart_marker_file.touch()
        try:
            self._cluster.supervisor.stop(API_SERVER, seconds=RESTART_SECONDS)
            self._start_api_server(self._api_command)
            self._mark_crds_established()
        finally:
            self._cluster.restart_marker_file.unlink(missing_ok=True)

    def _mark_crds_established(self) -> None:
        """Set the condition Established of CRDs whose names were accepted just before the restart. On EKS, another
        API server sets this condition.

        An API server queues a CRD for this step only when the CRD's names are accepted, so a restart at that moment
        delays the CRD until the next resync, five minutes later: `QueueCRD` in
        https://github.com/kubernetes/apiextensions-apiserver/blob/v0.34.2/pkg/apiserver/customresource_handler.go
        """
        for definition in self._cluster.api.get(DEFINITIONS)["items"]:
            conditions = {condition["type"]: condition for condition in definition.get("status", {}).get("conditions", [])}
            true_conditions = {name for name, condition in conditions.items() if condition["status"] == "True"}
            if "NamesAccepted" in true_conditions and "Established" not in true_conditions:
                conditions["Established"] = {**conditions["Established"], "status": "True", "reason": "InitialNamesAccepted"}
                status = {"status": {"conditions": list(conditions.values())}}
                self._cluster.api.patch(f"{DEFINITIONS}/{definition['metadata']['name']}/status", status)

    def _start_etcd(self) -> None:
        pki, ports, folder = self._cluster.pki, self.ports, self._cluster.folder / "etcd"
        own = pki.issue("etcd", names=("localhost",), addresses=(LOCAL,))
        client, peer = f"https://{LOCAL}:{ports.etcd}", f"https://{LOCAL}:{ports.etcd_peer}"
        command: list[str | Path] = [
            ensure_tool(ETCD_PROGRAM, log.info),
            f"--data-dir={folder}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            *(f"--{side}cert-file={own.file}" for side in ("", "peer-")),
            *(f"--{side}key-file={own.key}" for side in ("", "peer-")),
            *(f"--{side}trusted-ca-file={pki.certificate.file}" for side in ("", "peer-")),
            *(f"--{side}client-cert-auth" for side in ("", "peer-")),
            f"--quota-backend-bytes={ETCD_QUOTA_BYTES}",
            "--unsafe-no-fsync",  # the data does not outlive the local cloud
        ]
        self._cluster.supervisor.start(ETCD, command)
        self.await_ready(ETCD)

    def await_ready(self, name: str) -> None:
        """Wait until etcd or the API server is ready; return at once for other processes. Raises StartError."""
        supervisor = self._cluster.supervisor
        if name == ETCD:
            supervisor.await_ready(ETCD, lambda: self._is_answering(self.ports.etcd), READY_SECONDS)
        elif name == API_SERVER:
            supervisor.await_ready(API_SERVER, self._cluster.api.is_ready, READY_SECONDS, needs=(ETCD,))

    def _is_answering(self, port: int) -> bool:
        try:
            network.connect(self._cluster.namespace, LOCAL, port, 1.0).close()
        except OSError:
            return False
        return True

    def _prepare_api_server(self) -> list[str | Path]:
        """Create the API server's certificates and return its command line."""
        cluster, pki, folder = self._cluster, self._cluster.pki, self._cluster.pki.folder
        addresses = cluster.addresses
        serving = pki.issue(API_SERVER, names=NAMES, addresses=(LOCAL, addresses.router, addresses.kubernetes))
        etcd, kubelet = pki.issue("etcd-client"), pki.issue("kube-apiserver-kubelet-client", organizations=(MASTERS,))
        signing, public = make_key_pair(folder, "service-accounts")
        self._api_command: list[str | Path] = [
            ensure_tool(KUBE_APISERVER, log.info),
            *self._build_listen_flags(),
            f"--etcd-servers=https://{LOCAL}:{self.ports.etcd}",
            f"--etcd-cafile={pki.certificate.file}",
            *_format_certificate_flags("etcd-certfile", "etcd-keyfile", etcd),
            *_format_certificate_flags("tls-cert-file", "tls-private-key-file", serving),
            f"--client-ca-file={pki.certificate.file}",
            "--anonymous-auth=false",
            # EKS enables ExtendedResourceToleration: pods that request GPUs tolerate a taint with the resource's name.
            # https://github.com/aws/containers-roadmap/issues/739
            "--enable-admission-plugins=ExtendedResourceToleration,NodeRestriction,PodSecurity",
            "--allow-privileged=true",  # for device plugins and CSI drivers; Pod Security restricts other namespaces
            f"--service-cluster-ip-range={addresses.services}",
            f"--service-account-issuer={cluster.issuer}",
            f"--api-audiences={cluster.issuer},https://kubernetes.default.svc",
            f"--service-account-key-file={public}",
            f"--service-account-signing-key-file={signing}",
            *_format_certificate_flags("kubelet-client-certificate", "kubelet-client-key", kubelet),
            f"--kubelet-certificate-authority={pki.certificate.file}",
            "--kubelet-preferred-address-types=InternalIP",  # the API server cannot resolve node names
            *_create_front_proxy_flags(folder / "front-proxy"),
            "--enable-aggregator-routing=true",  # call webhooks at pod IPs, because no kube-proxy runs beside the API server
            "--max-requests-inflight=1600",  # EKS spreads requests over several API servers
            "--max-mutating-requests-inflight=800",
            "--shutdown-delay-duration=0s",
            *self._options,
        ]
        if not any(option.startswith("--authorization-config=") for option in self._options):
            self._api_command.append("--authorization-mode=Node,RBAC")
        return self._api_command

    def _build_listen_flags(self) -> list[str]:
        if self._cluster.namespace:
            where = f"--advertise-address={self._cluster.addresses.router}"
            return ["--bind-address=0.0.0.0", where, f"--secure-port={self.ports.api}"]
        # Without pods, nothing uses the `kubernetes` service.
        return [f"--bind-address={LOCAL}", f"--secure-port={self.ports.api}", "--endpoint-reconciler-type=none"]

    def _start_api_server(self, command: Sequence[str | Path]) -> None:
        self._cluster.supervisor.start(API_SERVER, command)
        self.await_ready(API_SERVER)

    def _start_controller_daemon(self, name: str, port: int) -> None:
        pki = self._cluster.pki
        serving = pki.issue(name, names=("localhost",), addresses=(LOCAL,), file=f"{name}-serving")
        own = self._cluster.write_kubeconfig(pki.issue(f"system:{name}"), name)
        program = {CONTROLLER_MANAGER: KUBE_CONTROLLER_MANAGER, SCHEDULER: KUBE_SCHEDULER}[name]
        command: list[str | Path] = [
            ensure_tool(program, log.info),
            *(f"--{kind}kubeconfig={own}" for kind in ("", "authentication-", "authorization-")),
            f"--bind-address={LOCAL}",
            f"--secure-port={port}",
            *_format_certificate_flags("tls-cert-file", "tls-private-key-file", serving),
            "--leader-elect=false",
            "--kube-api-qps=200",
            "--kube-api-burst=400",
        ]
        if name == CONTROLLER_MANAGER:
            command += self._build_controller_flags()
        self._cluster.supervisor.start(name, command)

    def _build_controller_flags(self) -> list[str]:
        pki = self._cluster.pki
        return [
            "--use-service-account-credentials=true",
            f"--service-account-private-key-file={pki.folder / 'service-accounts.key'}",
            f"--root-ca-file={pki.certificate.file}",
            *_format_certificate_flags("cluster-signing-cert-file", "cluster-signing-key-file", pki.certificate),
            f"--service-cluster-ip-range={self._cluster.addresses.services}",
        ]

    def _has_service_account(self) -> bool:
        """Return whether the controller manager has created the default service account, which pods need."""
        try:
            return self._cluster.api.find("/api/v1/namespaces/default/serviceaccounts/default") is not None
        except (OSError, ApiError):
            return False


def _create_front_proxy_flags(folder: Path) -> list[str]:
    """Return the flags with which the API server authenticates to aggregated API servers and forwards user identities.

    https://kubernetes.io/docs/tasks/extend-kubernetes/configure-aggregation-layer/
    """
    front = Authority(folder, "front-proxy")
    return [
        f"--requestheader-client-ca-file={front.certificate.file}",
        "--requestheader-allowed-names=front-proxy-client",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        *_format_certificate_flags("proxy-client-cert-file", "proxy-client-key-file", front.issue("front-proxy-client")),
    ]


def _format_certificate_flags(certificate_flag: str, key_flag: str, certificate: Certificate) -> list[str]:
    return [f"--{certificate_flag}={certificate.file}", f"--{key_flag}={certificate.key}"]
