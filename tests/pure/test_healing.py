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
from infra.platform.job_controller.in_pod.job import explain_cut_off
from infra.platform.job_controller.in_pod.mirror import trim_node
from infra.platform.job_controller.in_pod.nodes import end_leaving_pods, end_stranded_pods, read_policy
from tests.pure.controlled_jobs import Controlled, job, launcher, main, pod, workers
from tests.pure.healed_cluster import BUS, POLICY, START, WINDOW, Cluster, Killed, node

EXISTING = Policy(POLICY.pools, existing=True)
APPLICATION = "NvidiaXID31Error"


def test_controller_drains_repairs_verifies_and_returns_a_broken_node() -> None:
    cluster = Cluster(2)
    controller = cluster.controller()
    cluster.breaks("n0")
    states = []
    for busy, repaired, seconds in ((True, False, 1), (True, False, 1), (False, False, 1), (False, True, 1), (False, True, 40)):
        if repaired:
            cluster.repair("n0")
        cluster.now += timedelta(seconds=seconds)
        cluster.round(controller, busy=["n0"] if busy else [])
        states.append((cluster.state("n0"), bool(cluster.nodes["n0"]["spec"].get("unschedulable"))))
    assert [*dict.fromkeys(states)] == [("draining", True), ("repairing", True), ("verifying", True), ("healthy", False)]
    (entry,) = cluster.entries
    assert [step["state"] for step in entry["steps"]] == ["draining", "repairing", "verifying", "healthy"]
    assert (entry["instance"], entry["reason"], entry["action"]) == ("i-n0", BUS, "replace")


@pytest.mark.parametrize("reason", [f"NvidiaXID{xid}Error" for xid in (13, 31, 43, 45, 94)])
def test_an_error_of_the_application_changes_nothing(reason: str) -> None:
    cluster = Cluster(3)
    cluster.breaks("n0", reason)
    cluster.round()
    assert cluster.cordoned == [] and cluster.config_map is None


def test_a_fault_during_the_verification_and_a_missing_gpu_keep_the_node_out() -> None:
    cluster = Cluster(1)
    cluster.breaks("n0")
    cluster.round()
    cluster.round()
    cluster.repair("n0")
    cluster.nodes["n0"]["status"]["allocatable"] = {"nvidia.com/gpu": "7"}
    cluster.round()
    assert cluster.state("n0") == "repairing"
    cluster.repair("n0")
    cluster.round()
    assert cluster.state("n0") == "verifying"
    cluster.breaks("n0")
    cluster.now += timedelta(minutes=5)
    cluster.round()
    assert (cluster.state("n0"), len(cluster.cordoned)) == ("repairing", 1)


def test_a_node_that_was_silent_stays_out_until_its_kubelet_has_ended_the_deleted_pods() -> None:
    cluster = Cluster(2)
    controller = cluster.controller()
    cluster.silent = {"n0": START.isoformat()}
    cluster.round(controller, busy=["n0"], grace=90)
    cluster.round(controller)
    cluster.silent = {}
    cluster.round(controller)
    states = []
    for _ in range(5):
        states.append(cluster.state("n0"))
        cluster.now += timedelta(seconds=30)
        cluster.round(controller)
    assert states == ["verifying"] * 4 + ["healthy"], "30 seconds of verification, and 90 of the pods' grace period"


def test_in_an_existing_cluster_jobs_stay_on_a_cordoned_node() -> None:
    cluster = Cluster(2)
    cluster.breaks("n0")
    cluster.round(busy=["n0"], policy=EXISTING)
    here = job(main(), workers())
    here.nodes["one"]["spec"] = {}
    assert cluster.nodes["n0"]["spec"]["unschedulable"] and cluster.state("n0") == "draining"
    cordoned = {**cluster.nodes["n0"], "metadata": {**cluster.nodes["n0"]["metadata"], "name": "one"}}
    assert end_leaving_pods([cordoned], [here]) == []


def test_a_job_leaves_a_broken_node_at_once_and_no_failure_is_counted() -> None:
    cluster, loop = Cluster(3), Controlled()
    cluster.breaks("n0")
    cluster.round()
    out = {**cluster.nodes["n0"], "metadata": {**cluster.nodes["n0"]["metadata"], "name": "one"}}
    running = job(main("torchrun"), workers())
    loop.look(running, 20)
    broken = job(main("torchrun"), workers())
    assert isinstance(broken.nodes, dict)
    broken.nodes["one"] = out
    assert [pod.name for pod in end_leaving_pods([out], [broken]) if hasattr(pod, "name")] == ["train-worker-0"]
    ended = loop.look(broken, 30)
    assert len(ended) == 2, "all ranks end and then restart together"
    assert (loop["failures"], loop["disruptions"]) == (0, 1)
    assert BUS in loop["attempts"][0]["cause"] and "taken out of service" in loop["attempts"][0]["cause"]


@pytest.mark.parametrize(
    ("ready", "deleting", "removed"),
    [("Unknown", True, True), ("Unknown", False, False), ("True", True, False), ("", True, True)],
)
def test_a_deleted_worker_is_removed_at_once_if_no_kubelet_can_end_it(*, ready: str, deleting: bool, removed: bool) -> None:
    """Otherwise the worker's job would wait half an hour, until EKS replaces the node."""
    here, other = node("one"), node("other")
    here["status"]["conditions"][0]["status"] = ready
    worker = pod("train-worker-0", "worker", node="one", deleting=deleting)
    actions = end_stranded_pods([other, *([here] if ready else [])], [job(main(), [worker])])
    assert [(item.name, item.seconds) for item in actions if isinstance(item, DeletePod)] == [("train-worker-0", 0)] * removed


def test_a_worker_that_never_started_is_removed_like_any_other_but_does_not_end_the_attempt() -> None:
    worker = pod("train-worker-0", "worker", node="gone", deleting=True)
    del worker["status"]["startTime"]
    nodes = {"other": node("other")}
    assert len(end_stranded_pods([*nodes.values()], [job(main(), [worker])])) == 1
    assert explain_cut_off(worker, nodes) == ""
    worker["status"]["startTime"] = worker["metadata"]["creationTimestamp"]
    assert explain_cut_off(worker, nodes) == "train-worker-0: its node gone is gone"


def test_pods_of_others_are_never_removed_by_force() -> None:
    foreign = main()
    del foreign["metadata"]["annotations"]
    worker = pod("train-worker-0", "worker", node="gone", deleting=True)
    assert end_stranded_pods([node("other")], [job(foreign, [worker])]) == []
    assert end_stranded_pods([], [job(main(), [worker])]) == [], "the nodes have not been read yet"


@pytest.mark.parametrize("deleting", [False, True])
def test_a_worker_that_ends_with_an_error_on_a_drained_node_is_no_failure_even_if_the_launcher_ends_later(
    *, deleting: bool
) -> None:
    cluster, loop = Cluster(3), Controlled()
    cluster.breaks("n0")
    cluster.round()
    loop.look(job(main(), [launcher(node="three"), *workers()]), 20)
    for second, state, failed in ((30, "draining", {}), (31, "repairing", {"phase": "Failed", "code": 1, "until": 31})):
        assert cluster.state("n0") == state
        out = {**cluster.nodes["n0"], "metadata": {**cluster.nodes["n0"]["metadata"], "name": "one"}}
        ended = pod("train-worker-0", "worker", phase="Failed", code=255, until=second, deleting=deleting)
        broken = job(main(), [launcher(node="three", **failed), ended, workers()[1]])
        assert isinstance(broken.nodes, dict)
        broken.nodes["one"] = out
        loop.look(broken, second)
        cluster.round()
    assert (loop["failures"], loop["disruptions"]) == (0, 1)
    assert "taken out of service" in loop["attempts"][0]["cause"]


def test_pods_of_other_tools_are_left_to_people() -> None:
    cluster = Cluster(1)
    cluster.breaks("n0")
    cluster.round()
    out = {**cluster.nodes["n0"], "metadata": {**cluster.nodes["n0"]["metadata"], "name": "one"}}
    foreign = main()
    del foreign["metadata"]["annotations"]
    assert end_leaving_pods([out], [job(foreign, workers())]) == []
    out["spec"] = {}  # an administrator has uncordoned the node
    assert end_leaving_pods([out], [job(main(), workers())]) == []


def test_nodes_outside_the_pools_are_left_alone() -> None:
    cluster = Cluster(2)
    cluster.nodes["n0"]["metadata"]["labels"] = {"pool": "system"}
    cluster.breaks("n0")
    cluster.round()
    assert cluster.cordoned == []


def test_a_replaced_node_is_noted_as_gone_and_still_counts_for_the_brake() -> None:
    cluster = Cluster(5)
    controller = cluster.controller()
    cluster.breaks("n0")
    cluster.round(controller)
    cluster.replace("n0")
    cluster.breaks("n1")
    cluster.round(controller)
    assert [(entry["node"], entry["state"]) for entry in cluster.entries] == [("n0", "gone")]
    assert journal.read((cluster.config_map or {})["data"][journal.KEY])["held"] == ["n1"]
    cluster.now += WINDOW
    cluster.round(controller)
    assert [name for name, _ in cluster.cordoned] == ["n0", "n1"]


def test_a_silent_node_counts_for_the_brake_until_it_is_deleted() -> None:
    cluster = Cluster(5)
    controller = cluster.controller()
    cluster.silent = {"n0": START.isoformat()}
    cluster.round(controller)
    cluster.breaks("n1")
    cluster.round(controller)
    assert [name for name, _ in cluster.cordoned] == ["n0"]
    cluster.replace("n0")
    cluster.silent = {}
    cluster.round(controller)
    assert [name for name, _ in cluster.cordoned] == ["n0", "n1"]


def test_spot_nodes_that_eks_drains_and_replaces_do_not_count_for_the_brake() -> None:
    cluster = Cluster(3)
    for name in ("n0", "n1"):
        cluster.nodes[name]["spec"]["unschedulable"] = True  # EKS cordons the node, then its instance ends
    cluster.round()
    cluster.silent = {"n0": START.isoformat(), "n1": START.isoformat()}
    cluster.round()
    for name in ("n0", "n1"):
        cluster.nodes[name]["status"]["conditions"][0]["status"] = "Unknown"
    cluster.round()
    cluster.silent = {}
    for name in ("n0", "n1"):
        cluster.replace(name)
    assert cluster.cordoned == [] and cluster.config_map is None
    cluster.breaks("n2")
    cluster.round()
    assert [name for name, _ in cluster.cordoned] == ["n2"], "the limit of this cluster is one node"


def test_two_controllers_take_a_node_out_once() -> None:
    cluster = Cluster(5)
    first, second = cluster.controller(), cluster.controller()
    stale = copy.deepcopy(list(map(trim_node, cluster.nodes.values())))
    first.look(stale, [], [], cluster.now)
    cluster.breaks("n0")
    cluster.round(first)
    cluster.breaks("n1")
    cluster.round(second)
    cluster.round(first)
    cluster.round(second)
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
def test_killed_at_any_moment_it_cordons_no_node_twice_and_keeps_to_the_brake(
    size: int, changes: list[tuple[int, str, set[int], int, bool]]
) -> None:
    """In each round, nodes break or are repaired or replaced. The controller may be killed after any of its requests."""
    cluster, restored = Cluster(size), set[tuple[str, int]]()
    controller = cluster.controller()
    for minutes, what, numbers, requests, lives in changes:
        cluster.now += timedelta(minutes=minutes)
        for name in [key for key in list(cluster.nodes) if int(key[1:]) in numbers]:
            if what in ("break", "application"):
                cluster.breaks(name, BUS if what == "break" else APPLICATION)
            elif what == "repair":
                cluster.repair(name)
            elif cluster.state(name) == "repairing":
                cluster.replace(name)
        before = {name for name in cluster.nodes if cluster.state(name) != "healthy"}
        cluster.left = 10**6 if lives else requests
        try:
            cluster.round(controller)
        except Killed:
            controller = cluster.controller()
        restored |= {(name, len(cluster.cordoned)) for name in before & cluster.nodes.keys() if cluster.state(name) == "healthy"}
    names = [name for name, _ in cluster.cordoned]
    for name in set(names):
        back = len([node for node, _ in restored if node == name])
        assert names.count(name) <= 1 + back, "cordoned again only after it was back in service"
    for _, when in cluster.cordoned:
        assert len({name for name, at in cluster.cordoned if when - WINDOW < at <= when}) <= brake.limit(size)


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 12), st.integers(0, 25), st.integers(0, 25))
def test_every_interrupted_look_is_completed_by_the_next_controller(size: int, first: int, second: int) -> None:
    """Kill two controllers after any number of requests: the third reaches the same result as a controller that was not
    killed.
    """

    def run(*kills: int) -> tuple[dict[str, str], list[str]]:
        cluster = Cluster(size)
        for name in cluster.nodes:
            cluster.breaks(name)
        for kill in (*kills, 10**6, 10**6):
            cluster.left = kill
            try:
                cluster.round()
            except Killed:
                continue
        return {name: cluster.state(name) for name in cluster.nodes}, [name for name, _ in cluster.cordoned]

    assert run(first, second) == run(10**6, 10**6)


def test_a_damaged_journal_or_annotation_stops_nothing() -> None:
    cluster = Cluster(2)
    cluster.config_map = {"metadata": {"name": journal.CONFIG_MAP, "resourceVersion": "1"}, "data": {journal.KEY: "?"}}
    cluster.nodes["n0"]["metadata"]["annotations"] = {TAKEN_OUT_ANNOTATION: json.dumps({"at": "soon"})}
    cluster.breaks("n1")
    cluster.round()
    assert (cluster.state("n0"), cluster.state("n1")) == ("verifying", "draining")


def test_the_controller_leaves_nodes_alone_without_a_policy() -> None:
    assert read_policy(None) is None and read_policy("") is None
