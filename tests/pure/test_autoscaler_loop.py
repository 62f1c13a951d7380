"""The autoscaler over time: it scales a pool 0 -> 2 -> 0, keeps needed nodes and gives up on failed launches."""

import ssl
from dataclasses import replace
from typing import Any

import pytest

from localcloud.kubernetes.autoscaler import kube
from localcloud.kubernetes.autoscaler.objects import Pod, Taint
from localcloud.kubernetes.autoscaler.scale_down import TO_BE_DELETED
from tests.pure.autoscaler_world import Scene, gpu_pod, group, node, pod, system

QUICK = ("--scale-down-unneeded-time=60s", "--scale-down-delay-after-add=30s")
SAFE = "cluster-autoscaler.kubernetes.io/safe-to-evict"


def running(name: str, of: str, number: int = 0, **spec: object):  # type: ignore[no-untyped-def]
    return gpu_pod(name, on=node(group(of), number), **spec)


def test_a_pool_goes_from_nothing_to_two_and_back_to_nothing() -> None:
    scene = Scene(group(), arguments=QUICK)
    scene.cluster.pods_ = [gpu_pod("worker-0"), gpu_pod("worker-1")]
    scene.look()
    assert scene.account.desired("train") == 2
    scene.look()
    assert scene.account.desired("train") == 2, "nodes that are starting must not be requested again"
    scene.boot("train")
    scene.cluster.pods_ = [running("worker-0", "train", 0), running("worker-1", "train", 1)]
    scene.look(3600)
    scene.look(3600)
    assert scene.account.terminated == [], "nodes with running pods must stay"
    scene.cluster.pods_ = []
    scene.look()
    scene.look(50)
    assert scene.account.terminated == [], "the scale-down-unneeded-time has not passed yet"
    scene.look(10)
    assert sorted(scene.account.terminated) == ["i-train-0", "i-train-1"]
    assert scene.account.desired("train") == 0


def test_what_happens_is_reported_to_the_pods() -> None:
    scene = Scene(group())
    scene.cluster.pods_ = [gpu_pod("worker-0"), gpu_pod("other", gpus=16)]
    scene.look()
    scene.look()
    assert scene.cluster.events == [
        ("worker-0", "TriggeredScaleUp", "pod triggered scale-up: [{train 0->1 (max: 4)}]"),
        ("other", "NotTriggerScaleUp", "pod didn't trigger scale-up: train: insufficient nvidia.com/gpu"),
    ]


def test_the_reason_is_reported_again_only_when_it_changes() -> None:
    scene = Scene(group(maximum=0))
    scene.cluster.pods_ = [gpu_pod()]
    for _ in range(3):
        scene.look()
    assert len(scene.cluster.events) == 1
    scene.account.groups_["train"] = group(tags={})
    scene.look()
    assert scene.cluster.events[-1][2] == "pod didn't trigger scale-up: no group has vpc.amazonaws.com/efa"


def test_the_minimum_stays() -> None:
    scene = Scene(group(desired=3, minimum=1), arguments=QUICK)
    scene.boot("train")
    scene.look()
    scene.look(100)
    assert len(scene.account.terminated) == 2 and scene.account.desired("train") == 1
    scene.look(100)
    assert len(scene.account.terminated) == 2


def test_a_node_that_is_needed_in_between_starts_again() -> None:
    scene = Scene(group(desired=1), arguments=QUICK)
    scene.boot("train")
    scene.look()
    scene.cluster.pods_ = [running("worker-0", "train")]
    scene.look(40)
    scene.cluster.pods_ = []
    scene.look(10)
    scene.look(30)
    assert scene.account.terminated == []
    scene.look(30)
    assert scene.account.terminated == ["i-train-0"]


def test_after_growth_nothing_shrinks_for_a_while() -> None:
    scene = Scene(group(), group("infer", desired=1), arguments=("--scale-down-unneeded-time=5s", *QUICK[1:]))
    scene.boot("infer")
    scene.cluster.pods_ = [gpu_pod()]
    scene.look()
    scene.look(20)
    assert scene.account.terminated == []
    scene.look(10)
    assert scene.account.terminated == ["i-infer-0"]


def test_scale_down_can_be_turned_off() -> None:
    scene = Scene(group(desired=1), arguments=(*QUICK, "--scale-down-enabled=false"))
    scene.boot("train")
    scene.look()
    scene.look(10_000)
    assert scene.account.terminated == []


def test_a_node_whose_devices_are_not_there_yet_is_not_taken_for_an_idle_one() -> None:
    scene = Scene(group(desired=1), arguments=QUICK)
    scene.boot("train")
    (booted,) = scene.cluster.nodes_
    labels = {**booted.labels, "k8s.amazonaws.com/accelerator": "nvidia-a100"}
    scene.cluster.nodes_ = [replace(booted, labels=labels, allocatable={"cpu": 8.0})]
    scene.look()
    scene.look(60)
    assert scene.account.terminated == []
    scene.cluster.nodes_ = [replace(booted, labels=labels)]
    scene.look()
    assert scene.account.terminated == ["i-train-0"]


def test_a_node_is_kept_for_the_pod_that_the_scheduler_will_put_there() -> None:
    scene = Scene(group(desired=2), arguments=QUICK)
    scene.boot("train")
    scene.cluster.pods_ = [gpu_pod()]
    scene.look()
    scene.look(60)
    assert len(scene.account.terminated) == 1
    scene.look(60)
    assert scene.account.desired("train") == 1


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_finished_pods_hold_no_node(phase: str) -> None:
    scene = Scene(group(desired=1), arguments=QUICK)
    scene.boot("train")
    scene.cluster.pods_ = [running("worker-0", "train", status={"phase": phase})]
    scene.look()
    scene.look(60)
    assert scene.account.terminated == ["i-train-0"]


def test_pods_of_daemon_sets_hold_no_node_unless_they_are_not_safe_to_evict() -> None:
    scene = Scene(group(desired=2), arguments=QUICK)
    scene.boot("train")
    agent = {"requests": {"cpu": "1"}, "owner": "DaemonSet"}
    first, second = (node(group(), number) for number in range(2))
    scene.cluster.pods_ = [pod("a", on=first, **agent), pod("b", on=second, annotations={SAFE: "false"}, **agent)]
    scene.look()
    scene.look(60)
    assert scene.account.terminated == ["i-train-0"]


def test_a_node_can_be_kept_by_its_annotation() -> None:
    scene = Scene(group(desired=1), arguments=QUICK)
    scene.boot("train")
    annotation = {"cluster-autoscaler.kubernetes.io/scale-down-disabled": "true"}
    scene.cluster.nodes_ = [replace(node, annotations=annotation) for node in scene.cluster.nodes_]
    scene.look()
    scene.look(10_000)
    assert scene.account.terminated == []


def test_a_pod_that_came_while_we_looked_keeps_its_node() -> None:
    scene = Scene(group(desired=1), arguments=QUICK)
    scene.boot("train")
    scene.look()
    late = running("worker-0", "train")
    pods = iter([[], [late]])
    scene.cluster.pods = lambda: next(pods)  # type: ignore[method-assign]
    scene.look(60)
    assert scene.account.terminated == []
    assert TO_BE_DELETED not in scene.cluster.taints_of("train-0")


# --- underused nodes


def little_used(**spec: object) -> Scene:
    """Return a scene with two system nodes, in which the pod on the second node would also fit on the first."""
    scene = Scene(system(desired=2), arguments=QUICK)
    scene.boot("system")
    first, second = (node(system(), number) for number in range(2))
    scene.cluster.pods_ = [
        pod("big", on=first, requests={"cpu": "1500m"}, owner="ReplicaSet"),
        pod("small", on=second, requests={"cpu": "300m"}, **({"owner": "ReplicaSet"} | spec)),
    ]
    return scene


def test_a_node_in_little_use_is_emptied_and_then_ended() -> None:
    scene = little_used()
    scene.look()
    scene.look(60)
    assert scene.cluster.evicted == ["jobs/small"]
    assert TO_BE_DELETED in scene.cluster.taints_of("system-1")
    assert scene.account.terminated == []
    scene.cluster.pods_ = scene.cluster.pods_[:1]
    scene.look()
    assert scene.account.terminated == ["i-system-1"]


@pytest.mark.parametrize(
    "spec",
    [
        {"annotations": {SAFE: "false"}},
        {"owner": None},
        {"owner": "MPIJob"},
        {"namespace": "kube-system"},
        {"volumes": [{"name": "scratch", "emptyDir": {}}]},
        {"nodeSelector": {"kubernetes.io/hostname": "system-1"}},
    ],
    ids=["not safe to evict", "no controller", "controller unknown", "of the system", "local storage", "no other place"],
)
def test_a_pod_that_cannot_go_elsewhere_keeps_its_node(spec: dict[str, object]) -> None:
    scene = little_used(**spec)
    scene.look()
    scene.look(10_000)
    assert scene.cluster.evicted == [] and scene.account.terminated == []


@pytest.mark.parametrize("spec", [{"owner": None}, {"namespace": "kube-system"}, {"volumes": [{"name": "x", "emptyDir": {}}]}])
def test_what_is_safe_to_evict_by_its_annotation_goes(spec: dict[str, object]) -> None:
    scene = little_used(annotations={SAFE: "true"}, **spec)
    scene.look()
    scene.look(60)
    assert scene.cluster.evicted == ["jobs/small"] or scene.cluster.evicted == ["kube-system/small"]


def test_a_drain_that_does_not_end_is_taken_back() -> None:
    scene = little_used()
    scene.look()
    scene.look(60)
    assert TO_BE_DELETED in scene.cluster.taints_of("system-1")
    scene.look(601)
    assert TO_BE_DELETED not in scene.cluster.taints_of("system-1")
    assert scene.account.terminated == []


# --- failures


def test_a_launch_that_fails_is_taken_back_and_the_group_rests() -> None:
    scene = Scene(group(), arguments=("--initial-node-group-backoff-duration=5m",))
    scene.cluster.pods_ = [gpu_pod()]
    scene.look()
    scene.account.failures["train"] = "InsufficientInstanceCapacity"
    scene.look()
    assert scene.account.desired("train") == 0
    assert "the last launch of an instance failed: InsufficientInstanceCapacity" in scene.cluster.events[-1][2]
    scene.look(100)
    assert scene.account.desired("train") == 0
    scene.account.failures.clear()
    scene.look(300)
    assert scene.account.desired("train") == 1


def test_an_instance_that_never_becomes_a_node_is_ended() -> None:
    scene = Scene(group(), arguments=("--max-node-provision-time=15m",))
    scene.cluster.pods_ = [gpu_pod()]
    scene.look()
    scene.account.launch("train")
    scene.look(800)
    assert scene.account.terminated == []
    scene.look(200)
    assert scene.account.terminated == ["i-train-0"] and scene.account.desired("train") == 0


def test_a_refusal_of_aws_is_reported_and_not_repeated_at_once() -> None:
    scene = Scene(group())
    scene.account.refusal = "AccessDenied"
    scene.cluster.pods_ = [gpu_pod()]
    scene.look()
    scene.look()
    assert scene.cluster.events == [
        ("worker-0", "NotTriggerScaleUp", "pod didn't trigger scale-up: train: AWS rejected the scale-up: AccessDenied")
    ]


def test_a_node_that_is_lost_is_replaced() -> None:
    scene = Scene(group(desired=1), arguments=("--max-node-provision-time=10m",))
    scene.boot("train")
    scene.cluster.nodes_ = [replace(node, is_ready=False) for node in scene.cluster.nodes_]
    scene.cluster.pods_ = [gpu_pod()]
    scene.look()
    assert scene.account.desired("train") == 1
    scene.look(601)
    assert scene.account.desired("train") == 2


def test_a_predecessors_taints_are_taken_off() -> None:
    scene = Scene(group(desired=1), arguments=QUICK)
    scene.boot("train")
    scene.cluster.taint("train-0", Taint(TO_BE_DELETED, "1", "NoSchedule"))
    scene.look()
    assert TO_BE_DELETED not in scene.cluster.taints_of("train-0")


def test_pods_of_very_low_priority_are_not_worth_a_node() -> None:
    scene = Scene(group())
    scene.cluster.pods_ = [gpu_pod(priority=-11)]
    scene.look()
    assert scene.account.desired("train") == 0
    scene.cluster.pods_ = [gpu_pod(priority=-10)]
    scene.look()
    assert scene.account.desired("train") == 1


def test_the_status_shows_each_group() -> None:
    scene = Scene(group(), system(desired=1))
    scene.boot("system")
    scene.cluster.pods_ = [gpu_pod()]
    scene.look()
    assert scene.cluster.status.splitlines() == [
        "unschedulable pods: 1",
        "train: 0 of 0 nodes ready (min 0, max 4), p5.48xlarge",
        "system: 1 of 1 nodes ready (min 1, max 3), m7i.large",
    ]


def new(name: str, scene: Scene, *, gpus: bool = True) -> Pod:
    """Return an unschedulable pod that was just created."""
    return replace(gpu_pod(name) if gpus else pod(name), created=scene.now)


def test_new_pods_with_gpus_wait_half_a_minute_for_more() -> None:
    """The delay starts when the oldest pod is created, as in the real autoscaler."""
    scene = Scene(group())
    scene.cluster.pods_ = [new("worker-0", scene)]
    scene.look(10)
    assert scene.account.desired("train") == 0
    scene.cluster.pods_ += [new("worker-1", scene)]
    scene.look(19)
    assert scene.account.desired("train") == 0 and scene.cluster.events == []
    scene.look(1)
    assert scene.account.desired("train") == 2, "one decision for both pods, 30 s after the first one was created"


def test_new_pods_without_gpus_wait_two_seconds() -> None:
    scene = Scene(system(desired=0))
    scene.cluster.pods_ = [new("web", scene, gpus=False)]
    scene.look(1)
    assert scene.account.desired("system") == 0
    scene.look(1)
    assert scene.account.desired("system") == 1


def test_no_node_goes_while_new_pods_wait() -> None:
    scene = Scene(group(), system(desired=2), arguments=QUICK)
    scene.boot("system")
    scene.look()
    scene.now += 60
    scene.cluster.pods_ = [new("worker-0", scene)]
    scene.look(20)
    assert scene.account.terminated == []
    scene.cluster.pods_ = []
    scene.look(1)
    assert len(scene.account.terminated) == 1


def test_a_shortened_delay_is_named_in_the_status() -> None:
    scene = Scene(group(), arguments=("--local-gpu-pod-delay=0s",))
    scene.cluster.pods_ = [new("worker-0", scene)]
    scene.look(2)
    assert scene.account.desired("train") == 1
    assert scene.cluster.status.startswith(
        "shortened: new pods with GPUs wait 0 s for more pods; the real autoscaler waits 30 s\n"
    )
    usual = Scene(group())
    usual.look()
    assert "shortened" not in usual.cluster.status


def test_objects_are_listed_from_the_api_servers_cache_as_informers_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a resource version, each list request (every ten seconds) would wait until the cache has caught up with
    etcd.
    """
    asked: list[str] = []

    def send(_: kube.ApiServer, method: str, path: str) -> Any:
        asked.append(f"{method} {path}")
        return {"items": []}

    monkeypatch.setattr(kube.ApiServer, "_send", send)
    server = kube.ApiServer(kube.Connection("https://127.0.0.1:1", ssl.create_default_context()))
    assert [*server.pods(), *server.nodes(), *server.daemons()] == []
    paths = ("/api/v1/pods", "/api/v1/nodes", "/apis/apps/v1/daemonsets")
    assert asked == [f"GET {path}?resourceVersion=0" for path in paths]
