"""Start and stop one local cluster, and own its resources."""

import base64
import hashlib
import json
import logging
import queue
import secrets
import shutil
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from ipaddress import IPv4Interface, IPv4Network
from pathlib import Path
from typing import TypeVar

from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_fixed

from localcloud import problems
from localcloud.aws.events import DONE, WAIT, Event, Kind, Progress
from localcloud.aws.listening import NOTHING, Offer, Serve
from localcloud.control import Control
from localcloud.kubernetes import addresses, dns, loopback
from localcloud.kubernetes.addresses import Addresses
from localcloud.kubernetes.client import Api
from localcloud.kubernetes.client_config import format_kubeconfig
from localcloud.kubernetes.control_plane import API_SERVER, DAEMONS, ControlPlane
from localcloud.kubernetes.network_policy.part import NetworkPolicies
from localcloud.kubernetes.part import Part
from localcloud.kubernetes.parts import PARTS
from localcloud.kubernetes.pki import MASTERS, Authority, Certificate
from localcloud.kubernetes.state import ClusterState, Phase
from localcloud.machine import network
from localcloud.machine.ledger import Ledger
from localcloud.machine.supervisor import Supervisor
from localcloud.processes import ROOT, StartError

log = logging.getLogger(__name__)

LEDGER = "ledger"
LOOPBACK_SECONDS = 30.0
_LAST_WRITES = stop_after_delay(10)
SHARED_DAEMONS = (*DAEMONS, dns.NAME, loopback.NAME)
"""Supervisor names of the processes that every operation on the cluster needs."""
PREFIX = "gpumpi"
"""Name prefix of all network namespaces of local clusters."""

Changed = Callable[["Cluster"], None]
P = TypeVar("P")


class Cluster:
    """A local cluster. Each cluster executes its requests in order in its own thread."""

    def __init__(
        self,
        *,
        number: int,
        name: str,
        region: str,
        account: str,
        vpc: IPv4Network,
        services: IPv4Network,
        issuer: str,
        is_public: bool,
        folder: Path,
        aws: tuple[str, int],
        serve: Serve,
        on_change: Changed,
        namespaces: bool,
    ) -> None:
        self.number, self.name, self.region, self.account = number, name, region, account
        self.id = f"{number}-{name}"
        self.issuer = issuer
        """Issuer of service account tokens."""
        self.is_public = is_public
        self.folder = folder / self.id
        self.folder.mkdir(parents=True, mode=0o700)
        self.namespace = build_namespace_name(folder, number) if namespaces else None
        self.addresses = Addresses(vpc, services)
        self.ledger = Ledger(self.folder / LEDGER)
        self.supervisor = Supervisor(self.folder / "logs", self.ledger, self.namespace, self.publish)
        self.pki = Authority(self.folder / "pki")
        self._aws, self._serve, self._on_change = aws, serve, on_change
        self._phase: Phase = "starting"
        self._problem = ""
        self._port = 0
        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._pending = self._repairs = 0
        self._failed_events: dict[tuple[Kind, str], str] = {}
        """Maps a node group, add-on or instance to the reason why a part failed to handle its last event."""
        self._counting, self._publishing = threading.Lock(), threading.Lock()
        self._is_ending = self._is_gone = False
        self.control_plane = ControlPlane(self)
        self._administrator = self.pki.issue("kubernetes-admin", organizations=(MASTERS,), file="admin")
        self.api = Api(self.control_plane.url, self.namespace, self.pki.certificate, self._administrator)
        self._closers: list[Callable[[], None]] = [self.api.close]
        self.admin_kubeconfig = self.write_kubeconfig(self._administrator, "admin")
        self._parts: list[Part] = []
        self._thread = threading.Thread(target=self._run_actions, name=f"cluster-{self.id}", daemon=True)

    # The following members are used by parts and other modules.

    @property
    def aws_url(self) -> str:
        """URL at which the cluster's programs reach the local AWS."""
        address, port = self._aws if self.namespace is None else (str(addresses.AWS_ADDRESS), addresses.AWS_PORT)
        return f"http://{address}:{port}"

    @property
    def endpoint(self) -> str:
        """Endpoint as reported by EKS: on 127.0.0.1 if it is public, otherwise the address inside the VPC."""
        if self.namespace is None:
            return self.control_plane.url
        return f"https://127.0.0.1:{self._port}" if self.is_public and self._port else self.addresses.api_server

    @property
    def phase(self) -> Phase:
        return self._phase

    @property
    def problem(self) -> str:
        return self._problem

    @property
    def is_gone(self) -> bool:
        """True once all resources of the cluster are removed."""
        return self._is_gone

    @property
    def restart_marker_file(self) -> Path:
        """File that exists while the API server restarts."""
        return self.folder / "api-server.away"

    def listen(self, address: str, port: int) -> socket.socket:
        """Listen in the namespace or, if there is none, on a free port of 127.0.0.1, until the cluster stops."""
        if self.namespace is None:
            address, port = "127.0.0.1", 0
        listener = network.listen(self.namespace, address, port)
        self._closers.append(listener.close)
        return listener

    def write_kubeconfig(self, certificate: Certificate, file: str) -> Path:
        """Write a kubeconfig with the client certificate, for a program inside the namespace."""
        path = self.folder / f"{file}.kubeconfig"
        path.write_text(format_kubeconfig(self.name, self.control_plane.url, self.pki.certificate.file, file, certificate))
        return path

    def get_part(self, kind: type[P]) -> P:
        """Return the cluster's instance of the given part class."""
        return next(part for part in self._parts if isinstance(part, kind))

    # Used by the realizer

    def start(self) -> None:
        self._enqueue(self._start_components)
        self._thread.start()

    def handle(self, event: Event) -> None:
        """Pass an event about a node group, an add-on or an instance to all parts."""

        def notify_all_parts() -> None:
            failed = [problem for part in self._parts if (problem := self._notify_part(part, event))]
            if failed and event.action != "gone":
                self._failed_events[(event.kind, event.name)] = failed[0]
            else:
                self._failed_events.pop((event.kind, event.name), None)
            self.publish()

        self._enqueue(notify_all_parts)

    def _notify_part(self, part: Part, event: Event) -> str:
        """Pass an event to a part. If the part fails, return the reason; the other parts still receive the event."""
        try:
            part.on_event(event)
        except Exception as error:
            return problems.report_problem(
                f"{type(part).__name__} of cluster {self.name} ({event.kind} {event.name} {event.action})", error
            )
        return ""

    def restart_api_server(self) -> None:
        self._enqueue(self.control_plane.restart_api_server)

    def schedule_repair(self) -> None:
        """Restart crashed processes."""
        self._enqueue(self._restart_crashed_processes)

    def set_public_access(self, is_public: bool) -> None:
        def apply_access() -> None:
            self.is_public = is_public
            self._update_loopback_proxy()

        self._enqueue(apply_access)

    def end(self) -> None:
        """Abandon the current work, then stop and remove the whole cluster in the cluster's thread."""
        if not self._is_ending:
            self._is_ending = True
            self.supervisor.close()
            self._enqueue(self._stop_and_remove)
            self._work.put(None)

    def wait(self) -> None:
        self._thread.join()

    def progress(self, kind: Kind, name: str) -> Progress:
        """Return DONE once all requests have taken effect, or the reason why they cannot. Only reads attributes."""
        if self._is_ending:
            return DONE if self._is_gone else WAIT
        if problem := self._find_failure():
            return Progress(True, problem)
        if self._pending:
            return WAIT
        if problem := self._failed_events.get((kind, name), ""):
            return Progress(True, problem)
        if kind == "cluster":
            return DONE
        answers = [part.progress(kind, name) for part in self._parts]
        problem = next((answer.problem for answer in answers if answer.problem), "")
        ready = next((answer.ready for answer in answers if answer.ready is not None), None)
        return Progress(bool(problem) or all(answer.done for answer in answers), problem, ready)

    def _find_failure(self) -> str:
        """Return the error if the cluster, or a process that every operation needs, has failed. Return "" otherwise."""
        if self._phase == "failed":
            return self._problem
        if not self._thread.is_alive():
            return f"the thread of cluster {self.name} has ended"
        crash = next((crash for crash in self.supervisor.list_crashes() if crash.name in SHARED_DAEMONS), None)
        return str(crash) if crash is not None else ""

    def state(self) -> ClusterState:
        endpoint = self.endpoint if self._phase == "ready" else ""
        running, crashes = self.supervisor.list_running_servers(), self.supervisor.list_crashes()
        policies = next((part.status for part in self._parts if isinstance(part, NetworkPolicies)), "")
        where = (self.name, self.region, self._phase, endpoint, self.namespace)
        return ClusterState(*where, self._problem, policies, running, crashes, self._repairs)

    # The following methods run in the cluster's own thread.

    def _enqueue(self, action: Callable[[], None]) -> None:
        with self._counting:
            self._pending += 1
        self._work.put(action)

    def _run_actions(self) -> None:
        while (action := self._work.get()) is not None:
            try:
                if action == self._stop_and_remove or not (self._is_ending or self._phase == "failed"):
                    action()
            except Exception as error:
                self._record_failure(error)
            finally:
                with self._counting:
                    self._pending -= 1

    def _record_failure(self, error: Exception) -> None:
        if self._is_ending:
            log.info("while stopping cluster %s: %r", self.id, error)
            return
        log.error("cluster %s failed: %s", self.id, error, exc_info=not isinstance(error, OSError))
        self._problem = str(error) or repr(error)
        self._phase = "failed"
        try:
            self.publish()
        except Exception as unpublished:  # the thread must continue, so that the cluster can be deleted
            problems.report_problem(f"publishing the failure of cluster {self.name}", unpublished)

    def _start_components(self) -> None:
        self.publish()
        if self.namespace:
            self._make_network(self.namespace)
        self._serve_control_api()
        self._parts = [part(self) for part in PARTS]
        for part in self._parts:
            part.on_network_created()
        self._update_loopback_proxy()
        self.control_plane.start([option for part in self._parts for option in part.list_api_server_flags()])
        if self.namespace:
            dns.start_dns(self)
        for part in self._parts:
            part.on_api_server_ready()
        self._enter_phase("ready")

    def _make_network(self, namespace: str) -> None:
        self.ledger.add("namespace", namespace)
        network.create_namespace(namespace)
        plan = self.addresses
        own = [IPv4Interface(f"{plan.router}/{plan.vpc.prefixlen}"), IPv4Interface(f"{plan.dns}/32")]
        network.make_bridge(namespace, [*own, *(IPv4Interface(f"{address}/32") for address in addresses.LINK_LOCAL)])
        self._closers.append(self._serve(self.listen(str(addresses.AWS_ADDRESS), addresses.AWS_PORT), NOTHING))

    def _serve_control_api(self) -> None:
        listener = self.listen(str(addresses.CONTROL_ADDRESS), addresses.CONTROL_PORT)
        self.control = Control("http://{}:{}".format(*listener.getsockname()), secrets.token_urlsafe())
        paths = ("efs/mounts", "fsx/mounts", f"kubernetes/{self.region}/{self.name}/")
        self._closers.append(self._serve(listener, Offer(paths, self.control.token)))

    def _update_loopback_proxy(self) -> None:
        """Start the proxy on 127.0.0.1 if the endpoint is public; otherwise stop the proxy."""
        if self.namespace is None:
            return
        if not self.is_public:
            self._port = 0
            self.supervisor.stop(loopback.NAME)
            self.publish()
            return
        if not self._port:
            self._start_loopback_proxy(self.namespace)

    def _start_loopback_proxy(self, namespace: str) -> None:
        """Start the proxy. After a crash, use the proxy's previous port."""
        ready = self.folder / f"{loopback.NAME}.ready"
        ready.unlink(missing_ok=True)
        target = f"{self.addresses.router}:{addresses.API_PORT}"
        command = [sys.executable, "-m", "localcloud.kubernetes.loopback", "--namespace", namespace, "--to", target]
        self.supervisor.start(
            loopback.NAME,
            [*command, "--port", str(self._port), "--ready-file", ready, "--away-file", self.restart_marker_file],
            outside=True,
            environment={"PYTHONPATH": str(ROOT)},
        )
        self.supervisor.await_ready(loopback.NAME, ready.exists, LOOPBACK_SECONDS)
        self._port = int(json.loads(ready.read_text())["port"])
        self.publish()

    def _restart_crashed_processes(self) -> None:
        """Restart crashed processes: first the control plane, which nodes need. Restarted processes may crash again."""
        self._problem = ""
        try:
            for name in self._list_crashed_processes(*DAEMONS):
                self.supervisor.restart(name)
                self.control_plane.await_ready(name)
            self.control_plane.await_ready(API_SERVER)
            if self.namespace and self._list_crashed_processes(loopback.NAME):
                self._start_loopback_proxy(self.namespace)
            for part in self._parts:
                part.restart_crashed()
            for name in self._list_crashed_processes():
                self.supervisor.restart(name)
        except (OSError, StartError) as error:
            log.error("cluster %s: %s", self.id, error)
            self._problem = str(error)
        finally:
            self._repairs += 1
            self.publish()

    def _list_crashed_processes(self, *only: str) -> list[str]:
        names = [crash.name for crash in self.supervisor.list_crashes() if not only or crash.name in only]
        log.info("cluster %s: crashed processes to restart: %s", self.id, ", ".join(names) or "none")
        return names

    def _stop_and_remove(self) -> None:
        self._enter_phase("stopping")
        for part in reversed(self._parts):
            try:
                part.stop()
            except Exception:
                log.exception("%s of cluster %s failed to stop", type(part).__name__, self.id)
        try:
            self.ledger.clean_up()
            for close in reversed(self._closers):
                close()
            self._remove_folder()
        finally:
            self._is_gone = True

    def _remove_folder(self) -> None:
        """Remove the folder. Retry, because terminating processes may still write to the folder."""
        with self._publishing:
            for attempt in Retrying(
                retry=retry_if_exception_type(OSError), wait=wait_fixed(0.1), stop=_LAST_WRITES, reraise=True
            ):
                with attempt, suppress(FileNotFoundError):
                    shutil.rmtree(self.folder)

    def _enter_phase(self, phase: Phase) -> None:
        self._phase = phase
        self.publish()

    def publish(self) -> None:
        """Save the cluster's state for other processes and notify the realizer."""
        with self._publishing:
            if self.folder.exists():
                self.state().save(self.folder)
        self._on_change(self)


def build_namespace_name(folder: Path, number: int) -> str:
    """Return the name of a cluster's network namespace: it contains a hash of the folder and the cluster's number."""
    return f"{PREFIX}-{hashlib.sha256(str(folder).encode()).hexdigest()[:8]}-{number}"


def read_ca_certificate(cluster: Cluster) -> str:
    """Return the CA certificate in the format that EKS uses: base64-encoded PEM."""
    return base64.b64encode(cluster.pki.certificate.file.read_bytes()).decode()
