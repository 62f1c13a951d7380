"""Scale-up plans: how many nodes pending pods need, in which group, and why a pod stays pending."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from localcloud.kubernetes import node_templates
from localcloud.kubernetes.autoscaler import scale_up
from localcloud.kubernetes.autoscaler.groups import Group
from localcloud.kubernetes.autoscaler.objects import Pod
from localcloud.kubernetes.nodes.labels import SIMULATED
from tests.pure.autoscaler_world import (
    EFA,
    GPU,
    POOL,
    TEMPLATE,
    TOLERATION,
    gpu_pod,
    gpu_tags,
    group,
    node,
    pod,
    system,
)


def without(tag: str) -> dict[str, str]:
    tags = gpu_tags()
    del tags[f"{TEMPLATE}/{tag}"]
    return tags


def reasons(plan: scale_up.Plan) -> dict[str, str]:
    return {pod.name: reason for pod, reason in plan.hopeless}


def test_two_workers_that_fill_a_node_each_need_two_nodes_of_an_empty_group() -> None:
    plan = scale_up.plan([gpu_pod("worker-0"), gpu_pod("worker-1")], [], [group()])
    assert plan.increases == {"train": 2}
    assert {pod.name for pod in plan.helped["train"]} == {"worker-0", "worker-1"}
    assert not plan.hopeless


def test_small_pods_share_a_node() -> None:
    plan = scale_up.plan([gpu_pod(f"worker-{n}", gpus=2, efa=0) for n in range(4)], [], [group()])
    assert plan.increases == {"train": 1}


def test_a_group_never_grows_past_its_maximum() -> None:
    plan = scale_up.plan([gpu_pod(f"worker-{n}") for n in range(3)], [], [group(maximum=2)])
    assert plan.increases == {"train": 2}
    plan = scale_up.plan([gpu_pod()], [node(group(desired=2), n) for n in range(2)], [group(desired=2, maximum=2)])
    full = [gpu_pod("old-0", on=node(group(), 0)), gpu_pod("old-1", on=node(group(), 1))]
    busy = [node(group(desired=2), n) for n in range(2)]
    plan = scale_up.plan([gpu_pod(), *full], busy, [group(desired=2, maximum=2)])
    assert not plan.increases
    assert reasons(plan) == {"worker-0": "train: already at its maximum size of 2"}


@pytest.mark.parametrize(
    ("tag", "expected"),
    [
        (f"resources/{EFA}", f"no group has {EFA}"),
        (f"label/{POOL}", f"train: no label {POOL}=train"),
    ],
)
def test_a_pod_stays_pending_when_its_groups_tag_is_missing(tag: str, expected: str) -> None:
    plan = scale_up.plan([gpu_pod()], [], [group(tags=without(tag))])
    assert not plan.increases
    assert reasons(plan) == {"worker-0": expected}


def test_hugepages_too_come_from_a_tag() -> None:
    amounts = {GPU: "8", "hugepages-2Mi": "5120Mi", "cpu": "1"}
    asking = pod(requests=amounts, nodeSelector={POOL: "train"}, tolerations=[TOLERATION])
    assert scale_up.plan([asking], [], [group()]).increases == {"train": 1}
    plan = scale_up.plan([asking], [], [group(tags=without("resources/hugepages-2Mi"))])
    assert reasons(plan) == {"worker-0": "no group has hugepages-2Mi"}


def test_a_pod_that_does_not_tolerate_the_taint_of_the_tags_stays_pending() -> None:
    plan = scale_up.plan([gpu_pod(tolerations=[])], [], [group()])
    assert reasons(plan) == {"worker-0": f"train: untolerated taint {{{GPU}: true}}"}


def test_without_the_taint_tag_the_group_grows_for_a_pod_that_its_nodes_will_refuse() -> None:
    """The autoscaler trusts the tags, so they must be correct."""
    intruder = gpu_pod(tolerations=[])
    wrong = group(tags=without(f"taint/{GPU}"))
    assert scale_up.plan([intruder], [], [wrong]).increases == {"train": 1}
    real = [node(group(desired=1), 0)]
    plan = scale_up.plan([intruder], real, [replace(wrong, desired=1, maximum=1, instances=frozenset({"i-train-0"}))])
    assert not plan.increases and plan.hopeless


def test_every_group_is_named_with_its_own_reason() -> None:
    plan = scale_up.plan([gpu_pod(gpus=9, efa=0)], [], [group(), system()])
    assert reasons(plan) == {
        "worker-0": f"train: insufficient {GPU}; system: insufficient cpu, insufficient memory, no {GPU}, no label {POOL}=train"
    }


def test_no_group_at_all_is_reported_as_a_matter_of_tags() -> None:
    assert reasons(scale_up.plan([gpu_pod()], [], [])) == {
        "worker-0": "no Auto Scaling group has the tags given in --node-group-auto-discovery"
    }


# --- existing nodes and nodes that are starting


def test_nodes_that_are_coming_are_not_asked_for_again() -> None:
    pending = [gpu_pod("worker-0"), gpu_pod("worker-1")]
    assert not scale_up.plan(pending, [], [group(desired=2)]).increases
    assert scale_up.plan([*pending, gpu_pod("worker-2")], [], [group(desired=2)]).increases == {"train": 1}


def test_a_node_that_is_not_ready_yet_is_coming() -> None:
    starting = [node(group(desired=1), 0, is_ready=False)]
    assert not scale_up.plan([gpu_pod()], starting, [group(desired=1)]).increases


def test_a_lost_node_is_not_waited_for() -> None:
    dead = [node(group(desired=1), 0, is_ready=False)]
    assert scale_up.plan([gpu_pod()], dead, [group(desired=1)], lost=["train-0"]).increases == {"train": 1}


@pytest.mark.parametrize(("label", "increases"), [(True, {}), (False, {"train": 1})])
def test_a_node_whose_device_plugin_has_not_registered_is_waited_for_if_it_has_the_accelerator_label(
    label: bool, increases: dict[str, int]
) -> None:
    """The README of the real autoscaler's AWS provider describes this behavior for GPU instances.

    https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/cloudprovider/aws/README.md
    """
    tags = gpu_tags() if label else without("label/k8s.amazonaws.com/accelerator")
    there = group(desired=1, tags=tags)
    young = node(there, 0)
    bare = {name: amount for name, amount in young.allocatable.items() if "/" not in name}
    assert scale_up.plan([gpu_pod()], [replace(young, allocatable=bare)], [there]).increases == increases


def test_a_pod_that_a_node_has_room_for_is_left_to_the_scheduler() -> None:
    ready = [node(group(desired=1), 0)]
    plan = scale_up.plan([gpu_pod(gpus=4, efa=0)], ready, [group(desired=1)])
    assert not plan.increases and not plan.hopeless


def test_running_pods_take_their_room_and_finished_ones_give_it_back() -> None:
    ready = node(group(desired=1), 0)
    running = gpu_pod("old", on=ready)
    assert scale_up.plan([gpu_pod(), running], [ready], [group(desired=1)]).increases == {"train": 1}
    done = gpu_pod("old", on=ready, status={"phase": "Succeeded"})
    assert not scale_up.plan([gpu_pod(), done], [ready], [group(desired=1)]).increases


def test_cordoned_nodes_take_nothing() -> None:
    ready = [node(group(desired=1), 0, is_cordoned=True)]
    assert scale_up.plan([gpu_pod()], ready, [group(desired=1)]).increases == {"train": 1}


@pytest.mark.parametrize(
    "status",
    [
        {"phase": "Pending"},
        {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]},
        {"phase": "Pending", "nominatedNodeName": "n", "conditions": [{"type": "PodScheduled", "status": "False"}]},
    ],
    ids=["not tried yet", "gated", "nominated"],
)
def test_only_pods_that_the_scheduler_could_not_place_count(status: dict[str, Any]) -> None:
    assert not scale_up.plan([gpu_pod(status=status)], [], [group()]).increases


# --- choice of a group, and overhead on a new node


def test_with_least_waste_the_smaller_node_that_fits_is_chosen() -> None:
    small = pod(requests={"cpu": "1", "memory": "1Gi"}, tolerations=[TOLERATION])
    plan = scale_up.plan([small], [], [group(), system(desired=0)], expander="least-waste")
    assert plan.increases == {"system": 1}


def test_with_most_pods_the_group_that_helps_more_is_chosen() -> None:
    pods = [pod(f"p{n}", requests={"cpu": "2", "memory": "1Gi"}, tolerations=[TOLERATION]) for n in range(6)]
    plan = scale_up.plan(pods, [], [system(desired=0), group()], expander="most-pods")
    assert plan.increases == {"train": 1}


def test_several_groups_grow_at_once_for_pods_of_several_pools() -> None:
    pods = [gpu_pod(), gpu_pod("other-0", nodeSelector={POOL: "infer"})]
    assert scale_up.plan(pods, [], [group(), group("infer")]).increases == {"train": 1, "infer": 1}


def test_daemon_sets_take_their_share_of_a_new_node() -> None:
    agent = pod("agent", owner="DaemonSet", requests={"cpu": "500m"}, status={"phase": "Running"})
    whole = pod(requests={"cpu": "2"})
    assert scale_up.plan([whole], [], [system(desired=0)]).increases == {"system": 1}
    assert not scale_up.plan([whole], [], [system(desired=0)], [agent]).increases


def test_daemon_sets_for_other_nodes_take_nothing() -> None:
    elsewhere = pod("agent", owner="DaemonSet", requests={"cpu": "500m"}, nodeSelector={"x": "y"}, status={"phase": "Running"})
    assert scale_up.plan([pod(requests={"cpu": "2"})], [], [system(desired=0)], [elsewhere]).increases == {"system": 1}


def test_pods_that_keep_apart_need_a_host_each() -> None:
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"job": "a"}}}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    pods = [gpu_pod(f"w{n}", gpus=1, efa=0, labels={"job": "a"}, affinity=affinity) for n in range(3)]
    assert scale_up.plan(pods, [], [group()]).increases == {"train": 3}


def test_a_paused_group_does_not_grow_and_says_why() -> None:
    plan = scale_up.plan([gpu_pod()], [], [group()], paused={"train": "it rests"})
    assert not plan.increases
    assert reasons(plan) == {"worker-0": "train: it rests"}


# --- node affinity


def affine(*expressions: dict[str, Any]) -> Pod:
    required = {"nodeSelectorTerms": [{"matchExpressions": [expression]} for expression in expressions]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    return gpu_pod(nodeSelector={}, affinity=affinity)


@pytest.mark.parametrize(
    ("expression", "fits"),
    [
        ({"key": POOL, "operator": "In", "values": ["a", "train"]}, True),
        ({"key": POOL, "operator": "NotIn", "values": ["train"]}, False),
        ({"key": "k8s.amazonaws.com/accelerator", "operator": "Exists"}, True),
        ({"key": "k8s.amazonaws.com/accelerator", "operator": "DoesNotExist"}, False),
        ({"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["us-west-2b"]}, False),
        ({"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["p5.48xlarge"]}, True),
        ({"key": POOL, "operator": "Gt", "values": ["1"]}, False),
    ],
)
def test_required_node_affinity_is_compared_with_what_the_tags_say(expression: dict[str, Any], fits: bool) -> None:
    assert bool(scale_up.plan([affine(expression)], [], [group()]).increases) == fits


def test_one_of_several_terms_is_enough() -> None:
    no = {"key": POOL, "operator": "In", "values": ["other"]}
    yes = {"key": POOL, "operator": "In", "values": ["train"]}
    assert scale_up.plan([affine(no, yes)], [], [group()]).increases == {"train": 1}


@pytest.mark.parametrize(
    ("toleration", "fits"),
    [
        ({"operator": "Exists"}, True),
        ({"key": GPU, "operator": "Exists"}, True),
        ({"key": GPU, "value": "true"}, True),
        ({"key": GPU, "value": "false"}, False),
        ({"key": GPU, "operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "other", "operator": "Exists"}, False),
    ],
)
def test_tolerations_are_read_as_the_scheduler_reads_them(toleration: dict[str, Any], fits: bool) -> None:
    assert bool(scale_up.plan([gpu_pod(tolerations=[toleration])], [], [group()]).increases) == fits


def test_the_tags_that_the_program_writes_are_understood() -> None:
    from infra.naming import GPU_TAINT, autoscaler_tags, pool_labels

    labels = pool_labels("train", accelerator="nvidia-h100", efa=True)
    tags = autoscaler_tags("gpumpi-x", labels=labels, taints=(GPU_TAINT,), resources={EFA: "32", "hugepages-2Mi": "10256Mi"})
    template = Group("g", 0, 4, 0, group().instance_type, tags).template
    assert template.labels.items() >= labels.items()
    assert [str(taint) for taint in template.taints] == [f"{{{GPU}: true}}"]
    assert template.allocatable[EFA] == 32_000
    assert scale_up.plan([gpu_pod()], [], [group(tags=tags)]).increases == {"train": 1}


def test_a_group_whose_next_node_would_be_simulated_grows_only_for_pods_that_tolerate_it(monkeypatch: pytest.MonkeyPatch) -> None:
    tagged = SimpleNamespace(name="asg", tags=[{"Key": f"{TEMPLATE}/label/{POOL}", "Value": "train"}])
    clusters = {"c": SimpleNamespace(node_groups={"train": SimpleNamespace(types=["p5.48xlarge"])})}
    monkeypatch.setattr(node_templates, "backend_of", lambda *_: None)
    monkeypatch.setattr(node_templates, "state_of", lambda *_: SimpleNamespace(clusters=clusters))
    monkeypatch.setattr(node_templates.nodes, "auto_scaling_groups", lambda *_: [tagged])

    def increases(pod: Pod, gpu_nodes: bool) -> dict[str, int]:
        node_templates.update("1", "us-west-2", "c", lambda kind: kind == "gpu" and gpu_nodes)
        tags = gpu_tags() | {tag["Key"]: tag["Value"] for tag in tagged.tags}
        return dict(scale_up.plan([pod], [], [group(tags=tags)]).increases)

    tolerant = gpu_pod(tolerations=[TOLERATION, {"key": SIMULATED.key, "operator": "Exists"}])
    assert [increases(pod, False) for pod in (gpu_pod(), tolerant)] == [{}, {"train": 1}]
    assert increases(gpu_pod(), True) == {"train": 1}, "a node was removed, and so was the tag"
    assert len(tagged.tags) == 1
