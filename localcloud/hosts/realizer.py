"""Run EC2 instances as local hosts and create AMIs from the hosts, in response to events of the local AWS."""

import hashlib
import logging
import secrets
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from localcloud import problems
from localcloud.aws import events, gateway, patching, ssm_sessions
from localcloud.aws.autoscaling import capacity
from localcloud.aws.call import backend_of
from localcloud.aws.ec2 import images, instance_calls, instance_events, power
from localcloud.aws.ec2.images import OwnImage
from localcloud.aws.events import DONE, WAIT, Event, Kind, Progress
from localcloud.aws.listening import Serve
from localcloud.hosts import hardware, instances, state
from localcloud.hosts.credentials import Lender
from localcloud.hosts.host import Host
from localcloud.hosts.layers import Layers
from localcloud.hosts.metadata import Machine
from localcloud.hosts.neighbours import Neighbours
from localcloud.hosts.programs import Programs
from localcloud.hosts.sessions import SessionServer
from localcloud.hosts.state import HostState, Phase
from localcloud.hosts.vpc import Serving, Vpc

log = logging.getLogger(__name__)


def _define_ami(openmpi: str) -> OwnImage:
    return OwnImage(
        name=f"gpumpi-ec2-openmpi{openmpi}-debian",
        description=f"Open MPI {openmpi} without CUDA, on Debian, built with the provisioners in amis/",
        created="2026-07-01T00:00:00.000Z",
        tags={"gpumpi:ami": "ec2", "gpumpi:openmpi": openmpi},
    )


AMIS = {openmpi: _define_ami(openmpi) for openmpi in ("4", "5")}
"""Maps the major version of Open MPI to the AMI that is preregistered in the account in place of an AMI built with Packer."""
AMI = AMIS["4"]
Key = tuple[str, str, str]


class Member:
    """Lifecycle of an instance as a local host. The actions of a host run one at a time, in the order in which they
    were requested."""

    def __init__(self, machine: Machine, phase: Phase, problem: str = "") -> None:
        self.machine, self.phase, self.problem = machine, phase, problem
        self.host: Host | None = None
        self.pending = 0
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(1, thread_name_prefix=f"host-{machine.instance_id}")

    def enqueue(self, action: Callable[[], object]) -> "Future[object]":
        with self._lock:
            self.pending += 1

        def run_counted() -> object:
            try:
                return action()
            finally:
                with self._lock:
                    self.pending -= 1

        return self._pool.submit(run_counted)

    def wait_for_actions(self) -> None:
        """Wait until all requested actions have finished."""
        self._pool.shutdown(wait=True)

    def describe(self) -> HostState:
        machine = self.machine
        console = str(self.host.console_log) if self.host else ""
        return HostState(machine.instance_id, machine.hostname, machine.address, self.phase, self.problem, console)


class Realizer:
    """Manager of all hosts of one local cloud."""

    def __init__(
        self,
        folder: Path,
        file_systems: Path,
        serve: Serve,
        programs: Programs,
        limit: int,
    ) -> None:
        self._folder, self._file_systems, self._programs, self._limit = folder, file_systems, programs, limit
        self._lender = Lender()
        self._serving = Serving(serve, self._lender.get_credentials, secrets.token_urlsafe())
        self._layers = Layers(folder, self._find_base_roots)
        self._members: dict[str, Member] = {}
        self._neighbours = Neighbours()
        self._images: dict[str, Future[object]] = {}
        self._count = 0
        self._saving = threading.Lock()
        self._makers = ThreadPoolExecutor(2, thread_name_prefix="images-of-hosts")
        self._sessions = SessionServer()
        for image in AMIS.values():
            images.add_own_image(image)
        self._closing = [
            events.register_realizer(self.handle_event, self.progress),
            power.register_console(self.read_console),
            ssm_sessions.register_session_opener(self.open_session),
        ]
        patching.on_reset(self.stop_all)

    def close(self) -> None:
        """Ignore further events and terminate all hosts. Return once all hosts have been removed."""
        for close in self._closing:
            close()
        members = list(self._members.values())
        self.stop_all()
        for member in members:
            member.wait_for_actions()
        self._makers.shutdown(wait=True)
        self._sessions.close()

    def stop_all(self) -> None:
        """Start powering off all hosts, each in its own thread. Do not wait for the threads, since they may need the
        lock that the caller holds."""
        for member in list(self._members.values()):
            self._start_termination(member, shuts_down=False)
        for image_id in list(self._images):
            self._delete_image(image_id)

    # Callbacks that the local AWS calls.

    def handle_event(self, event: Event) -> None:
        """Handle an event from the local AWS without blocking the request that caused it: each host runs its actions in
        its own thread."""
        if event.kind == "image":
            self._handle_image(event)
        elif event.kind == "instance":
            self._handle_instance(event)

    def progress(self, kind: Kind, name: str, region: str, account: str) -> Progress:
        if kind == "instance":
            member = self._members.get(name)
            return WAIT if member is not None and member.pending else DONE
        if kind == "image" and (snapshot := self._images.get(name)) is not None:
            if not snapshot.done():
                return WAIT
            error = snapshot.exception()
            return Progress(True, str(error) or repr(error)) if error else DONE
        return DONE

    def read_console(self, instance_id: str) -> bytes | None:
        member = self._members.get(instance_id)
        return member.host.read_console() if member is not None and member.host is not None else None

    def open_session(self, instance_id: str, port: int) -> tuple[str, str] | None:
        """Return the URL and token of a session that connects to a port of the host, or None if the host does not exist
        or is powered off."""
        member = self._members.get(instance_id)
        if member is None or member.host is None or member.phase != "running" or not member.host.is_on:
            return None
        host = member.host
        return self._sessions.open(instance_id, partial(host.connect, port))

    # Instances.

    def _handle_instance(self, event: Event) -> None:
        member = self._members.get(event.name)
        if event.action == "created" and member is None and instances.is_local_host(event.details):
            self._add_host(event)
        elif member is None or member.phase in ("record", "ending"):
            if member is not None and event.action == "gone":
                self._remove_member(member)
        elif event.action == "gone":
            self._start_termination(member, shuts_down=True)
        elif event.action in ("stopping", "starting", "rebooting"):
            action = {"stopping": self._power_off, "starting": self._power_on, "rebooting": self._reboot}[event.action]
            member.enqueue(partial(self._run_action, member, partial(action, member)))

    def _add_host(self, event: Event) -> None:
        machine = instances.build_machine(event)
        alive = sum(member.phase not in ("record", "ending") for member in self._members.values())
        if alive >= self._limit:
            problem = f"only an API record: this local cloud runs at most {self._limit} hosts. Set GPUMPI_LOCAL_HOSTS to run more"
            self._members[machine.instance_id] = Member(machine, "record", problem)
            log.warning("instance %s is %s", machine.instance_id, problem)
            return self._save_states()
        member = self._members[machine.instance_id] = Member(machine, "starting")
        self._count += 1
        key, number, cidr = (event.account, event.region, machine.vpc), self._count, instances.find_vpc_cidr(event)

        def create_vpc() -> Vpc:
            name = f"{build_namespace_prefix(self._folder)}{number}"
            folder = self._folder / f"{number}-{machine.vpc}"
            return Vpc(cidr, machine.region, folder, name, self._programs.dnsmasq, self._serving)

        member.enqueue(partial(self._run_action, member, lambda: self._create_host(member, key, create_vpc)))
        return self._save_states()

    def _create_host(self, member: Member, key: Key, make_vpc: Callable[[], Vpc]) -> None:
        machine = member.machine
        vpc = self._neighbours.add_host(key, machine.instance_id, make_vpc)
        layer = self._folder / "hardware" / machine.region
        hardware.write_layer(layer, machine.region, self._file_systems, self._serving.control_token)
        disk = self._layers.get_disk(machine.instance_id)
        below = [layer, *self._layers.prepare_disk_layers(disk, machine.image_id)]
        member.host = Host(
            vpc, machine, disk, below, self._programs.nspawn, self._file_systems, partial(self._handle_exit, member)
        )
        self._power_on(member)

    def _power_on(self, member: Member) -> None:
        assert member.host is not None
        member.host.start()
        self._set_phase(member, "running")

    def _power_off(self, member: Member) -> None:
        assert member.host is not None
        member.host.power_off()
        self._set_phase(member, "stopped")

    def _reboot(self, member: Member) -> None:
        assert member.host is not None
        member.host.reboot()

    def _run_action(self, member: Member, action: Callable[[], None]) -> None:
        """Run an action. If the action fails, log the error and mark the host as failed."""
        if member.phase == "ending":
            return
        try:
            action()
        except Exception as error:
            member.problem = str(error) or repr(error)
            log.exception("instance %s as a host", member.machine.instance_id)
            self._set_phase(member, "failed")

    def _start_termination(self, member: Member, *, shuts_down: bool) -> None:
        if member.phase == "record":
            return self._remove_member(member)
        if member.phase != "ending":
            self._set_phase(member, "ending")
            member.enqueue(partial(self._terminate, member, shuts_down))
        return None

    def _terminate(self, member: Member, shuts_down: bool) -> None:
        name = member.machine.instance_id
        try:
            if member.host is not None:
                member.host.terminate(shuts_down=shuts_down)
            self._neighbours.remove_host(name)
        except Exception as error:
            problems.report_problem(f"the termination of host {name}", error)
        self._lender.drop_session(name)
        self._remove_member(member)

    def _remove_member(self, member: Member) -> None:
        if self._members.get(member.machine.instance_id) is member:
            del self._members[member.machine.instance_id]
        self._save_states()

    def _handle_exit(self, member: Member, code: int) -> None:
        """Handle a host that shut down by itself or was killed."""
        try:
            self._stop_or_terminate(member, code)
        except Exception as error:
            problems.report_problem(f"the end of host {member.machine.instance_id}", error)

    def _stop_or_terminate(self, member: Member, code: int) -> None:
        """Stop or terminate the instance, depending on its InstanceInitiatedShutdownBehavior."""
        machine = member.machine
        with gateway.LOCK:
            if member.phase != "running":
                return
            instance = instance_calls.find_instances(backend_of("ec2", machine.account, machine.region), [machine.instance_id])[0]
            if code:
                log.error(
                    "host %s ended with %d; the end of its console:\n%s", machine.instance_id, code, _read_console_tail(member)
                )
            if instance.instance_initiated_shutdown_behavior == "terminate":
                instance_events.terminate([instance])
                groups = backend_of("autoscaling", machine.account, machine.region)
                capacity.replace_terminated_instances(groups, [machine.instance_id])
            else:
                power.stop_instance(instance, _CRASHED if code else _SHUT_DOWN)

    # Images.

    def _handle_image(self, event: Event) -> None:
        if event.action == "gone":
            return self._delete_image(event.name)
        if event.action != "created":
            return None
        member = self._members.get(event.details.get("SourceInstanceId") or "")
        if member is not None and member.phase not in ("record", "ending"):
            reboots = not event.details["NoReboot"]
            self._images[event.name] = member.enqueue(partial(self._make_image, member, event.name, reboots))
        elif source := event.details.get("SourceImageId"):
            self._images[event.name] = self._makers.submit(self._copy_image, source, event.name)
        return None

    def _make_image(self, member: Member, image_id: str, reboots: bool) -> None:
        """Create an AMI from the host. Reboot the host unless NoReboot is set, as EC2 does."""
        host = member.host
        if host is None or member.phase == "failed":
            raise RuntimeError(f"instance {member.machine.instance_id} does not run as a host: {member.problem}")
        runs = member.phase == "running"
        if runs and reboots:
            self._power_off(member)
        self._layers.save_image(host.disk, host.lower[1:], image_id)
        if runs and reboots:
            self._power_on(member)

    def _copy_image(self, source_id: str, image_id: str) -> None:
        if (source := self._images.get(source_id)) is not None:
            source.result()
        self._layers.copy(source_id, image_id)

    def _delete_image(self, image_id: str) -> None:
        snapshot = self._images.pop(image_id, None)
        if snapshot is not None:
            snapshot.add_done_callback(lambda _: self._layers.delete_image(image_id))

    def _find_base_roots(self, image_id: str) -> list[Path]:
        """Return the root file systems of an AMI that was not created in this local cloud: the node layer and the bare
        root for this project's AMIs, only the bare root for other AMIs."""
        regions = {member.machine.region for member in list(self._members.values())}
        for openmpi, image in AMIS.items():
            if any(image_id == image.id(region) for region in regions):
                return [self._programs.node(openmpi), self._programs.bare]
        return [self._programs.bare]

    # State file.

    def _set_phase(self, member: Member, phase: Phase) -> None:
        if member.phase != "ending":
            member.phase = phase
        self._save_states()

    def _save_states(self) -> None:
        with self._saving:
            if self._folder.is_dir():
                state.save_host_states([member.describe() for member in list(self._members.values())], self._folder)


def build_namespace_prefix(folder: Path) -> str:
    """Return the prefix of a local cloud's network namespace names. `folder`: folder of the local cloud's hosts."""
    return f"gpumpi-{hashlib.sha256(str(folder).encode()).hexdigest()[:8]}-h"


_SHUT_DOWN = "Client.InstanceInitiatedShutdown: Instance initiated shutdown"
_CRASHED = "Server.InternalError: Server internal error"


def _read_console_tail(member: Member) -> str:
    text: Any = member.host.read_console() if member.host else b""
    return "\n".join(text.decode(errors="replace").splitlines()[-12:])
