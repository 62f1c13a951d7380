"""The autoscaler over time: it scales a pool 0 -> 2 -> 0, keeps needed nodes and gives up on failed launches."""

import ssl
from dataclasses import replace
from typing import Any

import pytest

from localcloud.kubernetes.autoscaler import kube
from localcloud.kubernetes.autoscaler.objects import Pod, Taint
from localcloud.kubernetes.autoscaler.scale_down import TO_BE_DELETED
from tests.pure.autoscaler_world import Scene, make_gpu_pod, make_group, make_node, make_pod, make_system_group

QUICK = ("--scale-down-unneeded-time=60s", "--scale-down-delay-after-add=30s")
SAFE = "cluster-autoscaler.kubernetes.io/safe-to-evict"


def make_running_pod(name: str, of: str, number: int = 0, **spec: object):  # type: ignore[no-untyped-def]
    return make_gpu_pod(name, on=make_node(make_group(of), number), **spec)


def test_pool_scales_from_zero_to_two_and_back_to_zero() -> None:
    scene = Scene(make_group(), arguments=QUICK)
    scene.cluster.pods_ = [make_gpu_pod("worker-0"), make_gpu_pod("worker-1")]
    scene.advance_and_run()
    assert scene.account.read_desired_size("train") == 2
    scene.advance_and_run()
    assert scene.account.read_desired_size("train") == 2, "nodes that are starting must not be requested again"
    scene.boot_nodes("train")
    scene.cluster.pods_ = [make_running_pod("worker-0", "train", 0), make_running_pod("worker-1", "train", 1)]
    scene.advance_and_run(3600)
    scene.advance_and_run(3600)
    assert scene.account.terminated == [], "nodes with running pods must stay"
    scene.cluster.pods_ = []
    scene.advance_and_run()
    scene.advance_and_run(50)
    assert scene.account.terminated == [], "the scale-down-unneeded-time has not passed yet"
    scene.advance_and_run(10)
    assert sorted(scene.account.terminated) == ["i-train-0", "i-train-1"]
    assert scene.account.read_desired_size("train") == 0


def test_scaling_events_are_reported_on_pods() -> None:
    scene = Scene(make_group())
    scene.cluster.pods_ = [make_gpu_pod("worker-0"), make_gpu_pod("other", gpus=16)]
    scene.advance_and_run()
    scene.advance_and_run()
    assert scene.cluster.events == [
        ("worker-0", "TriggeredScaleUp", "pod triggered scale-up: [{train 0->1 (max: 4)}]"),
        ("other", "NotTriggerScaleUp", "pod didn't trigger scale-up: train: insufficient nvidia.com/gpu"),
    ]


def test_pending_reason_is_reported_again_only_when_it_changes() -> None:
    scene = Scene(make_group(maximum=0))
    scene.cluster.pods_ = [make_gpu_pod()]
    for _ in range(3):
        scene.advance_and_run()
    assert len(scene.cluster.events) == 1
    scene.account.groups_["train"] = make_group(tags={})
    scene.advance_and_run()
    assert scene.cluster.events[-1][2] == "pod didn't trigger scale-up: no group has vpc.amazonaws.com/efa"


def test_scale_down_stops_at_minimum_size() -> None:
    scene = Scene(make_group(desired=3, minimum=1), arguments=QUICK)
    scene.boot_nodes("train")
    scene.advance_and_run()
    scene.advance_and_run(100)
    assert len(scene.account.terminated) == 2 and scene.account.read_desired_size("train") == 1
    scene.advance_and_run(100)
    assert len(scene.account.terminated) == 2


def test_using_a_node_again_resets_its_unneeded_timer() -> None:
    scene = Scene(make_group(desired=1), arguments=QUICK)
    scene.boot_nodes("train")
    scene.advance_and_run()
    scene.cluster.pods_ = [make_running_pod("worker-0", "train")]
    scene.advance_and_run(40)
    scene.cluster.pods_ = []
    scene.advance_and_run(10)
    scene.advance_and_run(30)
    assert scene.account.terminated == []
    scene.advance_and_run(30)
    assert scene.account.terminated == ["i-train-0"]


def test_scale_down_is_delayed_after_scale_up() -> None:
    scene = Scene(make_group(), make_group("infer", desired=1), arguments=("--scale-down-unneeded-time=5s", *QUICK[1:]))
    scene.boot_nodes("infer")
    scene.cluster.pods_ = [make_gpu_pod()]
    scene.advance_and_run()
    scene.advance_and_run(20)
    assert scene.account.terminated == []
    scene.advance_and_run(10)
    assert scene.account.terminated == ["i-infer-0"]


def test_scale_down_can_be_turned_off() -> None:
    scene = Scene(make_group(desired=1), arguments=(*QUICK, "--scale-down-enabled=false"))
    scene.boot_nodes("train")
    scene.advance_and_run()
    scene.advance_and_run(10_000)
    assert scene.account.terminated == []


def test_node_with_unregistered_devices_is_not_idle() -> None:
    scene = Scene(make_group(desired=1), arguments=QUICK)
    scene.boot_nodes("train")
    (booted,) = scene.cluster.nodes_
    labels = {**booted.labels, "k8s.amazonaws.com/accelerator": "nvidia-a100"}
    scene.cluster.nodes_ = [replace(booted, labels=labels, allocatable={"cpu": 8.0})]
    scene.advance_and_run()
    scene.advance_and_run(60)
    assert scene.account.terminated == []
    scene.cluster.nodes_ = [replace(booted, labels=labels)]
    scene.advance_and_run()
    assert scene.account.terminated == ["i-train-0"]


def test_node_is_kept_for_a_pending_pod_that_fits_there() -> None:
    scene = Scene(make_group(desired=2), arguments=QUICK)
    scene.boot_nodes("train")
    scene.cluster.pods_ = [make_gpu_pod()]
    scene.advance_and_run()
    scene.advance_and_run(60)
    assert len(scene.account.terminated) == 1
    scene.advance_and_run(60)
    assert scene.account.read_desired_size("train") == 1


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_finished_pods_do_not_block_scale_down(phase: str) -> None:
    scene = Scene(make_group(desired=1), arguments=QUICK)
    scene.boot_nodes("train")
    scene.cluster.pods_ = [make_running_pod("worker-0", "train", status={"phase": phase})]
    scene.advance_and_run()
    scene.advance_and_run(60)
    assert scene.account.terminated == ["i-train-0"]


def test_daemon_set_pods_block_scale_down_only_if_unsafe_to_evict() -> None:
    scene = Scene(make_group(desired=2), arguments=QUICK)
    scene.boot_nodes("train")
    agent = {"requests": {"cpu": "1"}, "owner": "DaemonSet"}
    first, second = (make_node(make_group(), number) for number in range(2))
    scene.cluster.pods_ = [make_pod("a", on=first, **agent), make_pod("b", on=second, annotations={SAFE: "false"}, **agent)]
    scene.advance_and_run()
    scene.advance_and_run(60)
    assert scene.account.terminated == ["i-train-0"]


def test_annotation_protects_node_from_scale_down() -> None:
    scene = Scene(make_group(desired=1), arguments=QUICK)
    scene.boot_nodes("train")
    annotation = {"cluster-autoscaler.kubernetes.io/scale-down-disabled": "true"}
    scene.cluster.nodes_ = [replace(node, annotations=annotation) for node in scene.cluster.nodes_]
    scene.advance_and_run()
    scene.advance_and_run(10_000)
    assert scene.account.terminated == []


def test_pod_scheduled_during_scale_down_check_keeps_its_node() -> None:
    scene = Scene(make_group(desired=1), arguments=QUICK)
    scene.boot_nodes("train")
    scene.advance_and_run()
    late = make_running_pod("worker-0", "train")
    pods = iter([[], [late]])
    scene.cluster.pods = lambda: next(pods)  # type: ignore[method-assign]
    scene.advance_and_run(60)
    assert scene.account.terminated == []
    assert TO_BE_DELETED not in scene.cluster.list_taint_keys("train-0")


# --- underused nodes


def make_underused_scene(**spec: object) -> Scene:
    """Return a scene with two system nodes, in which the pod on the second node would also fit on the first."""
    scene = Scene(make_system_group(desired=2), arguments=QUICK)
    scene.boot_nodes("system")
    first, second = (make_node(make_system_group(), number) for number in range(2))
    scene.cluster.pods_ = [
        make_pod("big", on=first, requests={"cpu": "1500m"}, owner="ReplicaSet"),
        make_pod("small", on=second, requests={"cpu": "300m"}, **({"owner": "ReplicaSet"} | spec)),
    ]
    return scene


def test_underused_node_is_drained_then_terminated() -> None:
    scene = make_underused_scene()
    scene.advance_and_run()
    scene.advance_and_run(60)
    assert scene.cluster.evicted == ["jobs/small"]
    assert TO_BE_DELETED in scene.cluster.list_taint_keys("system-1")
    assert scene.account.terminated == []
    scene.cluster.pods_ = scene.cluster.pods_[:1]
    scene.advance_and_run()
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
def test_pod_that_fits_nowhere_else_keeps_its_node(spec: dict[str, object]) -> None:
    scene = make_underused_scene(**spec)
    scene.advance_and_run()
    scene.advance_and_run(10_000)
    assert scene.cluster.evicted == [] and scene.account.terminated == []


@pytest.mark.parametrize("spec", [{"owner": None}, {"namespace": "kube-system"}, {"volumes": [{"name": "x", "emptyDir": {}}]}])
def test_pod_with_safe_to_evict_annotation_is_evicted(spec: dict[str, object]) -> None:
    scene = make_underused_scene(annotations={SAFE: "true"}, **spec)
    scene.advance_and_run()
    scene.advance_and_run(60)
    assert scene.cluster.evicted == ["jobs/small"] or scene.cluster.evicted == ["kube-system/small"]


def test_drain_that_never_finishes_is_undone() -> None:
    scene = make_underused_scene()
    scene.advance_and_run()
    scene.advance_and_run(60)
    assert TO_BE_DELETED in scene.cluster.list_taint_keys("system-1")
    scene.advance_and_run(601)
    assert TO_BE_DELETED not in scene.cluster.list_taint_keys("system-1")
    assert scene.account.terminated == []


# --- failures


def test_failed_launch_is_undone_and_group_backs_off() -> None:
    scene = Scene(make_group(), arguments=("--initial-node-group-backoff-duration=5m",))
    scene.cluster.pods_ = [make_gpu_pod()]
    scene.advance_and_run()
    scene.account.failures["train"] = "InsufficientInstanceCapacity"
    scene.advance_and_run()
    assert scene.account.read_desired_size("train") == 0
    assert "the last launch of an instance failed: InsufficientInstanceCapacity" in scene.cluster.events[-1][2]
    scene.advance_and_run(100)
    assert scene.account.read_desired_size("train") == 0
    scene.account.failures.clear()
    scene.advance_and_run(300)
    assert scene.account.read_desired_size("train") == 1


def test_instance_that_never_becomes_a_node_is_terminated() -> None:
    scene = Scene(make_group(), arguments=("--max-node-provision-time=15m",))
    scene.cluster.pods_ = [make_gpu_pod()]
    scene.advance_and_run()
    scene.account.launch_instances("train")
    scene.advance_and_run(800)
    assert scene.account.terminated == []
    scene.advance_and_run(200)
    assert scene.account.terminated == ["i-train-0"] and scene.account.read_desired_size("train") == 0


def test_aws_error_is_reported_and_not_retried_at_once() -> None:
    scene = Scene(make_group())
    scene.account.refusal = "AccessDenied"
    scene.cluster.pods_ = [make_gpu_pod()]
    scene.advance_and_run()
    scene.advance_and_run()
    assert scene.cluster.events == [
        ("worker-0", "NotTriggerScaleUp", "pod didn't trigger scale-up: train: AWS rejected the scale-up: AccessDenied")
    ]


def test_lost_node_is_replaced() -> None:
    scene = Scene(make_group(desired=1), arguments=("--max-node-provision-time=10m",))
    scene.boot_nodes("train")
    scene.cluster.nodes_ = [replace(node, is_ready=False) for node in scene.cluster.nodes_]
    scene.cluster.pods_ = [make_gpu_pod()]
    scene.advance_and_run()
    assert scene.account.read_desired_size("train") == 1
    scene.advance_and_run(601)
    assert scene.account.read_desired_size("train") == 2


def test_leftover_deletion_taints_are_removed() -> None:
    scene = Scene(make_group(desired=1), arguments=QUICK)
    scene.boot_nodes("train")
    scene.cluster.taint("train-0", Taint(TO_BE_DELETED, "1", "NoSchedule"))
    scene.advance_and_run()
    assert TO_BE_DELETED not in scene.cluster.list_taint_keys("train-0")


def test_pods_of_very_low_priority_trigger_no_scale_up() -> None:
    scene = Scene(make_group())
    scene.cluster.pods_ = [make_gpu_pod(priority=-11)]
    scene.advance_and_run()
    assert scene.account.read_desired_size("train") == 0
    scene.cluster.pods_ = [make_gpu_pod(priority=-10)]
    scene.advance_and_run()
    assert scene.account.read_desired_size("train") == 1


def test_the_status_shows_each_group() -> None:
    scene = Scene(make_group(), make_system_group(desired=1))
    scene.boot_nodes("system")
    scene.cluster.pods_ = [make_gpu_pod()]
    scene.advance_and_run()
    assert scene.cluster.status.splitlines() == [
        "unschedulable pods: 1",
        "train: 0 of 0 nodes ready (min 0, max 4), p5.48xlarge",
        "system: 1 of 1 nodes ready (min 1, max 3), m7i.large",
    ]


def make_new_pod(name: str, scene: Scene, *, gpus: bool = True) -> Pod:
    """Return an unschedulable pod that was just created."""
    return replace(make_gpu_pod(name) if gpus else make_pod(name), created=scene.now)


def test_new_gpu_pods_delay_scale_up_by_thirty_seconds() -> None:
    """The delay starts when the oldest pod is created, as in the real autoscaler."""
    scene = Scene(make_group())
    scene.cluster.pods_ = [make_new_pod("worker-0", scene)]
    scene.advance_and_run(10)
    assert scene.account.read_desired_size("train") == 0
    scene.cluster.pods_ += [make_new_pod("worker-1", scene)]
    scene.advance_and_run(19)
    assert scene.account.read_desired_size("train") == 0 and scene.cluster.events == []
    scene.advance_and_run(1)
    assert scene.account.read_desired_size("train") == 2, "one decision for both pods, 30 s after the first one was created"


def test_new_cpu_pods_delay_scale_up_by_two_seconds() -> None:
    scene = Scene(make_system_group(desired=0))
    scene.cluster.pods_ = [make_new_pod("web", scene, gpus=False)]
    scene.advance_and_run(1)
    assert scene.account.read_desired_size("system") == 0
    scene.advance_and_run(1)
    assert scene.account.read_desired_size("system") == 1


def test_no_scale_down_while_new_pods_wait() -> None:
    scene = Scene(make_group(), make_system_group(desired=2), arguments=QUICK)
    scene.boot_nodes("system")
    scene.advance_and_run()
    scene.now += 60
    scene.cluster.pods_ = [make_new_pod("worker-0", scene)]
    scene.advance_and_run(20)
    assert scene.account.terminated == []
    scene.cluster.pods_ = []
    scene.advance_and_run(1)
    assert len(scene.account.terminated) == 1


def test_status_shows_shortened_scale_up_delay() -> None:
    scene = Scene(make_group(), arguments=("--local-gpu-pod-delay=0s",))
    scene.cluster.pods_ = [make_new_pod("worker-0", scene)]
    scene.advance_and_run(2)
    assert scene.account.read_desired_size("train") == 1
    assert scene.cluster.status.startswith(
        "shortened: new pods with GPUs wait 0 s for more pods; the real autoscaler waits 30 s\n"
    )
    usual = Scene(make_group())
    usual.advance_and_run()
    assert "shortened" not in usual.cluster.status


def test_objects_are_listed_from_api_server_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a resource version, each list request (every ten seconds) would wait until the cache has caught up with
    etcd.
    """
    asked: list[str] = []

    def record_request(_: kube.ApiServer, method: str, path: str) -> Any:
        asked.append(f"{method} {path}")
        return {"items": []}

    monkeypatch.setattr(kube.ApiServer, "_send_request", record_request)
    server = kube.ApiServer(kube.Connection("https://127.0.0.1:1", ssl.create_default_context()))
    assert [*server.pods(), *server.nodes(), *server.daemons()] == []
    paths = ("/api/v1/pods", "/api/v1/nodes", "/apis/apps/v1/daemonsets")
    assert asked == [f"GET {path}?resourceVersion=0" for path in paths]
