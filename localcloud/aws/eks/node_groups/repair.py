"""EKS's node auto repair: replaces or reboots unhealthy nodes after a wait, measured in calendar time of the local AWS.

The Kubernetes realizer reports the conditions of nodes. A condition of the node monitoring agent becomes True again
only on a new node or after the agent restarts. This module never sets conditions.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from moto.backends import get_backend

from localcloud.aws import clock, durations
from localcloud.aws.autoscaling import capacity
from localcloud.aws.ec2 import instance_events
from localcloud.aws.eks.node_groups import nodes, repair_rules
from localcloud.aws.eks.node_groups.repair_rules import Fault, Repair
from localcloud.aws.eks.state import Cluster, Eks, NodeGroup
from localcloud.aws.patching import get_state, on_reset

_faults: dict[str, list[Fault]] = {}
"""Maps an instance ID to the faults of its node."""


def record_conditions(instance: str, conditions: Iterable[Mapping[str, Any]]) -> None:
    """Record the conditions of a node, as Kubernetes lists them."""
    node_faults = repair_rules.find_faults(instance, conditions, _faults.get(instance, ()), clock.now())
    if node_faults:
        _faults[instance] = node_faults
    else:
        _faults.pop(instance, None)


def is_repair_enabled(cluster: Cluster) -> bool:
    """Return whether node auto repair is enabled in a node group of the cluster."""
    return any(group.record.get("nodeRepairConfig", {}).get("enabled") for group in cluster.node_groups.values())


@clock.on_tick
def start_due_repairs(moment: datetime) -> None:
    """Start the repairs that are due, and remove completed repairs from the node groups' records."""
    for cluster in _list_clusters():
        for group in cluster.node_groups.values():
            if (_faults or group.repairs) and group.record["status"] in nodes.JOINED:
                _repair_group(cluster, group, moment)


def _repair_group(cluster: Cluster, group: NodeGroup, moment: datetime) -> None:
    members = {instance.id: instance for instance in nodes.find_in_service(cluster, group)}
    has_replaced = cluster.get_node_group_progress(group).done
    for instance in [id for id in group.repairs if (has_replaced if id not in members else id not in _faults)]:
        del group.repairs[instance]
    node_faults = [fault for instance in members for fault in _faults.get(instance, ())]
    for repair in repair_rules.list_due_repairs(
        group.record["nodeRepairConfig"], len(members), node_faults, group.repairs, moment
    ):
        group.repairs[repair.instance] = repair.action
        if repair.action == "Replace":
            _replace_node(cluster, group, repair)
        else:
            _reboot_node(cluster, members[repair.instance])


def _replace_node(cluster: Cluster, group: NodeGroup, repair: Repair) -> None:
    """Terminate the instance; its Auto Scaling group launches a replacement. The realizer drains the node before the
    instance stops."""
    cause = f"in response to a repair of an EKS node: {repair.fault.reason}"
    for scaling in nodes.list_auto_scaling_groups(cluster, group):
        for state in [member for member in capacity.list_members(scaling) if member.instance_id == repair.instance]:
            capacity.start_termination(scaling, state, f"An instance was taken out of service {cause}.")
            capacity.adjust_instances(scaling, cause)
    _faults.pop(repair.instance, None)


class _Reboot:
    """A node that is being drained before its reboot."""

    phase = ""


def _reboot_node(cluster: Cluster, instance: Any) -> None:
    nodes.request_node_action(cluster, instance, "draining", Force=True)

    def reboot_instance() -> None:
        if instance.state == "running":
            instance_events.publish_instance_event("rebooting", instance)
            nodes.request_node_action(cluster, instance, "uncordoning")

    def can_reboot() -> bool:
        return nodes.get_drain_progress(cluster, instance).done

    node = _Reboot()
    failed = durations.make_failure_handler(node, "phase", "failed")
    durations.schedule(
        node, "phase", "draining", "rebooted", "eks-node-drained", then=reboot_instance, gate=can_reboot, fail=failed
    )


def _list_clusters() -> Iterator[Cluster]:
    for regions in list(get_backend("eks").values()):
        for backend in list(regions.values()):
            yield from list(get_state(backend, Eks).clusters.values())


@on_reset
def _reset_repairs() -> None:
    _faults.clear()
