"""EKS's node auto repair: replaces or reboots unhealthy nodes after a wait, measured in the local AWS's calendar time.

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
from localcloud.aws.patching import on_reset, state_of

_faults: dict[str, list[Fault]] = {}
"""Instance ID -> faults of its node."""


def report(instance: str, conditions: Iterable[Mapping[str, Any]]) -> None:
    """Record the conditions of a node, as Kubernetes lists them."""
    node_faults = repair_rules.find_faults(instance, conditions, _faults.get(instance, ()), clock.now())
    if node_faults:
        _faults[instance] = node_faults
    else:
        _faults.pop(instance, None)


def is_wanted(cluster: Cluster) -> bool:
    """Return whether node auto repair is enabled in a node group of the cluster."""
    return any(group.record.get("nodeRepairConfig", {}).get("enabled") for group in cluster.node_groups.values())


@clock.watch
def repair_due(moment: datetime) -> None:
    """Start the repairs that are due, and remove completed repairs from the node groups' records."""
    for cluster in _clusters():
        for group in cluster.node_groups.values():
            if (_faults or group.repairs) and group.record["status"] in nodes.JOINED:
                _repair_group(cluster, group, moment)


def _repair_group(cluster: Cluster, group: NodeGroup, moment: datetime) -> None:
    members = {instance.id: instance for instance in nodes.find_in_service(cluster, group)}
    has_replaced = cluster.progress_of(group).done
    for instance in [id for id in group.repairs if (has_replaced if id not in members else id not in _faults)]:
        del group.repairs[instance]
    node_faults = [fault for instance in members for fault in _faults.get(instance, ())]
    for repair in repair_rules.due(group.record["nodeRepairConfig"], len(members), node_faults, group.repairs, moment):
        group.repairs[repair.instance] = repair.action
        if repair.action == "Replace":
            _replace(cluster, group, repair)
        else:
            _reboot(cluster, members[repair.instance])


def _replace(cluster: Cluster, group: NodeGroup, repair: Repair) -> None:
    """Terminate the instance; its Auto Scaling group launches a replacement. The realizer drains the node before the
    instance stops."""
    cause = f"in response to a repair of an EKS node: {repair.fault.reason}"
    for scaling in nodes.auto_scaling_groups(cluster, group):
        for state in [member for member in capacity.members(scaling) if member.instance_id == repair.instance]:
            capacity.start_termination(scaling, state, f"An instance was taken out of service {cause}.")
            capacity.reconcile(scaling, cause)
    _faults.pop(repair.instance, None)


class _Reboot:
    """A node that is being drained before its reboot."""

    phase = ""


def _reboot(cluster: Cluster, instance: Any) -> None:
    nodes.publish(cluster, instance, "draining", Force=True)

    def reboot() -> None:
        if instance.state == "running":
            instance_events.publish("rebooting", instance)
            nodes.publish(cluster, instance, "uncordoning")

    def gate() -> bool:
        return nodes.progress_of(cluster, instance).done

    node = _Reboot()
    failed = durations.fails_as(node, "phase", "failed")
    durations.schedule(node, "phase", "draining", "rebooted", "eks-node-drained", then=reboot, gate=gate, fail=failed)


def _clusters() -> Iterator[Cluster]:
    for regions in list(get_backend("eks").values()):
        for backend in list(regions.values()):
            yield from list(state_of(backend, Eks).clusters.values())


@on_reset
def _forget() -> None:
    _faults.clear()
