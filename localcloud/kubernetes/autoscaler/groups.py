"""Auto Scaling groups, and the template of a group's next node, built from the group's tags and instance type.

https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/cloudprovider/aws/README.md#auto-discovery-setup
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from localcloud.kubernetes.autoscaler import quantities
from localcloud.kubernetes.autoscaler.objects import HOSTNAME, Node, Taint
from localcloud.kubernetes.autoscaler.quantities import Amounts

TEMPLATE = "k8s.io/cluster-autoscaler/node-template"
ACCELERATOR_LABEL = "k8s.amazonaws.com/accelerator"
GPU = "nvidia.com/gpu"
_NODE_GROUP_TAG, _NODE_GROUP_LABEL = "eks:nodegroup-name", "eks.amazonaws.com/nodegroup"
_MOST_PODS = 110


@dataclass(frozen=True)
class InstanceType:
    """Instance type as described by EC2."""

    name: str
    cpus: int
    memory_mib: int
    gpus: int
    architecture: str = "amd64"

    @property
    def resource_amounts(self) -> Amounts:
        """Resources that EC2 reports: CPUs, memory, GPUs. Other resources must be declared in the group's tags."""
        gpus = {GPU: self.gpus * 1000} if self.gpus else {}
        return {"cpu": self.cpus * 1000, "memory": self.memory_mib * 1024**2 * 1000, "pods": _MOST_PODS * 1000, **gpus}


@dataclass(frozen=True)
class Group:
    name: str
    minimum: int
    maximum: int
    desired: int
    instance_type: InstanceType
    tags: Mapping[str, str] = field(default_factory=dict)
    instances: frozenset[str] = frozenset()
    """IDs of the group's instances, except instances that are terminating or detaching."""
    region: str = ""
    zones: tuple[str, ...] = ()

    @property
    def free_node_count(self) -> int:
        """Number of nodes that can be added before the group reaches its maximum size."""
        return max(0, self.maximum - self.desired)

    @property
    def template(self) -> Node:
        """Template of the next node that the group would add."""
        return Node(
            name=f"template-of-{self.name}",
            labels=self._build_labels(),
            taints=tuple(_parse_taint(key, text) for key, text in self._read_tags("taint").items()),
            allocatable={**self.instance_type.resource_amounts, **quantities.parse_quantities(self._read_tags("resources"))},
        )

    def _build_labels(self) -> dict[str, str]:
        kind = self.instance_type
        labels = {
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": kind.architecture,
            "node.kubernetes.io/instance-type": kind.name,
            "topology.kubernetes.io/region": self.region,
            "topology.kubernetes.io/zone": self.zones[0] if self.zones else "",
            HOSTNAME: f"template-of-{self.name}",
        }
        if _NODE_GROUP_TAG in self.tags:
            labels[_NODE_GROUP_LABEL] = self.tags[_NODE_GROUP_TAG]
        return {**labels, **self._read_tags("label")}

    def _read_tags(self, kind: str) -> dict[str, str]:
        prefix = f"{TEMPLATE}/{kind}/"
        return {key.removeprefix(prefix): value for key, value in self.tags.items() if key.startswith(prefix)}


def has_all_device_resources(node: Node, group: Group) -> bool:
    """True if a node already has all device resources in its group's template.

    A node with the accelerator label is incomplete until its device plugins register. A node without the label always
    counts as complete. As with the real autoscaler, the group of a node without the label could grow again before the
    node's plugins register.
    """
    if ACCELERATOR_LABEL not in node.labels:
        return True
    return all(node.allocatable.get(name, 0) for name in group.template.allocatable if "/" in name)


def _parse_taint(key: str, text: str) -> Taint:
    """Parse `value:Effect`."""
    value, _, effect = text.rpartition(":")
    return Taint(key, value, effect)
