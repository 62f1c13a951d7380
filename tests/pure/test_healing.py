"""Node healing: the job controller's writes and changes are correct, even if it is killed at any moment."""

import copy
import json
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infra.health import brake, journal
from infra.health.healing import Policy
from infra.naming import TAKEN_OUT_ANNOTATION
from infra.platform.job_controller.in_pod.actions import DeletePod
from infra.platform.job_controller.in_pod.job import explain_cut_off_pod
from infra.platform.job_controller.in_pod.nodes import end_leaving_pods, end_stranded_pods, read_policy
from infra.platform.job_controller.in_pod.trims import trim_node
from tests.pure.controlled_jobs import Controlled, make_job, make_launcher, make_main_object, make_pod, make_workers
from tests.pure.healed_cluster import BUS, POLICY, START, WINDOW, Cluster, Killed, make_node

EXISTING = Policy(POLICY.pools, existing=True)
APPLICATION = "NvidiaXID31Error"


def test_controller_drains_repairs_verifies_and_uncordons_a_broken_node() -> None:
    cluster = Cluster(2)
    controller = cluster.make_controller()
    cluster.break_node("n0")
    states = []
    for busy, repaired, seconds in ((True, False, 1), (True, False, 1), (False, False, 1), (False, True, 1), (False, True, 40)):
        if repaired:
            cluster.repair_node("n0")
        cluster.now += timedelta(seconds=seconds)
        cluster.run_round(controller, busy=["n0"] if busy else [])
        states.append((cluster.state("n0"), bool(cluster.nodes["n0"]["spec"].get("unschedulable"))))
    assert [*dict.fromkeys(states)] == [("draining", True), ("repairing", True), ("verifying", True), ("healthy", False)]
    (entry,) = cluster.journal_entries
    assert [step["state"] for step in entry["steps"]] == ["draining", "repairing", "verifying", "healthy"]
    assert (entry["instance"], entry["reason"], entry["action"]) == ("i-n0", BUS, "replace")


@pytest.mark.parametrize("reason", [f"NvidiaXID{xid}Error" for xid in (13, 31, 43, 45, 94)])
def test_application_error_leaves_nodes_unchanged(reason: str) -> None:
    cluster = Cluster(3)
    cluster.break_node("n0", reason)
    cluster.run_round()
    assert cluster.cordoned == [] and cluster.config_map is None


def test_new_fault_or_missing_gpu_during_verification_keeps_node_out_of_service() -> None:
    cluster = Cluster(1)
    cluster.break_node("n0")
    cluster.run_round()
    cluster.run_round()
    cluster.repair_node("n0")
    cluster.nodes["n0"]["status"]["allocatable"] = {"nvidia.com/gpu": "7"}
    cluster.run_round()
    assert cluster.state("n0") == "repairing"
    cluster.repair_node("n0")
    cluster.run_round()
    assert cluster.state("n0") == "verifying"
    cluster.break_node("n0")
    cluster.now += timedelta(minutes=5)
    cluster.run_round()
    assert (cluster.state("n0"), len(cluster.cordoned)) == ("repairing", 1)


def test_silent_node_stays_out_of_service_until_its_kubelet_has_ended_deleted_pods() -> None:
    cluster = Cluster(2)
    controller = cluster.make_controller()
    cluster.silent = {"n0": START.isoformat()}
    cluster.run_round(controller, busy=["n0"], grace=90)
    cluster.run_round(controller)
    cluster.silent = {}
    cluster.run_round(controller)
    states = []
    for _ in range(5):
        states.append(cluster.state("n0"))
        cluster.now += timedelta(seconds=30)
        cluster.run_round(controller)
    assert states == ["verifying"] * 4 + ["healthy"], "30 seconds of verification, and 90 of the pods' grace period"


def test_jobs_stay_on_a_cordoned_node_of_an_existing_cluster() -> None:
    cluster = Cluster(2)
    cluster.break_node("n0")
    cluster.run_round(busy=["n0"], policy=EXISTING)
    here = make_job(make_main_object(), make_workers())
    here.nodes["one"]["spec"] = {}
    assert cluster.nodes["n0"]["spec"]["unschedulable"] and cluster.state("n0") == "draining"
    cordoned = {**cluster.nodes["n0"], "metadata": {**cluster.nodes["n0"]["metadata"], "name": "one"}}
    assert end_leaving_pods([cordoned], [here]) == []


def test_job_leaves_a_broken_node_at_once_without_counting_a_failure() -> None:
    cluster, loop = Cluster(3), Controlled()
    cluster.break_node("n0")
    cluster.run_round()
    out = {**cluster.nodes["n0"], "metadata": {**cluster.nodes["n0"]["metadata"], "name": "one"}}
    running = make_job(make_main_object("torchrun"), make_workers())
    loop.run_round(running, 20)
    broken = make_job(make_main_object("torchrun"), make_workers())
    assert isinstance(broken.nodes, dict)
    broken.nodes["one"] = out
    assert [pod.name for pod in end_leaving_pods([out], [broken]) if hasattr(pod, "name")] == ["train-worker-0"]
    ended = loop.run_round(broken, 30)
    assert len(ended) == 2, "all ranks end and then restart together"
    assert (loop["failures"], loop["disruptions"]) == (0, 1)
    assert BUS in loop["attempts"][0]["cause"] and "taken out of service" in loop["attempts"][0]["cause"]


@pytest.mark.parametrize(
    ("ready", "deleting", "removed"),
    [("Unknown", True, True), ("Unknown", False, False), ("True", True, False), ("", True, True)],
)
def test_deleted_worker_is_removed_at_once_if_no_kubelet_can_end_its_pod(*, ready: str, deleting: bool, removed: bool) -> None:
    """Otherwise the worker's job would wait for half an hour, until EKS replaces the node."""
    here, other = make_node("one"), make_node("other")
    here["status"]["conditions"][0]["status"] = ready
    worker = make_pod("train-worker-0", "worker", node="one", deleting=deleting)
    actions = end_stranded_pods([other, *([here] if ready else [])], [make_job(make_main_object(), [worker])])
    assert [(item.name, item.seconds) for item in actions if isinstance(item, DeletePod)] == [("train-worker-0", 0)] * removed


def test_worker_that_never_started_is_removed_without_ending_the_attempt() -> None:
    worker = make_pod("train-worker-0", "worker", node="gone", deleting=True)
    del worker["status"]["startTime"]
    nodes = {"other": make_node("other")}
    assert len(end_stranded_pods([*nodes.values()], [make_job(make_main_object(), [worker])])) == 1
    assert explain_cut_off_pod(worker, nodes) == ""
    worker["status"]["startTime"] = worker["metadata"]["creationTimestamp"]
    assert explain_cut_off_pod(worker, nodes) == "train-worker-0: its node gone is gone"


def test_pods_of_foreign_jobs_are_never_force_deleted() -> None:
    foreign = make_main_object()
    del foreign["metadata"]["annotations"]
    worker = make_pod("train-worker-0", "worker", node="gone", deleting=True)
    assert end_stranded_pods([make_node("other")], [make_job(foreign, [worker])]) == []
    assert end_stranded_pods([], [make_job(make_main_object(), [worker])]) == [], "the nodes have not been read yet"


@pytest.mark.parametrize("deleting", [False, True])
def test_worker_error_on_a_drained_node_does_not_count_as_failure(*, deleting: bool) -> None:
    cluster, loop = Cluster(3), Controlled()
    cluster.break_node("n0")
    cluster.run_round()
    loop.run_round(make_job(make_main_object(), [make_launcher(node="three"), *make_workers()]), 20)
    for second, state, failed in ((30, "draining", {}), (31, "repairing", {"phase": "Failed", "code": 1, "until": 31})):
        assert cluster.state("n0") == state
        out = {**cluster.nodes["n0"], "metadata": {**cluster.nodes["n0"]["metadata"], "name": "one"}}
        ended = make_pod("train-worker-0", "worker", phase="Failed", code=255, until=second, deleting=deleting)
        broken = make_job(make_main_object(), [make_launcher(node="three", **failed), ended, make_workers()[1]])
        assert isinstance(broken.nodes, dict)
        broken.nodes["one"] = out
        loop.run_round(broken, second)
        cluster.run_round()
    assert (loop["failures"], loop["disruptions"]) == (0, 1)
    assert "taken out of service" in loop["attempts"][0]["cause"]


def test_pods_of_foreign_jobs_are_left_to_administrators() -> None:
    cluster = Cluster(1)
    cluster.break_node("n0")
    cluster.run_round()
    out = {**cluster.nodes["n0"], "metadata": {**cluster.nodes["n0"]["metadata"], "name": "one"}}
    foreign = make_main_object()
    del foreign["metadata"]["annotations"]
    assert end_leaving_pods([out], [make_job(foreign, make_workers())]) == []
    out["spec"] = {}  # an administrator has uncordoned the node
    assert end_leaving_pods([out], [make_job(make_main_object(), make_workers())]) == []


def test_nodes_outside_the_pools_are_left_alone() -> None:
    cluster = Cluster(2)
    cluster.nodes["n0"]["metadata"]["labels"] = {"pool": "system"}
    cluster.break_node("n0")
    cluster.run_round()
    assert cluster.cordoned == []


def test_replaced_node_is_recorded_as_gone_and_still_counts_toward_the_cordon_limit() -> None:
    cluster = Cluster(5)
    controller = cluster.make_controller()
    cluster.break_node("n0")
    cluster.run_round(controller)
    cluster.replace("n0")
    cluster.break_node("n1")
    cluster.run_round(controller)
    assert [(entry["node"], entry["state"]) for entry in cluster.journal_entries] == [("n0", "gone")]
    assert journal.parse_journal((cluster.config_map or {})["data"][journal.KEY])["held"] == ["n1"]
    cluster.now += WINDOW
    cluster.run_round(controller)
    assert [name for name, _ in cluster.cordoned] == ["n0", "n1"]


def test_silent_node_counts_toward_the_cordon_limit_until_deletion() -> None:
    cluster = Cluster(5)
    controller = cluster.make_controller()
    cluster.silent = {"n0": START.isoformat()}
    cluster.run_round(controller)
    cluster.break_node("n1")
    cluster.run_round(controller)
    assert [name for name, _ in cluster.cordoned] == ["n0"]
    cluster.replace("n0")
    cluster.silent = {}
    cluster.run_round(controller)
    assert [name for name, _ in cluster.cordoned] == ["n0", "n1"]


def test_spot_nodes_drained_by_eks_do_not_count_toward_the_cordon_limit() -> None:
    cluster = Cluster(3)
    for name in ("n0", "n1"):
        cluster.nodes[name]["spec"]["unschedulable"] = True  # EKS cordons the node, and then the node's instance is terminated
    cluster.run_round()
    cluster.silent = {"n0": START.isoformat(), "n1": START.isoformat()}
    cluster.run_round()
    for name in ("n0", "n1"):
        cluster.nodes[name]["status"]["conditions"][0]["status"] = "Unknown"
    cluster.run_round()
    cluster.silent = {}
    for name in ("n0", "n1"):
        cluster.replace(name)
    assert cluster.cordoned == [] and cluster.config_map is None
    cluster.break_node("n2")
    cluster.run_round()
    assert [name for name, _ in cluster.cordoned] == ["n2"], "the limit of this cluster is one node"


def test_two_controllers_take_a_node_out_of_service_once() -> None:
    cluster = Cluster(5)
    first, second = cluster.make_controller(), cluster.make_controller()
    stale = copy.deepcopy(list(map(trim_node, cluster.nodes.values())))
    first.run_round(stale, [], [], cluster.now)
    cluster.break_node("n0")
    cluster.run_round(first)
    cluster.break_node("n1")
    cluster.run_round(second)
    cluster.run_round(first)
    cluster.run_round(second)
    assert [name for name, _ in cluster.cordoned] == ["n0"]


steps = st.lists(
    st.tuples(
        st.integers(0, 40),
        st.sampled_from(["break", "break", "application", "repair", "replace"]),
        st.sets(st.integers(0, 19), max_size=8),
        st.integers(0, 8),
        st.booleans(),
    ),
    max_size=14,
)


@settings(deadline=None, max_examples=150)
@given(st.integers(1, 20), steps)
def test_controller_killed_at_any_time_cordons_no_node_twice_and_keeps_the_limit(
    size: int, changes: list[tuple[int, str, set[int], int, bool]]
) -> None:
    """In each round, nodes break or are repaired or replaced. The controller may be killed after any of its requests."""
    cluster, restored = Cluster(size), set[tuple[str, int]]()
    controller = cluster.make_controller()
    for minutes, what, numbers, requests, lives in changes:
        cluster.now += timedelta(minutes=minutes)
        for name in [key for key in list(cluster.nodes) if int(key[1:]) in numbers]:
            if what in ("break", "application"):
                cluster.break_node(name, BUS if what == "break" else APPLICATION)
            elif what == "repair":
                cluster.repair_node(name)
            elif cluster.state(name) == "repairing":
                cluster.replace(name)
        before = {name for name in cluster.nodes if cluster.state(name) != "healthy"}
        cluster.left = 10**6 if lives else requests
        try:
            cluster.run_round(controller)
        except Killed:
            controller = cluster.make_controller()
        restored |= {(name, len(cluster.cordoned)) for name in before & cluster.nodes.keys() if cluster.state(name) == "healthy"}
    names = [name for name, _ in cluster.cordoned]
    for name in set(names):
        back = len([node for node, _ in restored if node == name])
        assert names.count(name) <= 1 + back, "cordoned again only after it was back in service"
    for _, when in cluster.cordoned:
        assert len({name for name, at in cluster.cordoned if when - WINDOW < at <= when}) <= brake.compute_cordon_limit(size)


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 12), st.integers(0, 25), st.integers(0, 25))
def test_every_interrupted_round_is_completed_by_the_next_controller(size: int, first: int, second: int) -> None:
    """Kill two controllers after any number of requests: the third reaches the same result as a controller that was not
    killed.
    """

    def run_interrupted_controllers(*kills: int) -> tuple[dict[str, str], list[str]]:
        cluster = Cluster(size)
        for name in cluster.nodes:
            cluster.break_node(name)
        for kill in (*kills, 10**6, 10**6):
            cluster.left = kill
            try:
                cluster.run_round()
            except Killed:
                continue
        return {name: cluster.state(name) for name in cluster.nodes}, [name for name, _ in cluster.cordoned]

    assert run_interrupted_controllers(first, second) == run_interrupted_controllers(10**6, 10**6)


def test_corrupt_journal_or_annotation_does_not_stop_healing() -> None:
    cluster = Cluster(2)
    cluster.config_map = {"metadata": {"name": journal.CONFIG_MAP, "resourceVersion": "1"}, "data": {journal.KEY: "?"}}
    cluster.nodes["n0"]["metadata"]["annotations"] = {TAKEN_OUT_ANNOTATION: json.dumps({"at": "soon"})}
    cluster.break_node("n1")
    cluster.run_round()
    assert (cluster.state("n0"), cluster.state("n1")) == ("verifying", "draining")


def test_controller_leaves_nodes_alone_without_a_healing_policy() -> None:
    assert read_policy(None) is None and read_policy("") is None
