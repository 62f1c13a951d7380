"""Nodes, pods and groups for autoscaler tests, with an in-memory cluster and cloud."""

from dataclasses import dataclass, field, replace
from typing import Any

from localcloud.kubernetes.autoscaler import flags, objects
from localcloud.kubernetes.autoscaler.cloud import AwsRefused
from localcloud.kubernetes.autoscaler.groups import Group, InstanceType
from localcloud.kubernetes.autoscaler.loop import Loop
from localcloud.kubernetes.autoscaler.objects import Node, Pod, Taint

P5 = InstanceType("p5.48xlarge", cpus=192, memory_mib=2048 * 1024, gpus=8)
M7I = InstanceType("m7i.large", cpus=2, memory_mib=8192, gpus=0)
GPU, EFA = "nvidia.com/gpu", "vpc.amazonaws.com/efa"
GPU_TAINT = {"key": GPU, "value": "true", "effect": "NoSchedule"}
TOLERATION = {"key": GPU, "operator": "Exists", "effect": "NoSchedule"}
TEMPLATE = "k8s.io/cluster-autoscaler/node-template"
POOL = "gpumpi.io/pool"


def make_gpu_tags(pool: str = "train") -> dict[str, str]:
    """Return tags like those from infra.naming.autoscaler_tags."""
    return {
        f"{TEMPLATE}/label/{POOL}": pool,
        f"{TEMPLATE}/label/k8s.amazonaws.com/accelerator": "nvidia-h100",
        f"{TEMPLATE}/taint/{GPU}": "true:NoSchedule",
        f"{TEMPLATE}/resources/{EFA}": "32",
        f"{TEMPLATE}/resources/hugepages-2Mi": "10256Mi",
    }


def make_group(name: str = "train", desired: int = 0, maximum: int = 4, **settings: Any) -> Group:
    defaults: dict[str, Any] = {"minimum": 0, "instance_type": P5, "tags": make_gpu_tags(name), "region": "us-west-2"}
    defaults |= {"zones": ("us-west-2a",), "instances": frozenset(f"i-{name}-{n}" for n in range(desired))}
    return Group(name=name, desired=desired, maximum=maximum, **(defaults | settings))


def make_system_group(desired: int = 1) -> Group:
    return make_group("system", desired, 3, minimum=1, instance_type=M7I, tags={f"{TEMPLATE}/label/{POOL}": "system"})


def make_node(of: Group, number: int = 0, **settings: Any) -> Node:
    """Return the node of one of the group's instances."""
    template = of.template
    created = replace(template, name=f"{of.name}-{number}", instance_id=f"i-{of.name}-{number}")
    created = replace(created, labels={**template.labels, "kubernetes.io/hostname": created.name})
    return replace(created, **settings)


def make_pod(name: str = "worker-0", *, on: Node | None = None, requests: dict[str, str] | None = None, **spec: Any) -> Pod:
    """Return a pod that runs on the given node, or a pending pod that the scheduler could not place."""
    metadata: dict[str, Any] = {"namespace": spec.pop("namespace", "jobs"), "name": name, "uid": f"uid-{name}"}
    for key in ("labels", "annotations"):
        metadata[key] = spec.pop(key, {})
    owner = spec.pop("owner", "Job")
    if owner:
        metadata["ownerReferences"] = [{"kind": owner, "name": "x", "controller": True}]
    status: dict[str, Any] = spec.pop("status", {"phase": "Running"} if on else None) or {
        "phase": "Pending",
        "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}],
    }
    container = {"name": "main", "resources": {"requests": requests or {"cpu": "1"}}}
    raw = {"metadata": metadata, "spec": {"containers": [container], **spec}, "status": status}
    if on is not None:
        raw["spec"]["nodeName"] = on.name
    return objects.parse_pod(raw)


def make_gpu_pod(name: str = "worker-0", gpus: int = 8, efa: int = 32, **spec: Any) -> Pod:
    amounts = {"cpu": "8", "memory": "100Gi", GPU: str(gpus), **({EFA: str(efa)} if efa else {})}
    return make_pod(name, requests=amounts, **({"nodeSelector": {POOL: "train"}, "tolerations": [TOLERATION]} | spec))


@dataclass
class Cluster:
    """In-memory API server: its objects and the requests it received."""

    nodes_: list[Node] = field(default_factory=list)
    pods_: list[Pod] = field(default_factory=list)
    daemons_: list[Pod] = field(default_factory=list)
    events: list[tuple[str, str, str]] = field(default_factory=list)
    evicted: list[str] = field(default_factory=list)
    status: str = ""

    def nodes(self) -> list[Node]:
        return list(self.nodes_)

    def pods(self) -> list[Pod]:
        return list(self.pods_)

    def daemons(self) -> list[Pod]:
        return list(self.daemons_)

    def taint(self, name: str, taint: Taint) -> None:
        self._change_taints(name, lambda taints: (*taints, taint))

    def untaint(self, name: str, key: str) -> None:
        self._change_taints(name, lambda taints: tuple(taint for taint in taints if taint.key != key))

    def evict(self, pod: Pod) -> None:
        self.evicted.append(pod.full_name)

    def record_event(self, pod: Pod, reason: str, message: str, kind: str = "Normal") -> None:
        self.events.append((pod.name, reason, message))

    def show(self, status: str) -> None:
        self.status = status

    def list_taint_keys(self, name: str) -> list[str]:
        return [taint.key for node in self.nodes_ if node.name == name for taint in node.taints]

    def _change_taints(self, name: str, change: Any) -> None:
        self.nodes_ = [replace(node, taints=change(node.taints)) if node.name == name else node for node in self.nodes_]


@dataclass
class Account:
    """In-memory Auto Scaling groups; `launch` adds the instances of a resized group."""

    groups_: dict[str, Group] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    refusal: str = ""
    terminated: list[str] = field(default_factory=list)

    def groups(self) -> list[Group]:
        return list(self.groups_.values())

    def resize(self, group: Group, size: int) -> None:
        if self.refusal:
            raise AwsRefused(self.refusal)
        self.groups_[group.name] = replace(self.groups_[group.name], desired=size)

    def terminate(self, instance_id: str) -> None:
        self.terminated.append(instance_id)
        for name, group in self.groups_.items():
            if instance_id in group.instances:
                self.groups_[name] = replace(group, desired=group.desired - 1, instances=group.instances - {instance_id})

    def find_launch_failure(self, group: Group, since: float) -> str:
        return self.failures.get(group.name, "")

    def launch_instances(self, name: str, count: int | None = None) -> None:
        group = self.groups_[name]
        ids = frozenset(f"i-{name}-{n}" for n in range(group.desired if count is None else count))
        self.groups_[name] = replace(group, instances=ids)

    def read_desired_size(self, name: str) -> int:
        return self.groups_[name].desired


class Scene:
    """An autoscaler loop over an in-memory cluster and cloud, with a clock that only the test advances."""

    def __init__(self, *groups: Group, arguments: tuple[str, ...] = ()) -> None:
        self.now = 10_000.0
        self.cluster, self.account = Cluster(), Account({group.name: group for group in groups})
        options = flags.parse(["--node-group-auto-discovery=asg:tag=x", *arguments])
        self.loop = Loop(self.cluster, self.account, options, lambda: self.now)

    def advance_and_run(self, later: float = 10.0) -> None:
        self.now += later
        self.loop.run_once()

    def boot_nodes(self, name: str) -> None:
        """Launch the group's instances and register them as nodes."""
        self.account.launch_instances(name)
        group = self.account.groups_[name]
        rest = [node for node in self.cluster.nodes_ if not node.name.startswith(f"{name}-")]
        self.cluster.nodes_ = [*rest, *(make_node(group, number) for number in range(group.desired))]
