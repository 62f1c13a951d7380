"""Node labels as on EKS: labels set by the kubelet at registration, and labels that only a controller may set.

NodeRestriction: https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#noderestriction
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from infra.naming import EMULATED_LABEL
from localcloud.kubernetes.nodes.machine import Machine

SIMULATED_TAINT = "gpumpi.dev/simulated"
NODE_GROUP_LABEL = "eks.amazonaws.com/nodegroup"
TEMPLATE_LABEL = "eks.amazonaws.com/sourceLaunchTemplateId"
_EFFECTS = {"NO_SCHEDULE": "NoSchedule", "NO_EXECUTE": "NoExecute", "PREFER_NO_SCHEDULE": "PreferNoSchedule"}
_ARCHITECTURES = {"x86_64": "amd64", "arm64": "arm64"}


@dataclass(frozen=True)
class Taint:
    """A Kubernetes taint."""

    key: str
    value: str
    effect: str

    @classmethod
    def parse(cls, text: str) -> "Taint":
        """
        >>> Taint.parse("nvidia.com/gpu=true:NoSchedule")
        Taint(key='nvidia.com/gpu', value='true', effect='NoSchedule')
        """
        rest, _, effect = text.rpartition(":")
        key, _, value = rest.partition("=")
        return cls(key, value, effect)

    @classmethod
    def from_node_group(cls, shown: Mapping[str, Any]) -> "Taint":
        """Convert a taint from DescribeNodegroup."""
        return cls(shown["key"], shown.get("value", ""), _EFFECTS[shown["effect"]])

    def to_object(self) -> dict[str, str]:
        return {"key": self.key, "value": self.value, "effect": self.effect}


SIMULATED = Taint(SIMULATED_TAINT, "true", "NoSchedule")
"""Taint of simulated nodes. Only benchmark pods tolerate it."""


def build_registration_labels(machine: Machine) -> dict[str, str]:
    """Return the labels that the kubelet sets at registration: labels from user data, plus instance type and location.
    Another label marks nodes with devices, which are always emulated.

    On EKS, the cloud controller adds the location labels shortly after registration. In the local cloud, the kubelet
    sets the location labels, which NodeRestriction allows.
    """
    return {
        **machine.user_data.labels,
        **({EMULATED_LABEL: "true"} if machine.devices else {}),
        "node.kubernetes.io/instance-type": machine.type.name,
        "topology.kubernetes.io/region": machine.region,
        "topology.kubernetes.io/zone": machine.zone,
        "beta.kubernetes.io/instance-type": machine.type.name,
        "failure-domain.beta.kubernetes.io/region": machine.region,
        "failure-domain.beta.kubernetes.io/zone": machine.zone,
    }


def build_controller_labels(machine: Machine, node_group: Mapping[str, Any] | None) -> dict[str, str]:
    """Return the labels that EKS and the cloud controller set. `node_group` is the node group as DescribeNodegroup
    returns it."""
    group = node_group or {}
    labels = {"topology.k8s.aws/zone-id": machine.zone_id, NODE_GROUP_LABEL: machine.node_group}
    template = group.get("launchTemplate")
    if template and TEMPLATE_LABEL not in machine.user_data.labels:  # with a custom AMI, EKS adds no labels to the user data
        labels[TEMPLATE_LABEL] = template["id"]
        labels["eks.amazonaws.com/sourceLaunchTemplateVersion"] = template["version"]
    return labels | dict(group.get("labels") or {})


def build_simulated_labels(machine: Machine, node_group: Mapping[str, Any] | None) -> dict[str, str]:
    """Return all labels of a simulated node, including those that a kubelet sets, such as kubernetes.io/hostname."""
    architecture = _ARCHITECTURES[machine.type.architecture]
    return {
        "kubernetes.io/hostname": machine.name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": architecture,
        "beta.kubernetes.io/os": "linux",
        "beta.kubernetes.io/arch": architecture,
        **build_registration_labels(machine),
        **build_controller_labels(machine, node_group),
        SIMULATED_TAINT: "true",
    }


def parse_taints(machine: Machine) -> tuple[Taint, ...]:
    return tuple(Taint.parse(text) for text in machine.user_data.taints)


@dataclass(frozen=True)
class Change:
    """Changes to make to nodes after an update of their node group's labels or taints."""

    labels: Mapping[str, str | None]
    """New value of each label. None removes the label."""
    taints: Sequence[Taint]
    """The node group's new taints."""
    replaced: frozenset[tuple[str, str]]
    """Keys and effects of the node group's old taints, which are removed."""

    def apply_to_taints(self, present: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Return the node's taints after the change. Taints from other sources are kept."""
        new = [taint.to_object() for taint in self.taints]
        ours = self.replaced | {(taint.key, taint.effect) for taint in self.taints}
        return [dict(taint) for taint in present if (taint["key"], taint["effect"]) not in ours] + new


def compute_change(before: Mapping[str, Any], after: Mapping[str, Any]) -> Change | None:
    """Return the changes that a node group update makes to the group's running nodes; None if there are none."""
    old_labels, new_labels = dict(before.get("labels") or {}), dict(after.get("labels") or {})
    old_taints = tuple(Taint.from_node_group(taint) for taint in before.get("taints") or ())
    new_taints = tuple(Taint.from_node_group(taint) for taint in after.get("taints") or ())
    if old_labels == new_labels and old_taints == new_taints:
        return None
    labels: dict[str, str | None] = dict.fromkeys(old_labels.keys() - new_labels.keys())
    return Change(labels | new_labels, new_taints, frozenset((taint.key, taint.effect) for taint in old_taints))
