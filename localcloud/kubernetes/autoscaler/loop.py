"""The control loop: one pass over the cluster and its groups, and the state kept between passes."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from localcloud.kubernetes.autoscaler import scale_down, scale_up
from localcloud.kubernetes.autoscaler.cloud import AwsRefused, Cloud
from localcloud.kubernetes.autoscaler.flags import GPU_POD_DELAY, POD_DELAY, Options
from localcloud.kubernetes.autoscaler.groups import GPU, Group, has_all_device_resources
from localcloud.kubernetes.autoscaler.kube import ApiError, Kube
from localcloud.kubernetes.autoscaler.objects import Node, Pod
from localcloud.kubernetes.autoscaler.scale_down import TO_BE_DELETED, Verdict
from localcloud.kubernetes.autoscaler.scale_up import Plan, find_group

log = logging.getLogger(__name__)

NEVER = float("-inf")


@dataclass(frozen=True)
class View:
    """Snapshot of the cluster and its groups."""

    now: float
    groups: Sequence[Group]
    nodes: Sequence[Node]
    pods: Sequence[Pod]
    daemons: Sequence[Pod]


class Loop:
    def __init__(self, kube: Kube, cloud: Cloud, options: Options, clock: Callable[[], float] = time.time) -> None:
        self._kube, self._cloud, self._options, self._clock = kube, cloud, options, clock
        self._grown: dict[str, float] = {}
        self._paused: dict[str, tuple[float, str]] = {}
        self._unneeded: dict[str, float] = {}
        self._unready: dict[str, float] = {}
        self._ending: dict[str, float] = {}
        """Maps the name of a node that has our taint and is being drained to the time at which the drain started."""
        self._logged: dict[str, str] = {}
        self._last_add = self._last_delete = self._last_failure = NEVER
        self._is_first = True

    def run_once(self) -> None:
        now = self._clock()
        view = View(now, self._cloud.groups(), self._kube.nodes(), self._kube.pods(), self._kube.daemons())
        if self._is_first:
            self._remove_stale_taints(view)
            self._is_first = False
        self._record_unready_nodes(view)
        if self._give_up_on_missing_nodes(view):
            view = replace(view, groups=self._cloud.groups())
        plan = self._scale_up(view)
        if self._options.scale_down_enabled:
            self._terminate_drained_nodes(view)
            self._scale_down(view, plan.expected, hold=plan.is_held or bool(plan.increases))
        self._kube.show(format_status(view, self._options.gpu_pod_delay))

    # --- scale-up

    def _scale_up(self, view: View) -> Plan:
        self._paused = {name: entry for name, entry in self._paused.items() if entry[0] > view.now}
        pods = [pod for pod in view.pods if not pod.is_unschedulable or pod.priority >= self._options.expendable_priority]
        lost = [name for name, since in self._unready.items() if view.now - since > self._options.max_node_provision_time]
        paused = {name: reason for name, (_, reason) in self._paused.items()}
        plan = scale_up.plan_scale_up(
            pods, view.nodes, view.groups, view.daemons, paused=paused, lost=lost, expander=self._options.expander
        )
        if self._must_wait_for_more_pods(view, plan):
            return replace(plan, increases={}, helped={}, is_held=True)
        for group in view.groups:
            if count := plan.increases.get(group.name):
                self._scale_up_group(view, group, count, plan.helped[group.name])
        self._explain_pending_pods(plan.hopeless)
        return plan

    def _must_wait_for_more_pods(self, view: View, plan: Plan) -> bool:
        """Return whether the pods that need new nodes are so recent that more pods are likely to follow.

        This is the same rule as `allPodsAreNew` in cluster-autoscaler/core/static_autoscaler.go of kubernetes/autoscaler@006685c.
        """
        pods = [pod for helped in plan.helped.values() for pod in helped] + [pod for pod, _ in plan.hopeless]
        with_gpus = [pod.created for pod in pods if GPU in pod.requests]
        is_new = bool(pods) and min(pod.created for pod in pods) + POD_DELAY > view.now
        is_new = is_new or (bool(with_gpus) and min(with_gpus) + self._options.gpu_pod_delay > view.now)
        if is_new:
            self._log_once("scale-up", f"waits for more pods: {len(pods)} unschedulable pods are very new")
        else:
            self._logged.pop("scale-up", None)
        return is_new

    def _scale_up_group(self, view: View, group: Group, count: int, helped: Sequence[Pod]) -> None:
        change = f"{group.name} {group.desired}->{group.desired + count} (max: {group.maximum})"
        try:
            self._cloud.resize(group, group.desired + count)
        except AwsRefused as error:
            self._pause(view, group, f"AWS rejected the scale-up: {error}")
            return
        self._grown[group.name] = self._last_add = view.now
        log.info("scale-up: %s for %s", change, ", ".join(pod.full_name for pod in helped))
        for pod in helped:
            self._record_event(pod, "TriggeredScaleUp", f"pod triggered scale-up: [{{{change}}}]")

    def _explain_pending_pods(self, hopeless: Sequence[tuple[Pod, str]]) -> None:
        """For each pod that stays pending, log the reason and create an event, once per reason."""
        for pod, reason in hopeless:
            if self._log_once(f"pod {pod.full_name}", f"stays pending: {reason}"):
                self._record_event(pod, "NotTriggerScaleUp", f"pod didn't trigger scale-up: {reason}")
        pending = {f"pod {pod.full_name}" for pod, _ in hopeless}
        for subject in [subject for subject in self._logged if subject.startswith("pod ") and subject not in pending]:
            del self._logged[subject]

    def _give_up_on_missing_nodes(self, view: View) -> bool:
        """Shrink and pause groups whose new instances fail to launch or do not register as nodes in time."""
        gave_up = False
        for group in view.groups:
            since = self._grown.get(group.name)
            here = [node.instance_id for node in view.nodes if find_group(node, [group]) is not None]
            if since is None or group.desired <= len(here):
                self._grown.pop(group.name, None)
                continue
            is_late = view.now - since > self._options.max_node_provision_time
            failure = self._cloud.find_launch_failure(group, since) if group.desired > len(group.instances) else ""
            if failure:
                self._pause(view, group, f"the last launch of an instance failed: {failure}")
                self._lower_desired_size(group, max(group.minimum, len(group.instances)))
                gave_up = True
            elif is_late:
                self._pause(view, group, f"the last node did not register within {self._options.max_node_provision_time:.0f} s")
                self._lower_desired_size(group, max(group.minimum, len(group.instances)))
                for instance in sorted(group.instances.difference(filter(None, here))):
                    self._terminate(instance, f"did not register as a node within {self._options.max_node_provision_time:.0f} s")
                gave_up = True
        return gave_up

    def _lower_desired_size(self, group: Group, size: int) -> None:
        if size < group.desired:
            log.info("%s: lowering desired size from %d to %d", group.name, group.desired, size)
            try:
                self._cloud.resize(group, size)
            except AwsRefused as error:
                log.warning("%s: %s", group.name, error)

    def _pause(self, view: View, group: Group, reason: str) -> None:
        self._grown.pop(group.name, None)
        self._last_failure = view.now
        self._paused[group.name] = view.now + self._options.initial_backoff, reason
        log.warning("%s is paused for %.0f s: %s", group.name, self._options.initial_backoff, reason)

    # --- scale-down

    def _scale_down(self, view: View, expected: Mapping[str, str], *, hold: bool) -> None:
        """Remove nodes that have been unneeded for long enough.

        The timers of unneeded nodes run even while removal is on hold. Pods that the scheduler is expected to place on
        a node count as pods on that node.
        """
        options = self._options
        nodes = [node for node in view.nodes if node.name not in self._ending]
        pods = [replace(pod, node=expected[pod.full_name]) if pod.full_name in expected else pod for pod in view.pods]
        verdicts = scale_down.judge_nodes(nodes, pods, view.groups, options.rules)
        unneeded = {verdict.node.name for verdict in verdicts if not verdict.needed}
        self._unneeded = {name: self._unneeded.get(name, view.now) for name in unneeded}
        for verdict in verdicts:
            self._log_once(f"node {verdict.node.name}", f"is needed: {verdict.needed}" if verdict.needed else "is not needed")
        waits = (
            (self._last_add, options.scale_down_delay_after_add),
            (self._last_delete, options.scale_down_delay_after_delete),
            (self._last_failure, options.scale_down_delay_after_failure),
        )
        if hold or any(view.now - last < wait for last, wait in waits):
            return
        due = [
            verdict
            for verdict in scale_down.select_removable(verdicts, self._count_removals_by_group(view))
            if self._is_removable(verdict, view.now)
        ]
        self._drain_nodes(due[: max(0, options.scale_down_parallelism - len(self._ending))], view.now)

    def _is_removable(self, verdict: Verdict, now: float) -> bool:
        """True if the node has been unneeded for long enough. The required time differs for unready nodes, including
        nodes whose device plugins have not registered."""
        options, node = self._options, verdict.node
        is_ready = node.is_ready and has_all_device_resources(node, verdict.group)
        wait = options.scale_down_unneeded_time if is_ready else options.scale_down_unready_time
        return now - self._unneeded[node.name] >= wait

    def _drain_nodes(self, verdicts: Sequence[Verdict], now: float) -> None:
        """Taint the nodes, then evict their pods. Keep a node if a new pod was scheduled on it before it was
        tainted."""
        for verdict in verdicts:
            self._kube.taint(verdict.node.name, scale_down.build_deletion_taint(now))
        current = self._kube.pods() if verdicts else []
        for verdict in verdicts:
            name = verdict.node.name
            here = list_own_pods(name, current)
            expected = {pod.full_name for pod in verdict.to_move}
            if any(pod.full_name not in expected for pod in here):
                self._kube.untaint(name, TO_BE_DELETED)
                continue
            self._ending[name] = now
            if not here:
                self._terminate_node(verdict.node, "the node is no longer needed")
            for pod in here:
                log.info("scale-down: evicting %s from %s", pod.full_name, name)
                self._kube.evict(pod)

    def _terminate_drained_nodes(self, view: View) -> None:
        present = {node.name: node for node in view.nodes}
        for name, since in list(self._ending.items()):
            node = present.get(name)
            if node is None or find_group(node, view.groups) is None:
                del self._ending[name]
            elif not (left := list_own_pods(name, view.pods)):
                self._terminate_node(node, "all its pods have been evicted")
            elif view.now - since > self._options.max_graceful_termination:
                log.warning(
                    "scale-down: keeping %s because these pods could not be evicted: %s",
                    name,
                    ", ".join(pod.full_name for pod in left),
                )
                self._kube.untaint(name, TO_BE_DELETED)
                del self._ending[name]
                self._last_failure = view.now
            else:
                for pod in left:
                    self._kube.evict(pod)

    def _terminate_node(self, node: Node, reason: str) -> None:
        if node.instance_id is not None and self._terminate(node.instance_id, f"node {node.name}: {reason}"):
            self._last_delete = self._clock()
        else:
            self._kube.untaint(node.name, TO_BE_DELETED)
            self._ending.pop(node.name, None)

    def _terminate(self, instance_id: str, reason: str) -> bool:
        log.info("scale-down: terminating instance %s: %s", instance_id, reason)
        try:
            self._cloud.terminate(instance_id)
        except AwsRefused as error:
            log.warning("could not terminate %s: %s", instance_id, error)
            return False
        return True

    def _count_removals_by_group(self, view: View) -> dict[str, int]:
        """Return the number of nodes being removed from each group, keyed by group name. Nodes that have already left
        their group do not count."""
        ending_counts: dict[str, int] = {}
        for node in view.nodes:
            if node.name in self._ending and (group := find_group(node, view.groups)) is not None:
                ending_counts[group.name] = ending_counts.get(group.name, 0) + 1
        return ending_counts

    # --- state between passes

    def _remove_stale_taints(self, view: View) -> None:
        """Remove taints left by an earlier process, which may have been stopped during a scale-down."""
        for node in view.nodes:
            if any(taint.key == TO_BE_DELETED for taint in node.taints):
                self._kube.untaint(node.name, TO_BE_DELETED)
        for group in view.groups:
            self._grown[group.name] = view.now

    def _record_unready_nodes(self, view: View) -> None:
        self._unready = {node.name: self._unready.get(node.name, view.now) for node in view.nodes if not node.is_ready}
        names = {f"node {node.name}" for node in view.nodes}
        for subject in [subject for subject in self._logged if subject.startswith("node ") and subject not in names]:
            del self._logged[subject]

    def _log_once(self, subject: str, text: str) -> bool:
        """Log the text unless it repeats the last text that was logged for this subject. Return whether the text was logged."""
        if self._logged.get(subject) == text:
            return False
        self._logged[subject] = text
        log.info("%s %s", subject, text)
        return True

    def _record_event(self, pod: Pod, reason: str, message: str) -> None:
        try:
            self._kube.record_event(pod, reason, message)
        except ApiError as error:  # for example, the namespace is terminating, or the role does not allow creating events
            log.warning("could not create an event for pod %s: %s", pod.full_name, error)


def describe_shortened_delay(gpu_pod_delay: float) -> str:
    """Return a note if the delay differs from the real autoscaler's, or an empty string."""
    if gpu_pod_delay == GPU_POD_DELAY:
        return ""
    return f"shortened: new pods with GPUs wait {gpu_pod_delay:g} s for more pods; the real autoscaler waits {GPU_POD_DELAY:g} s"


def list_own_pods(node: str, pods: Sequence[Pod]) -> list[Pod]:
    """Return the node's running pods, except DaemonSet pods and static pods."""
    return [pod for pod in pods if pod.node == node and not pod.is_finished and not pod.is_bound_to_node]


def format_status(view: View, gpu_pod_delay: float) -> str:
    """Return the status text: the number of unschedulable pods, then one line per group."""
    lines = []
    for group in view.groups:
        ready = sum(node.is_ready for node in view.nodes if find_group(node, [group]) is not None)
        lines.append(
            f"{group.name}: {ready} of {group.desired} nodes ready (min {group.minimum}, max {group.maximum}), "
            f"{group.instance_type.name}"
        )
    pending = sum(pod.is_unschedulable for pod in view.pods)
    head = [text for text in (describe_shortened_delay(gpu_pod_delay), f"unschedulable pods: {pending}") if text]
    return "\n".join([*head, *lines, ""])
