"""Keeps a cluster's nodes in sync with the instances of its node groups."""

import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any

from moto.ec2.models.instance_types import INSTANCE_TYPES
from tenacity import RetryError, Retrying, retry_if_result, stop_after_delay, wait_fixed

from localcloud import problems
from localcloud.aws.call import backend_of
from localcloud.aws.ec2 import instance_calls
from localcloud.aws.ec2.zones import find_zone
from localcloud.aws.eks import joining
from localcloud.aws.eks.node_groups import bootstrap
from localcloud.aws.eks.node_groups.tags import NODE_GROUP_TAG
from localcloud.aws.events import DONE, WAIT, Event, Kind, Progress
from localcloud.kubernetes.client import ApiError
from localcloud.kubernetes.efs_csi.part import EfsCsi
from localcloud.kubernetes.fsx_csi.part import FsxCsi
from localcloud.kubernetes.node_addon import NodeAddon
from localcloud.kubernetes.node_monitoring.part import NodeMonitoring
from localcloud.kubernetes.nodes import drain, kubelets, labels, machine, watches
from localcloud.kubernetes.nodes.limits import Limits
from localcloud.kubernetes.nodes.links import Wiring
from localcloud.kubernetes.nodes.machine import Machine
from localcloud.kubernetes.nodes.node import Node
from localcloud.kubernetes.nodes.programs import Programs
from localcloud.kubernetes.nodes.roster import Member, Roster
from localcloud.kubernetes.nodes.simulated import KWOK, Simulator
from localcloud.kubernetes.part import Part
from localcloud.kubernetes.running import RunningCluster
from localcloud.machine.supervisor import Ended
from localcloud.processes import StartError
from localcloud.tools.build import ensure_tool

log = logging.getLogger(__name__)

NODE_ADDONS: tuple[type[NodeAddon], ...] = (EfsCsi, FsxCsi, NodeMonitoring)
"""Parts that run a process on each node."""

LOST_SECONDS = 90.0
"""Timeout for a stopped node to become NotReady. Kubernetes takes about 50 seconds (node-monitor-grace-period)."""
WORKERS = 16
"""Number of threads shared by all simulated nodes (up to a thousand). Each real node has its own thread."""


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
        self._drains: dict[str, Progress] = {}
        """Progress of the drains that node group updates requested, keyed by instance ID."""
        self._ending = threading.Event()
        self._pool = ThreadPoolExecutor(WORKERS, thread_name_prefix=f"nodes-{cluster.id}")
        self._threads: list[threading.Thread] = []

    def on_event(self, event: Event) -> None:
        match event.kind, event.action:
            case "instance", "created":
                self._add_instance(event)
            case "instance", "gone":
                self._remove_instance(event)
            case "instance", "rebooting":
                if (member := self._roster.get(event.name)) is not None and member.has_real_node:
                    self._run_in_thread(member, self._reboot)
            case "instance", ("cordoning" | "draining" | "uncordoning"):
                self._handle_drain_event(event)
            case "node-group", ("created" | "changed"):
                self._handle_group_change(event.name.split("/", 1)[1], event.details)

    def progress(self, kind: Kind, name: str) -> Progress:
        if kind == "instance":
            return self._drains.get(name, DONE)
        if kind != "node-group":
            return DONE
        node_group = name.split("/", 1)[1]
        state = self._roster.progress(node_group)
        lost = self._find_lost_daemons(node_group) if state.ready is not None else []
        return replace(state, problem=state.problem or lost[0], ready=(state.ready or 0) - len(lost)) if lost else state

    def _find_lost_daemons(self, node_group: str) -> list[str]:
        """Return one crash for each ready node of the group that has lost a daemon."""
        crashes = {crash.name: str(crash) for crash in self.cluster.supervisor.list_crashes()}
        daemons = [member.node.daemons.values() if member.node else (KWOK,) for member in self._roster.ready(node_group)]
        return [next(crashes[name] for name in names if name in crashes) for names in daemons if {*names} & crashes.keys()]

    def restart_crashed(self) -> None:
        """Restart real nodes whose PID 1 has exited: the kernel then killed all processes of the node. Raises
        StartError."""
        crashed = {crash.name for crash in self.cluster.supervisor.list_crashes()}
        for member in self._roster.list_all_members():
            with member.turn:
                if member.node is not None and member.node.daemons["machine"] in crashed:
                    self._stop_node(member)
                    self._start(member)
                    if member.problem:
                        raise StartError(member.problem)

    def _reboot(self, member: Member) -> None:
        """Restart a node's processes. Its GPUs are reset, and its monitoring agent starts with a healthy condition."""
        if member.node is not None and member.phase == "ready":
            self._stop_node(member)
            self._start(member)

    def stop(self) -> None:
        self._ending.set()
        self._pool.shutdown(cancel_futures=True)
        for thread in self._threads:
            thread.join()

    def has_room(self, kind: machine.Kind) -> bool:
        """Return whether another node of this kind would be real."""
        return self._roster.has_room(kind)

    def node(self, name: str) -> Node | None:
        """Return the real node with this name; None if there is none."""
        member = self._roster.find(name)
        return member.node if member is not None else None

    def nodes(self) -> list[Node]:
        """Return the real nodes that have been started."""
        return [member.node for member in self._roster.list_all_members() if member.node is not None]

    # New instances

    def _add_instance(self, event: Event) -> None:
        """Add the instance as a member. An instance that cannot become a node counts as a failed member of its node
        group."""
        node_group = machine.get_tags(event.details).get(NODE_GROUP_TAG)
        if node_group is None:
            return
        try:
            instance = instance_calls.find_instances(backend_of("ec2", event.account, event.region), [event.name])[0]
            reason = bootstrap.explain_join_failure(self.cluster.name, instance)
            candidate = self._build_machine(event, bootstrap.read_user_data(instance)) if not reason else None
        except Exception as error:
            reason, candidate = problems.report_problem(f"reading instance {event.name}", error), None
        if candidate is None:
            log.warning("instance %s does not join: %s", event.name, reason)
            self._roster.add_rejected(event.name, node_group, f"instance {event.name}: {reason}")
            return
        member = self._roster.admit(candidate)
        if member is not None:
            self._run_in_thread(member, self._start)

    def _build_machine(self, event: Event, user_data: str | None) -> Machine | None:
        ec2 = backend_of("ec2", event.account, event.region)
        described = event.details
        return machine.parse_instance(
            described,
            user_data,
            INSTANCE_TYPES[described["InstanceType"]],
            find_zone(ec2, described["Placement"]["AvailabilityZone"]).zone_id,
            event.region,
        )

    def _start(self, member: Member) -> None:
        if member.phase == "leaving":
            return
        try:
            if obstacle := self._find_join_obstacle(member):
                self._roster.record_start_result(member, "failed", obstacle)
                return
            if member.has_real_node:
                self._start_real(member)
            else:
                self._simulator.create(member.machine, self._groups.get(member.machine.node_group))
        except Ended:
            return
        except Exception as error:  # catch any error, so that the node group does not wait forever
            if self._ending.is_set():
                return
            log.error("node %s did not start: %s", member.machine.name, error, exc_info=not isinstance(error, StartError))
            self._stop_node(member)
            # otherwise the node's pods would stay in Terminating forever
            self._run_step(member, lambda: drain.delete_node(self.cluster.api, member.machine.name))
            self._roster.record_start_result(member, "failed", f"node {member.machine.name}: {error}")
            return
        self._roster.record_start_result(member, "ready")

    def _find_join_obstacle(self, member: Member) -> str:
        """Return why the instance could not join on EKS, or "" if it could."""
        cluster = joining.find_cluster(self.cluster.account, self.cluster.region, self.cluster.name)
        obstacle = joining.find_instance_obstacle(cluster, member.machine.id) if cluster is not None else None
        return f"node {member.machine.name}: {obstacle.reason}" if obstacle else ""

    def _start_real(self, member: Member) -> None:
        watches.raise_inotify_limit()
        if self._programs is None:
            self._programs = Programs.ensure(log.info)
        assert member.number is not None
        node = member.node = Node(
            self.cluster,
            member.machine,
            member.number,
            programs=replace(self._programs, kubelet=ensure_tool(kubelets.select_kubelet(member.machine.version), log.info)),
            wiring=self._wiring,
            is_over=self._ending.is_set,
        )
        node.start()
        for addon in NODE_ADDONS:
            self.cluster.get_part(addon).on_node_up(node)
        node.await_ready()
        self._set_labels(member)

    def _set_labels(self, member: Member) -> None:
        """Add the labels that EKS and the cloud controller set. NodeRestriction does not allow the kubelet to set
        these labels."""
        node_labels = labels.build_controller_labels(member.machine, self._groups.get(member.machine.node_group))
        self.cluster.api.patch(f"/api/v1/nodes/{member.machine.name}", {"metadata": {"labels": node_labels}})

    # Node group updates

    def _handle_drain_event(self, event: Event) -> None:
        """Cordon, drain or uncordon an instance's node, if the node has joined the cluster."""
        member, api = self._roster.get(event.name), self.cluster.api
        if member is None:
            return
        name, force = member.machine.name, bool(event.details.get("Force"))
        match event.action:
            case "cordoning":
                self._run_in_thread(member, lambda member: self._run_step(member, lambda: drain.cordon(api, name)))
            case "uncordoning":
                self._run_in_thread(member, lambda member: self._run_step(member, lambda: drain.uncordon(api, name)))
            case "draining":
                self._drains[event.name] = WAIT
                self._run_in_thread(member, lambda member: self._drain(member, force))

    def _drain(self, member: Member, force: bool) -> None:
        api, name = self.cluster.api, member.machine.name
        try:
            left = drain.drain(api, name, lambda: self._ending.is_set() or member.phase == "leaving", drain.get_drain_timeout())
            if left and force:
                drain.delete_pods(api, name)
                left = []
            result = Progress(True, ", ".join(left))
        except Exception as error:  # catch any error, so that the update does not wait forever
            log.error("node %s could not be drained: %s", name, error, exc_info=not isinstance(error, (OSError, ApiError)))
            result = Progress(True, str(error) or repr(error))
        if member.machine.id in self._drains:  # otherwise the instance was terminated in the meantime
            self._drains[member.machine.id] = result

    # Removed instances

    def _remove_instance(self, event: Event) -> None:
        member = self._roster.mark_leaving(event.name)
        self._drains.pop(event.name, None)
        if member is None:
            return
        leave = self._drain_and_remove if event.details.get("ScaledIn", True) else self._remove_terminated
        self._run_in_thread(member, leave)

    def _drain_and_remove(self, member: Member) -> None:
        """Drain and remove a node after its Auto Scaling group has scaled in the instance."""
        api, name = self.cluster.api, member.machine.name
        self._run_step(member, lambda: drain.drain(api, name, self._ending.is_set, drain.get_drain_timeout()))
        self._stop_node(member)
        self._run_step(member, lambda: drain.delete_node(api, name))
        self._remove_member(member)

    def _remove_terminated(self, member: Member) -> None:
        """Shut down the node of a directly terminated instance; remove it once it is NotReady, as the cloud controller does."""
        if member.node is not None:
            self._run_step(member, partial(member.node.shut_down, self._ending.is_set))
        self._stop_node(member)
        if member.has_real_node:
            self._wait_until_not_ready(member.machine.name)
        self._run_step(member, lambda: self.cluster.api.delete(f"/api/v1/nodes/{member.machine.name}"))
        self._remove_member(member)

    def _stop_node(self, member: Member) -> None:
        if member.node is None or self._ending.is_set():
            return
        node, member.node = member.node, None
        for addon in NODE_ADDONS:
            self._run_step(member, partial(self.cluster.get_part(addon).on_node_down, node))
        self._run_step(member, node.stop)

    def _remove_member(self, member: Member) -> None:
        self._roster.remove(member)
        if not member.has_real_node:
            return
        self.cluster.publish()  # now another node can become a real node
        if not self._ending.is_set():
            self._promote(member.machine.kind)

    def _promote(self, kind: machine.Kind) -> None:
        """Replace a simulated node with a real one if there is room."""
        member = self._roster.promote(kind)
        if member is not None:
            self._run_in_thread(member, self._restart_as_real)

    def _restart_as_real(self, member: Member) -> None:
        self._run_step(member, lambda: drain.delete_node(self.cluster.api, member.machine.name))
        self._start(member)

    def _wait_until_not_ready(self, name: str) -> None:
        def is_not_ready() -> bool:
            node = self.cluster.api.find(f"/api/v1/nodes/{name}")
            conditions = node["status"].get("conditions", ()) if node else ()
            return self._ending.is_set() or all(
                condition["status"] != "True" for condition in conditions if condition["type"] == "Ready"
            )

        waiting = Retrying(
            retry=retry_if_result(lambda noticed: not noticed), wait=wait_fixed(1), stop=stop_after_delay(LOST_SECONDS)
        )
        try:
            waiting(is_not_ready)
        except (RetryError, OSError, ApiError) as error:
            log.warning("removing node %s although Kubernetes still reports it as Ready: %r", name, error)

    # Changed node groups

    def _handle_group_change(self, name: str, after: Mapping[str, Any]) -> None:
        before = self._groups.get(name)
        self._groups[name] = after
        change = labels.compute_change(before, after) if before is not None else None
        if change is None:
            return
        for member in self._roster.list_members(name):
            self._run_in_thread(member, lambda member: self._apply_change(member, change))

    def _apply_change(self, member: Member, change: labels.Change) -> None:
        """Apply the node group's new labels and taints to a running node."""
        path = f"/api/v1/nodes/{member.machine.name}"

        def update_node() -> None:
            node = self.cluster.api.find(path)
            if node is not None:
                taints = change.apply_to_taints(node["spec"].get("taints", ()))
                self.cluster.api.patch(path, {"metadata": {"labels": dict(change.labels)}, "spec": {"taints": taints}})

        self._run_step(member, update_node)

    # Threads

    def _run_in_thread(self, member: Member, action: Callable[[Member], None]) -> None:
        """Run the action in a thread. Actions on the same member run one at a time."""

        def run_action() -> None:
            with member.turn:
                if self._ending.is_set():
                    return
                try:
                    action(member)
                except Exception as error:  # otherwise the node group would wait forever
                    problem = problems.report_problem(f"node {member.machine.name}", error)
                    if member.phase == "leaving":
                        self._roster.remove(member)
                    self._roster.record_start_result(member, "failed", problem)

        if member.has_real_node:
            thread = threading.Thread(target=run_action, name=f"node-{member.machine.name}", daemon=True)
            self._threads = [other for other in self._threads if other.is_alive()] + [thread]
            thread.start()
        else:
            self._pool.submit(run_action)

    def _run_step(self, member: Member, action: Callable[[], object]) -> None:
        """Run a step. Log an error instead of raising it, so that the next steps still run."""
        try:
            action()
        except Exception as error:
            if not self._ending.is_set():
                expected = isinstance(error, (OSError, ApiError))
                log.warning("node %s: %s", member.machine.name, error, exc_info=not expected)
