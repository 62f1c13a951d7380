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
    make_gpu_pod,
    make_gpu_tags,
    make_group,
    make_node,
    make_pod,
    make_system_group,
)


def remove_template_tag(tag: str) -> dict[str, str]:
    tags = make_gpu_tags()
    del tags[f"{TEMPLATE}/{tag}"]
    return tags


def list_reasons_by_pod(plan: scale_up.Plan) -> dict[str, str]:
    return {pod.name: reason for pod, reason in plan.hopeless}


def test_two_workers_that_each_fill_a_node_add_two_nodes_to_empty_group() -> None:
    plan = scale_up.plan_scale_up([make_gpu_pod("worker-0"), make_gpu_pod("worker-1")], [], [make_group()])
    assert plan.increases == {"train": 2}
    assert {pod.name for pod in plan.helped["train"]} == {"worker-0", "worker-1"}
    assert not plan.hopeless


def test_small_pods_share_a_node() -> None:
    plan = scale_up.plan_scale_up([make_gpu_pod(f"worker-{n}", gpus=2, efa=0) for n in range(4)], [], [make_group()])
    assert plan.increases == {"train": 1}


def test_group_never_grows_past_its_maximum_size() -> None:
    plan = scale_up.plan_scale_up([make_gpu_pod(f"worker-{n}") for n in range(3)], [], [make_group(maximum=2)])
    assert plan.increases == {"train": 2}
    plan = scale_up.plan_scale_up(
        [make_gpu_pod()], [make_node(make_group(desired=2), n) for n in range(2)], [make_group(desired=2, maximum=2)]
    )
    full = [make_gpu_pod("old-0", on=make_node(make_group(), 0)), make_gpu_pod("old-1", on=make_node(make_group(), 1))]
    busy = [make_node(make_group(desired=2), n) for n in range(2)]
    plan = scale_up.plan_scale_up([make_gpu_pod(), *full], busy, [make_group(desired=2, maximum=2)])
    assert not plan.increases
    assert list_reasons_by_pod(plan) == {"worker-0": "train: already at its maximum size of 2"}


@pytest.mark.parametrize(
    ("tag", "expected"),
    [
        (f"resources/{EFA}", f"no group has {EFA}"),
        (f"label/{POOL}", f"train: no label {POOL}=train"),
    ],
)
def test_pod_stays_pending_without_the_tag_of_its_group(tag: str, expected: str) -> None:
    plan = scale_up.plan_scale_up([make_gpu_pod()], [], [make_group(tags=remove_template_tag(tag))])
    assert not plan.increases
    assert list_reasons_by_pod(plan) == {"worker-0": expected}


def test_hugepages_resource_tag_is_required_for_scale_up() -> None:
    amounts = {GPU: "8", "hugepages-2Mi": "5120Mi", "cpu": "1"}
    asking = make_pod(requests=amounts, nodeSelector={POOL: "train"}, tolerations=[TOLERATION])
    assert scale_up.plan_scale_up([asking], [], [make_group()]).increases == {"train": 1}
    plan = scale_up.plan_scale_up([asking], [], [make_group(tags=remove_template_tag("resources/hugepages-2Mi"))])
    assert list_reasons_by_pod(plan) == {"worker-0": "no group has hugepages-2Mi"}


def test_pod_without_toleration_for_tagged_taint_stays_pending() -> None:
    plan = scale_up.plan_scale_up([make_gpu_pod(tolerations=[])], [], [make_group()])
    assert list_reasons_by_pod(plan) == {"worker-0": f"train: untolerated taint {{{GPU}: true}}"}


def test_missing_taint_tag_scales_up_for_pod_that_new_nodes_will_reject() -> None:
    """The autoscaler trusts the tags, so they must be correct."""
    intruder = make_gpu_pod(tolerations=[])
    wrong = make_group(tags=remove_template_tag(f"taint/{GPU}"))
    assert scale_up.plan_scale_up([intruder], [], [wrong]).increases == {"train": 1}
    real = [make_node(make_group(desired=1), 0)]
    plan = scale_up.plan_scale_up([intruder], real, [replace(wrong, desired=1, maximum=1, instances=frozenset({"i-train-0"}))])
    assert not plan.increases and plan.hopeless


def test_pending_reason_names_every_group_with_its_own_cause() -> None:
    plan = scale_up.plan_scale_up([make_gpu_pod(gpus=9, efa=0)], [], [make_group(), make_system_group()])
    assert list_reasons_by_pod(plan) == {
        "worker-0": f"train: insufficient {GPU}; system: insufficient cpu, insufficient memory, no {GPU}, no label {POOL}=train"
    }


def test_reason_names_missing_discovery_tags_if_no_group_matches() -> None:
    assert list_reasons_by_pod(scale_up.plan_scale_up([make_gpu_pod()], [], [])) == {
        "worker-0": "no Auto Scaling group has the tags given in --node-group-auto-discovery"
    }


# --- existing nodes and nodes that are starting


def test_nodes_being_launched_are_not_requested_again() -> None:
    pending = [make_gpu_pod("worker-0"), make_gpu_pod("worker-1")]
    assert not scale_up.plan_scale_up(pending, [], [make_group(desired=2)]).increases
    assert scale_up.plan_scale_up([*pending, make_gpu_pod("worker-2")], [], [make_group(desired=2)]).increases == {"train": 1}


def test_unready_new_node_counts_as_upcoming() -> None:
    starting = [make_node(make_group(desired=1), 0, is_ready=False)]
    assert not scale_up.plan_scale_up([make_gpu_pod()], starting, [make_group(desired=1)]).increases


def test_lost_node_does_not_count_as_upcoming() -> None:
    dead = [make_node(make_group(desired=1), 0, is_ready=False)]
    assert scale_up.plan_scale_up([make_gpu_pod()], dead, [make_group(desired=1)], lost=["train-0"]).increases == {"train": 1}


@pytest.mark.parametrize(("label", "increases"), [(True, {}), (False, {"train": 1})])
def test_node_awaiting_device_plugin_counts_as_upcoming_if_labeled_with_accelerator(
    label: bool, increases: dict[str, int]
) -> None:
    """The README of the real autoscaler's AWS provider describes this behavior for GPU instances.

    https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/cloudprovider/aws/README.md
    """
    tags = make_gpu_tags() if label else remove_template_tag("label/k8s.amazonaws.com/accelerator")
    there = make_group(desired=1, tags=tags)
    young = make_node(there, 0)
    bare = {name: amount for name, amount in young.allocatable.items() if "/" not in name}
    assert scale_up.plan_scale_up([make_gpu_pod()], [replace(young, allocatable=bare)], [there]).increases == increases


def test_no_scale_up_for_pod_that_fits_on_existing_node() -> None:
    ready = [make_node(make_group(desired=1), 0)]
    plan = scale_up.plan_scale_up([make_gpu_pod(gpus=4, efa=0)], ready, [make_group(desired=1)])
    assert not plan.increases and not plan.hopeless


def test_running_pods_use_node_capacity_and_finished_pods_free_it() -> None:
    ready = make_node(make_group(desired=1), 0)
    running = make_gpu_pod("old", on=ready)
    assert scale_up.plan_scale_up([make_gpu_pod(), running], [ready], [make_group(desired=1)]).increases == {"train": 1}
    done = make_gpu_pod("old", on=ready, status={"phase": "Succeeded"})
    assert not scale_up.plan_scale_up([make_gpu_pod(), done], [ready], [make_group(desired=1)]).increases


def test_cordoned_nodes_offer_no_capacity() -> None:
    ready = [make_node(make_group(desired=1), 0, is_cordoned=True)]
    assert scale_up.plan_scale_up([make_gpu_pod()], ready, [make_group(desired=1)]).increases == {"train": 1}


@pytest.mark.parametrize(
    "status",
    [
        {"phase": "Pending"},
        {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]},
        {"phase": "Pending", "nominatedNodeName": "n", "conditions": [{"type": "PodScheduled", "status": "False"}]},
    ],
    ids=["not tried yet", "gated", "nominated"],
)
def test_only_unschedulable_pods_trigger_scale_up(status: dict[str, Any]) -> None:
    assert not scale_up.plan_scale_up([make_gpu_pod(status=status)], [], [make_group()]).increases


# --- choice of a group, and overhead on a new node


def test_least_waste_expander_chooses_smallest_node_that_fits() -> None:
    small = make_pod(requests={"cpu": "1", "memory": "1Gi"}, tolerations=[TOLERATION])
    plan = scale_up.plan_scale_up([small], [], [make_group(), make_system_group(desired=0)], expander="least-waste")
    assert plan.increases == {"system": 1}


def test_most_pods_expander_chooses_group_that_fits_more_pods() -> None:
    pods = [make_pod(f"p{n}", requests={"cpu": "2", "memory": "1Gi"}, tolerations=[TOLERATION]) for n in range(6)]
    plan = scale_up.plan_scale_up(pods, [], [make_system_group(desired=0), make_group()], expander="most-pods")
    assert plan.increases == {"train": 1}


def test_pods_of_several_pools_scale_up_several_groups_at_once() -> None:
    pods = [make_gpu_pod(), make_gpu_pod("other-0", nodeSelector={POOL: "infer"})]
    assert scale_up.plan_scale_up(pods, [], [make_group(), make_group("infer")]).increases == {"train": 1, "infer": 1}


def test_daemon_sets_reduce_capacity_of_a_new_node() -> None:
    agent = make_pod("agent", owner="DaemonSet", requests={"cpu": "500m"}, status={"phase": "Running"})
    whole = make_pod(requests={"cpu": "2"})
    assert scale_up.plan_scale_up([whole], [], [make_system_group(desired=0)]).increases == {"system": 1}
    assert not scale_up.plan_scale_up([whole], [], [make_system_group(desired=0)], [agent]).increases


def test_daemon_sets_for_other_nodes_use_no_capacity() -> None:
    elsewhere = make_pod(
        "agent", owner="DaemonSet", requests={"cpu": "500m"}, nodeSelector={"x": "y"}, status={"phase": "Running"}
    )
    assert scale_up.plan_scale_up(
        [make_pod(requests={"cpu": "2"})], [], [make_system_group(desired=0)], [elsewhere]
    ).increases == {"system": 1}


def test_pods_with_anti_affinity_need_separate_nodes() -> None:
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"job": "a"}}}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    pods = [make_gpu_pod(f"w{n}", gpus=1, efa=0, labels={"job": "a"}, affinity=affinity) for n in range(3)]
    assert scale_up.plan_scale_up(pods, [], [make_group()]).increases == {"train": 3}


def test_paused_group_does_not_grow_and_reports_the_reason() -> None:
    plan = scale_up.plan_scale_up([make_gpu_pod()], [], [make_group()], paused={"train": "it rests"})
    assert not plan.increases
    assert list_reasons_by_pod(plan) == {"worker-0": "train: it rests"}


# --- node affinity


def make_affine_pod(*expressions: dict[str, Any]) -> Pod:
    required = {"nodeSelectorTerms": [{"matchExpressions": [expression]} for expression in expressions]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    return make_gpu_pod(nodeSelector={}, affinity=affinity)


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
def test_required_node_affinity_is_matched_against_tags(expression: dict[str, Any], fits: bool) -> None:
    assert bool(scale_up.plan_scale_up([make_affine_pod(expression)], [], [make_group()]).increases) == fits


def test_one_matching_affinity_term_is_enough() -> None:
    no = {"key": POOL, "operator": "In", "values": ["other"]}
    yes = {"key": POOL, "operator": "In", "values": ["train"]}
    assert scale_up.plan_scale_up([make_affine_pod(no, yes)], [], [make_group()]).increases == {"train": 1}


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
def test_tolerations_match_as_in_scheduler(toleration: dict[str, Any], fits: bool) -> None:
    assert bool(scale_up.plan_scale_up([make_gpu_pod(tolerations=[toleration])], [], [make_group()]).increases) == fits


def test_autoscaler_parses_tags_written_by_infra() -> None:
    from infra.naming import GPU_TAINT, build_autoscaler_tags, build_pool_labels

    labels = build_pool_labels("train", accelerator="nvidia-h100", efa=True)
    tags = build_autoscaler_tags(
        "gpumpi-x", labels=labels, taints=(GPU_TAINT,), resources={EFA: "32", "hugepages-2Mi": "10256Mi"}
    )
    template = Group("g", 0, 4, 0, make_group().instance_type, tags).template
    assert template.labels.items() >= labels.items()
    assert [str(taint) for taint in template.taints] == [f"{{{GPU}: true}}"]
    assert template.allocatable[EFA] == 32_000
    assert scale_up.plan_scale_up([make_gpu_pod()], [], [make_group(tags=tags)]).increases == {"train": 1}


def test_group_of_simulated_nodes_grows_only_for_pods_that_tolerate_simulation(monkeypatch: pytest.MonkeyPatch) -> None:
    tagged = SimpleNamespace(name="asg", tags=[{"Key": f"{TEMPLATE}/label/{POOL}", "Value": "train"}])
    clusters = {"c": SimpleNamespace(node_groups={"train": SimpleNamespace(types=["p5.48xlarge"])})}
    monkeypatch.setattr(node_templates, "backend_of", lambda *_: None)
    monkeypatch.setattr(node_templates, "get_state", lambda *_: SimpleNamespace(clusters=clusters))
    monkeypatch.setattr(node_templates.nodes, "list_auto_scaling_groups", lambda *_: [tagged])

    def plan_increases(pod: Pod, gpu_nodes: bool) -> dict[str, int]:
        node_templates.update_template_tags("1", "us-west-2", "c", lambda kind: kind == "gpu" and gpu_nodes)
        tags = make_gpu_tags() | {tag["Key"]: tag["Value"] for tag in tagged.tags}
        return dict(scale_up.plan_scale_up([pod], [], [make_group(tags=tags)]).increases)

    tolerant = make_gpu_pod(tolerations=[TOLERATION, {"key": SIMULATED.key, "operator": "Exists"}])
    assert [plan_increases(pod, False) for pod in (make_gpu_pod(), tolerant)] == [{}, {"train": 1}]
    assert plan_increases(make_gpu_pod(), True) == {"train": 1}, "a node was removed, and so was the tag"
    assert len(tagged.tags) == 1
