"""Which nodes the job controller considers silent, and how it takes these nodes out of service."""

import socket
from collections.abc import Collection
from datetime import UTC, datetime, timedelta

import pytest

from infra.health import repairs
from infra.platform.job_controller.in_pod.actions import DeletePod
from infra.platform.job_controller.in_pod.nodes import end_leaving_pods, end_stranded_pods
from infra.platform.job_controller.in_pod.silence import STALE_SECONDS, Silence, is_kubelet_reachable
from infra.platform.job_controller.in_pod.trims import trim_node
from tests.pure.controlled_jobs import make_job, make_main_object, make_pod
from tests.pure.healed_cluster import Cluster, Object, make_node

NOON = datetime(2026, 11, 23, 12, tzinfo=UTC)


class Leases:
    """An API server with the leases of three nodes, a clock, and kubelets that answer unless the test makes them
    unreachable.
    """

    def __init__(self, *, skew: timedelta = timedelta()) -> None:
        self.seconds, self.skew = 0.0, skew
        self.renewed = dict.fromkeys("abc", 0.0)
        self.unreachable: Collection[str] = ()
        self.silence = Silence(self, lambda: self.seconds, self._is_reachable)  # type: ignore[arg-type]  # `Silence` only calls `call`

    def call(self, method: str, path: str) -> Object:
        times = {name: (NOON + self.skew + timedelta(seconds=at)).isoformat() for name, at in self.renewed.items()}
        return {"items": [{"metadata": {"name": name}, "spec": {"renewTime": at}} for name, at in times.items()]}

    def _is_reachable(self, node: Object) -> bool:
        return node["metadata"]["name"] not in self.unreachable

    def wait(self, seconds: int, renewing: str) -> list[str]:
        """Check every five seconds, while the nodes in `renewing` renew their leases. Return the nodes that are silent
        at the end.
        """
        for _ in range(0, seconds, 5):
            self.seconds += 5
            self.renewed |= dict.fromkeys(renewing, self.seconds)
            silent = self.silence.find_silent_nodes([{"metadata": {"name": name}, "status": {}} for name in self.renewed])
        return sorted(silent)


@pytest.mark.parametrize("skew", [timedelta(), timedelta(minutes=-5), timedelta(minutes=5)])
def test_node_without_lease_renewal_or_kubelet_response_is_silent_despite_clock_skew(skew: timedelta) -> None:
    cluster = Leases(skew=skew)
    cluster.unreachable = ["c"]
    cluster.wait(60, renewing="abc")
    assert cluster.wait(int(STALE_SECONDS), renewing="ab") == []
    assert cluster.wait(5, renewing="ab") == ["c"]
    assert cluster.wait(5, renewing="abc") == []


def test_a_node_that_answers_is_not_silent() -> None:
    assert Leases().wait(60, renewing="ab") == []


def test_no_node_is_silent_if_the_controller_itself_reaches_none() -> None:
    cluster = Leases()
    cluster.unreachable = "abc"
    assert cluster.wait(60, renewing="ab") == []
    assert cluster.wait(60, renewing="") == [], "without a renewed lease there is no node to compare with"


def test_stopped_kubelet_does_not_respond() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        answering = _make_node(server.getsockname()[1])
        assert is_kubelet_reachable(answering)
    assert not is_kubelet_reachable(answering)


def test_node_without_an_address_is_not_considered_silent() -> None:
    assert is_kubelet_reachable(trim_node({"metadata": {"name": "a"}, "spec": {}}))


def _make_node(port: int) -> Object:
    status = {
        "addresses": [{"type": "Hostname", "address": "a"}, {"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
    }
    return trim_node({"metadata": {"name": "a"}, "spec": {}, "status": status})


# --- node healing -----------------------------------------------------------------------------------------------------


def test_silent_node_leaves_service_before_kubernetes_reports_it_and_returns_with_its_kubelet() -> None:
    cluster = Cluster(5)
    controller = cluster.make_controller()
    cluster.silent = {"n0": "2026-11-23T11:59:30Z"}
    cluster.run_round(controller)
    states = [cluster.state("n0")]
    for seconds, ready, is_silent in ((5, "True", True), (20, "Unknown", True), (5, "True", False), (40, "True", False)):
        cluster.now += timedelta(seconds=seconds)
        cluster.nodes["n0"]["status"]["conditions"][0]["status"] = ready
        cluster.silent = {"n0": "2026-11-23T11:59:30Z"} if is_silent else {}
        cluster.run_round(controller)
        states.append(cluster.state("n0"))
    assert states == ["draining", "repairing", "repairing", "verifying", "healthy"]
    (entry,) = cluster.journal_entries
    assert (entry["condition"], entry["reason"], entry["action"]) == ("Ready", "KubeletSilent", "cordon")


def test_node_already_reported_by_kubernetes_is_not_taken_out_of_service() -> None:
    cluster = Cluster(5)
    cluster.nodes["n0"]["status"]["conditions"][0]["status"] = "Unknown"
    cluster.silent = {"n0": "2026-11-23T11:59:30Z"}
    cluster.run_round()
    assert cluster.cordoned == []


def test_cordon_limit_applies_to_silent_nodes() -> None:
    cluster = Cluster(5)
    cluster.silent = dict.fromkeys(cluster.nodes, "2026-11-23T11:59:30Z")
    cluster.run_round()
    assert len(cluster.cordoned) == 1


def test_pods_of_a_silent_node_are_deleted_and_removed_at_once() -> None:
    cluster = Cluster(3)
    cluster.silent = {"n0": "2026-11-23T11:59:30Z"}
    cluster.run_round()
    out = {**cluster.nodes["n0"], "metadata": {**cluster.nodes["n0"]["metadata"], "name": "one"}}
    here = make_job(make_main_object(), [make_pod("train-worker-0", "worker", node="one")])
    assert [pod.seconds for pod in end_leaving_pods([out], [here]) if isinstance(pod, DeletePod)] == [None]
    deleted = make_job(make_main_object(), [make_pod("train-worker-0", "worker", node="one", deleting=True)])
    assert [pod.seconds for pod in end_stranded_pods([out], [deleted]) if isinstance(pod, DeletePod)] == [0]


def test_node_without_a_ready_kubelet_fails_verification() -> None:
    manifest = make_node("n0")
    manifest["status"]["conditions"][0]["status"] = "Unknown"
    assert repairs.find_problem(manifest, 8) == "the node is not ready"
    assert repairs.find_problem(make_node("n0"), 8) == ""
