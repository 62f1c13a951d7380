"""A drain lists the pods of its node without causing load on etcd."""

from typing import Any, cast

from localcloud.kubernetes.client import Api
from localcloud.kubernetes.nodes import drain

POD = {"metadata": {"name": "worker", "namespace": "mpi-jobs", "uid": "1"}}


class Recorded:
    """API server with one pod. The server records list and delete requests."""

    def __init__(self) -> None:
        self.lists: list[dict[str, Any]] = []
        self.deleted: list[str] = []

    def get(self, path: str, **query: Any) -> Any:
        self.lists.append({"path": path, **query})
        return {"items": [POD]}

    def delete(self, path: str, **query: Any) -> None:
        self.deleted.append(path)


def test_pods_of_a_node_are_listed_from_the_api_server_cache() -> None:
    api = Recorded()
    drain.delete_node(cast(Api, api), "node-1")
    assert api.lists == [{"path": "/api/v1/pods", "fieldSelector": "spec.nodeName=node-1", "resourceVersion": "0"}]
    assert api.deleted == ["/api/v1/nodes/node-1", "/api/v1/namespaces/mpi-jobs/pods/worker"]
