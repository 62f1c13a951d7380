"""Keeps a cluster's nodes in sync with the instances of its node groups."""

import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from moto.ec2.models.instance_types import INSTANCE_TYPES
from tenacity import RetryError, Retrying, retry_if_result, stop_after_delay, wait_fixed

from localcloud.aws.call import backend_of
from localcloud.aws.ec2 import instance_calls
from localcloud.aws.ec2.zones import zone_named
from localcloud.aws.events import DONE, Event, Kind, Progress
from localcloud.kubernetes.client import ApiError
from localcloud.kubernetes.efs_csi.part import EfsCsi
from localcloud.kubernetes.nodes import drain, labels, machine, watches
from localcloud.kubernetes.nodes.limits import Limits
from localcloud.kubernetes.nodes.links import Wiring
from localcloud.kubernetes.nodes.machine import Machine
from localcloud.kubernetes.nodes.node import Node
from localcloud.kubernetes.nodes.programs import Programs
from localcloud.kubernetes.nodes.roster import Member, Roster
from localcloud.kubernetes.nodes.simulated import Simulator
from localcloud.kubernetes.part import Part
from localcloud.kubernetes.running import RunningCluster
from localcloud.machine.supervisor import Ended
from localcloud.processes import StartError

log = logging.getLogger(__name__)

LOST_SECONDS = 90.0
"""How long to wait until a stopped node is NotReady, which takes about 50 seconds (node-monitor-grace-period)."""
WORKERS = 16
"""Number of threads that simulated nodes share (up to a thousand nodes). Each real node has its own thread."""


class Fleet(Part):
    """Creates a node for each instance, and removes it when the instance is gone. Nodes start and stop in parallel."""

    def __init__(self, cluster: RunningCluster) -> None:
        super().__init__(cluster)
        limits = Limits.from_environment() if cluster.namespace else Limits(cpu=0, gpu=0)
        self._roster = Roster(limits)
        self._simulator = Simulator(cluster)
        self._wiring = Wiring(cluster.namespace or "", cluster.addresses)
        self._programs: Programs | None = None
        self._groups: dict[str, Mapping[str, Any]] = {}
        self._ending = threading.Event()
        self._pool = ThreadPoolExecutor(WORKERS, thread_name_prefix=f"nodes-{cluster.id}")
        self._threads: list[threading.Thread] = []

    def event(self, event: Event) -> None:
        match event.kind, event.action:
            case "instance", "created":
                self._appear(event)
            case "instance", "gone":
                self._disappear(event)
            case "node-group", ("created" | "changed"):
                self._group_changed(event.name.split("/", 1)[1], event.details)

    def progress(self, kind: Kind, name: str) -> Progress:
        return self._roster.progress(name.split("/", 1)[1]) if kind == "node-group" else DONE

    def stop(self) -> None:
        self._ending.set()
        self._pool.shutdown(cancel_futures=True)
        for thread in self._threads:
            thread.join()

    def node(self, name: str) -> Node | None:
        """Return the real node with this name; None if there is none."""
        member = self._roster.find(name)
        return member.node if member is not None else None

    # New instances

    def _appear(self, event: Event) -> None:
        found = self._machine(event)
        if found is None:
            return
        if found.user_data.cluster != self.cluster.name:
            log.warning("instance %s does not join: its user data does not name cluster %s", found.id, self.cluster.name)
            return
        member = self._roster.admit(found)
        if member is not None:
            self._work(member, self._start)

    def _machine(self, event: Event) -> Machine | None:
        ec2 = backend_of("ec2", event.account, event.region)
        described = event.details
        return machine.of(
            described,
            _user_data(ec2, event.name),
            INSTANCE_TYPES[described["InstanceType"]],
            zone_named(ec2, described["Placement"]["AvailabilityZone"]).zone_id,
            event.region,
        )

    def _start(self, member: Member) -> None:
        if member.phase == "leaving":
            return
        try:
            if member.is_real:
                self._start_real(member)
            else:
                self._simulator.create(member.machine, self._groups.get(member.machine.node_group))
        except Ended:
            return
        except Exception as error:  # catch any error, so that the node group does not wait forever
            if self._ending.is_set():
                return
            log.error("node %s did not start: %s", member.machine.name, error, exc_info=not isinstance(error, StartError))
            self._switch_off(member)
            # otherwise the node's pods would stay in Terminating forever
            self._try(member, lambda: drain.forget(self.cluster.api, member.machine.name))
            self._roster.settle(member, "failed", f"node {member.machine.name}: {error}")
            return
        self._roster.settle(member, "ready")

    def _start_real(self, member: Member) -> None:
        watches.allow()
        if self._programs is None:
            self._programs = Programs.ensure(log.info)
        assert member.number is not None
        node = member.node = Node(
            self.cluster,
            member.machine,
            member.number,
            programs=self._programs,
            wiring=self._wiring,
            is_over=self._ending.is_set,
        )
        node.start()
        self.cluster.part(EfsCsi).node_up(node)
        node.await_ready()
        self._label(member)

    def _label(self, member: Member) -> None:
        """Set the labels that EKS and the cloud controller set. NodeRestriction does not let the kubelet set them."""
        wanted = labels.of_controllers(member.machine, self._groups.get(member.machine.node_group))
        self.cluster.api.patch(f"/api/v1/nodes/{member.machine.name}", {"metadata": {"labels": wanted}})

    # Removed instances

    def _disappear(self, event: Event) -> None:
        member = self._roster.let_go(event.name)
        if member is None:
            return
        leave = self._leave if event.details.get("ScaledIn", True) else self._vanish
        self._work(member, leave)

    def _leave(self, member: Member) -> None:
        """Drain a node that its Auto Scaling group scaled in, then remove it."""
        api, name = self.cluster.api, member.machine.name
        self._try(member, lambda: drain.drain(api, name, self._ending.is_set))
        self._switch_off(member)
        self._try(member, lambda: drain.forget(api, name))
        self._gone(member)

    def _vanish(self, member: Member) -> None:
        """Remove the node of a directly terminated instance once it is NotReady, as the cloud controller does."""
        self._switch_off(member)
        if member.is_real:
            self._await_not_ready(member.machine.name)
        self._try(member, lambda: self.cluster.api.delete(f"/api/v1/nodes/{member.machine.name}"))
        self._gone(member)

    def _switch_off(self, member: Member) -> None:
        if member.node is None or self._ending.is_set():
            return
        node, member.node = member.node, None
        self._try(member, lambda: self.cluster.part(EfsCsi).node_down(node))
        self._try(member, node.stop)

    def _gone(self, member: Member) -> None:
        self._roster.remove(member)
        if member.is_real and not self._ending.is_set():
            self._promote(member.machine.kind)

    def _promote(self, kind: machine.Kind) -> None:
        """Replace a simulated node with a real one if there is room."""
        member = self._roster.promote(kind)
        if member is not None:
            self._work(member, self._become_real)

    def _become_real(self, member: Member) -> None:
        self._try(member, lambda: drain.forget(self.cluster.api, member.machine.name))
        self._start(member)

    def _await_not_ready(self, name: str) -> None:
        def is_noticed() -> bool:
            found = self.cluster.api.find(f"/api/v1/nodes/{name}")
            conditions = found["status"].get("conditions", ()) if found else ()
            return self._ending.is_set() or all(
                condition["status"] != "True" for condition in conditions if condition["type"] == "Ready"
            )

        waiting = Retrying(
            retry=retry_if_result(lambda noticed: not noticed), wait=wait_fixed(1), stop=stop_after_delay(LOST_SECONDS)
        )
        try:
            waiting(is_noticed)
        except (RetryError, OSError, ApiError) as error:
            log.warning("removing node %s although Kubernetes still reports it as Ready: %r", name, error)

    # Changed node groups

    def _group_changed(self, name: str, after: Mapping[str, Any]) -> None:
        before = self._groups.get(name)
        self._groups[name] = after
        change = labels.change(before, after) if before is not None else None
        if change is None:
            return
        for member in self._roster.members(name):
            self._work(member, lambda member: self._apply(member, change))

    def _apply(self, member: Member, change: labels.Change) -> None:
        """Apply the node group's new labels and taints to a running node."""
        path = f"/api/v1/nodes/{member.machine.name}"

        def update() -> None:
            node = self.cluster.api.find(path)
            if node is not None:
                taints = change.taints_after(node["spec"].get("taints", ()))
                self.cluster.api.patch(path, {"metadata": {"labels": dict(change.labels)}, "spec": {"taints": taints}})

        self._try(member, update)

    # Threads

    def _work(self, member: Member, action: Callable[[Member], None]) -> None:
        """Run the action in a thread, after all earlier actions on this member."""

        def run() -> None:
            with member.turn:
                if not self._ending.is_set():
                    action(member)

        if member.is_real:
            thread = threading.Thread(target=run, name=f"node-{member.machine.name}", daemon=True)
            self._threads = [other for other in self._threads if other.is_alive()] + [thread]
            thread.start()
        else:
            self._pool.submit(run)

    def _try(self, member: Member, action: Callable[[], object]) -> None:
        """Run a step. Log an error instead of raising it, so that the next steps still run."""
        try:
            action()
        except Exception as error:
            if not self._ending.is_set():
                expected = isinstance(error, (OSError, ApiError))
                log.warning("node %s: %s", member.machine.name, error, exc_info=not expected)


def _user_data(ec2: Any, instance_id: str) -> str | None:
    """Return an instance's base64-encoded user data, as passed at launch."""
    kept = instance_calls.find(ec2, [instance_id])[0].user_data
    return kept.as_bytes().decode() if kept else None
