"""The labels of a node as on EKS: those it is born with, and those that only a controller may set.

NodeRestriction: https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#noderestriction
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from localcloud.kubernetes.nodes.machine import Machine

SIMULATED_TAINT = "gpumpi.dev/simulated"
NODE_GROUP_LABEL = "eks.amazonaws.com/nodegroup"
TEMPLATE_LABEL = "eks.amazonaws.com/sourceLaunchTemplateId"
_EFFECTS = {"NO_SCHEDULE": "NoSchedule", "NO_EXECUTE": "NoExecute", "PREFER_NO_SCHEDULE": "PreferNoSchedule"}
_ARCHITECTURES = {"x86_64": "amd64", "arm64": "arm64"}


@dataclass(frozen=True)
class Taint:
    """A taint as Kubernetes has it."""

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
    def of_node_group(cls, shown: Mapping[str, Any]) -> "Taint":
        """As DescribeNodegroup shows it."""
        return cls(shown["key"], shown.get("value", ""), _EFFECTS[shown["effect"]])

    def as_object(self) -> dict[str, str]:
        return {"key": self.key, "value": self.value, "effect": self.effect}


SIMULATED = Taint(SIMULATED_TAINT, "true", "NoSchedule")
"""Keeps everything away from nodes that only pretend to run pods, but for benches."""


def at_birth(machine: Machine) -> dict[str, str]:
    """What the kubelet registers with: the boot text's, and where the instance is.

    On EKS the cloud controller adds the latter a moment later; NodeRestriction lets a kubelet set them itself.
    """
    return {
        **machine.boot.labels,
        "node.kubernetes.io/instance-type": machine.type.name,
        "topology.kubernetes.io/region": machine.region,
        "topology.kubernetes.io/zone": machine.zone,
        "beta.kubernetes.io/instance-type": machine.type.name,
        "failure-domain.beta.kubernetes.io/region": machine.region,
        "failure-domain.beta.kubernetes.io/zone": machine.zone,
    }


def of_controllers(machine: Machine, node_group: Mapping[str, Any] | None) -> dict[str, str]:
    """What EKS and the cloud controller set with rights of their own; the node group as DescribeNodegroup shows it."""
    group = node_group or {}
    labels = {"topology.k8s.aws/zone-id": machine.zone_id, NODE_GROUP_LABEL: machine.node_group}
    template = group.get("launchTemplate")
    if template and TEMPLATE_LABEL not in machine.boot.labels:  # an image of one's own: EKS adds nothing to its boot text
        labels[TEMPLATE_LABEL] = template["id"]
        labels["eks.amazonaws.com/sourceLaunchTemplateVersion"] = template["version"]
    return labels | dict(group.get("labels") or {})


def of_simulated(machine: Machine, node_group: Mapping[str, Any] | None) -> dict[str, str]:
    """All at once, where no kubelet is: kubernetes.io/hostname and the like, too."""
    architecture = _ARCHITECTURES[machine.type.architecture]
    return {
        "kubernetes.io/hostname": machine.name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": architecture,
        "beta.kubernetes.io/os": "linux",
        "beta.kubernetes.io/arch": architecture,
        **at_birth(machine),
        **of_controllers(machine, node_group),
        SIMULATED_TAINT: "true",
    }


def taints_of(machine: Machine) -> tuple[Taint, ...]:
    return tuple(Taint.parse(text) for text in machine.boot.taints)


@dataclass(frozen=True)
class Change:
    """What an update of a node group's labels and taints does to its nodes."""

    labels: Mapping[str, str | None]
    """None removes."""
    taints: Sequence[Taint]
    """Those of the node group, in place of `replaced`."""
    replaced: frozenset[tuple[str, str]]
    """Key and effect of taints that go."""

    def taints_after(self, present: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """The node's taints with the change: others' stay."""
        new = [taint.as_object() for taint in self.taints]
        ours = self.replaced | {(taint.key, taint.effect) for taint in self.taints}
        return [dict(taint) for taint in present if (taint["key"], taint["effect"]) not in ours] + new


def change(before: Mapping[str, Any], after: Mapping[str, Any]) -> Change | None:
    """What to do on nodes that run when a node group changed; None when nothing of it concerns them."""
    old_labels, new_labels = dict(before.get("labels") or {}), dict(after.get("labels") or {})
    old_taints = tuple(Taint.of_node_group(taint) for taint in before.get("taints") or ())
    new_taints = tuple(Taint.of_node_group(taint) for taint in after.get("taints") or ())
    if old_labels == new_labels and old_taints == new_taints:
        return None
    labels: dict[str, str | None] = dict.fromkeys(old_labels.keys() - new_labels.keys())
    return Change(labels | new_labels, new_taints, frozenset((taint.key, taint.effect) for taint in old_taints))
