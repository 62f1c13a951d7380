"""Node drains: which pods are evicted, which remain, and how a forced node group update treats those that remain."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from localcloud.aws.events import DONE, Event, Progress
from localcloud.kubernetes.client import Api, ApiError
from localcloud.kubernetes.nodes import drain
from localcloud.kubernetes.nodes.fleet import Fleet
from localcloud.kubernetes.running import RunningCluster
from tests.pure.node_world import make_machine

PODS = "/api/v1/namespaces/default/pods"


def make_pod(name: str, **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}", **metadata}}


class Server:
    """In-memory API server with the pods of one node. PodDisruptionBudgets protect the pods in `guarded`."""

    def __init__(self, *pods: dict[str, Any], guarded: tuple[str, ...] = ()) -> None:
        self.pods, self.guarded = list(pods), guarded
        self.node: dict[str, Any] = {"metadata": {"labels": {}}, "spec": {}}

    @property
    def names(self) -> list[str]:
        return [pod["metadata"]["name"] for pod in self.pods]

    def get(self, path: str, **query: str) -> dict[str, Any]:
        return {"items": list(self.pods)}

    def patch(self, path: str, change: dict[str, Any], kind: str) -> None:
        for part, values in change.items():
            if part == "metadata":
                values = {"labels": {**self.node["metadata"]["labels"], **values["labels"]}}
            self.node[part].update(values)

    def create(self, path: str, body: dict[str, Any]) -> None:
        if body["metadata"]["name"] in self.guarded:
            raise ApiError(429, "Cannot evict pod as it would violate the pod's disruption budget.")
        self.delete(path.removesuffix("/eviction"))

    def delete(self, path: str, **query: Any) -> None:
        self.pods = [pod for pod in self.pods if path != f"{PODS}/{pod['metadata']['name']}"]


def cast_to_api(server: Server) -> Api:
    return cast(Api, server)


def test_drain_lists_pods_protected_by_disruption_budgets() -> None:
    server = Server(make_pod("free"), make_pod("guarded"), guarded=("guarded",))
    assert drain.drain(cast_to_api(server), "node", lambda: False, 0) == ["default/guarded"]
    assert server.names == ["guarded"] and server.node["spec"] == {"unschedulable": True}


def test_drain_keeps_daemon_set_and_static_pods() -> None:
    daemon = make_pod("daemon", ownerReferences=[{"kind": "DaemonSet"}])
    static = make_pod("static", annotations={"kubernetes.io/config.mirror": "x"})
    server = Server(daemon, static, make_pod("free"))
    assert drain.drain(cast_to_api(server), "node", lambda: False, 60) == []
    drain.delete_pods(cast_to_api(server), "node")
    assert server.names == ["daemon", "static"]


def make_fleet(server: Server) -> Fleet:
    cluster = SimpleNamespace(namespace=None, addresses=None, id="1-demo", name="demo", api=server)
    fleet = Fleet(cast(RunningCluster, cluster))
    fleet._roster.admit(make_machine())
    return fleet


def send_event(fleet: Fleet, action: Any, **details: Any) -> None:
    fleet.on_event(Event("instance", action, "i-0a", "us-west-2", "123456789012", details))


@pytest.mark.parametrize(("force", "left", "problem"), [(False, ["guarded"], "default/guarded"), (True, [], "")])
def test_forced_drain_deletes_pods_that_could_not_be_evicted(
    monkeypatch: pytest.MonkeyPatch, force: bool, left: list[str], problem: str
) -> None:
    monkeypatch.setattr(drain, "get_drain_timeout", lambda: 0.0)
    server = Server(make_pod("free"), make_pod("guarded"), guarded=("guarded",))
    fleet = make_fleet(server)
    send_event(fleet, "draining", Force=force)
    fleet._pool.shutdown()
    assert server.names == left
    assert fleet.progress("instance", "i-0a") == Progress(True, problem)


def test_cordoned_node_leaves_load_balancers_until_uncordoned() -> None:
    server = Server()
    fleet = make_fleet(server)
    send_event(fleet, "cordoning")
    fleet._pool.shutdown()
    assert server.node == {"metadata": {"labels": {drain.NO_LOAD_BALANCERS: "true"}}, "spec": {"unschedulable": True}}
    fleet = make_fleet(server)
    send_event(fleet, "uncordoning")
    fleet._pool.shutdown()
    assert server.node == {"metadata": {"labels": {drain.NO_LOAD_BALANCERS: None}}, "spec": {"unschedulable": None}}


def test_instances_that_are_not_nodes_need_no_drain() -> None:
    fleet = make_fleet(Server())
    assert fleet.progress("instance", "i-other") == DONE
    fleet.stop()
