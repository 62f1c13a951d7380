"""Job controller with job namespaces and an API server in memory, for tests of how one namespace affects another."""

import copy
import json
import re
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any
from unittest import mock

from infra.health.healing import Policy, Pool
from infra.platform.job_controller.in_pod import controller
from infra.platform.job_controller.in_pod.api import Api
from infra.platform.job_controller.in_pod.controller import Controller
from infra.platform.job_controller.in_pod.health import Health, Heart
from infra.platform.job_controller.in_pod.nodes import Nodes
from tests.pure import controlled_jobs, healed_cluster

Object = dict[str, Any]
Request = tuple[str, str]
"""Method and URL."""
NAMESPACES = ("team-a", "team-b")
COLLECTIONS = ("pods", "configmaps", "jobs", "mpijobs", "statefulsets", "workloads")
POLICY = Policy((Pool({"pool": "train"}, 8),))


class Answer:
    """Response of the API server."""

    def __init__(self, status: int, content: bytes) -> None:
        self.status, self._content = status, content

    def read(self, limit: int | None = None) -> bytes:
        return self._content[:limit]


class ApiServer:
    """Stores objects by the path of their collection and their names, and records every request that makes a change."""

    sock = None

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Object]] = {}
        self.requests = 0
        self.changes: list[Request] = []
        self.bodies: dict[Request, Object] = {}
        self.refuse: Callable[[str, str], int | None] = lambda method, url: None
        self.lists: dict[str, bytes] = {}
        """Maps the path of a collection to an answer that its lists get instead of the stored objects."""
        self._version = 1

    def add(self, collection: str, manifest: Object) -> None:
        self._version += 1
        metadata = {"uid": f"uid-{manifest['metadata']['name']}", **manifest["metadata"], "resourceVersion": str(self._version)}
        self.objects.setdefault(collection, {})[metadata["name"]] = {**manifest, "metadata": metadata}

    def request(self, method: str, url: str, content: bytes | None, headers: Any) -> None:
        path = url.partition("?")[0].strip("/")
        self.requests += 1
        body = json.loads(content) if content else {}
        if method != "GET":
            self.changes.append((method, url))
            self.bodies[method, url] = body
        self._answer = self._handle_request(method, path, body, self.refuse(method, url))

    def getresponse(self) -> Answer:
        return self._answer

    def close(self) -> None:
        pass

    def _handle_request(self, method: str, path: str, body: Object, refusal: int | None) -> Answer:
        collection, _, name = path.rpartition("/")
        if refusal:
            return _make_json_answer(refusal, {"reason": "Refused", "message": "refused"})
        if method == "GET" and path in self.lists:
            return Answer(200, self.lists[path])
        if method == "GET" and path.rpartition("/")[2] in (*COLLECTIONS, "nodes", "leases"):
            return _make_json_answer(
                200, {"metadata": {"resourceVersion": "1"}, "items": list(self.objects.get(path, {}).values())}
            )
        if method == "POST":
            if body["metadata"]["name"] in self.objects.get(path, {}):
                return _make_json_answer(409, {"reason": "AlreadyExists", "message": path})
            self.add(path, body)
            return _make_json_answer(201, self.objects[path][body["metadata"]["name"]])
        if name not in self.objects.get(collection, {}):
            return _make_json_answer(404, {"reason": "NotFound", "message": path})
        if method == "PUT":
            self.add(collection, body)
        stored = self.objects[collection][name]
        if method == "DELETE":
            del self.objects[collection][name]
        return _make_json_answer(200, stored)


def _make_json_answer(status: int, content: Object) -> Answer:
    return Answer(status, json.dumps(content).encode())


class LocalApi(Api):
    """The controller's client, connected to an API server in memory."""

    def __init__(self, server: ApiServer, allows_changes: Callable[[], bool] = lambda: True) -> None:
        super().__init__("", 0, None, None, allows_changes)
        self._server = server

    def copy(self, allows_changes: Callable[[], bool] | None = None) -> "LocalApi":
        return LocalApi(self._server, allows_changes or self._allows_changes)

    def _connect(self, limit: int) -> Any:
        return self._server


class Noon:
    """Clock of the controller, which stands still: time must not explain a difference between two runs."""

    @staticmethod
    def now(zone: Any) -> datetime:
        return datetime(2026, 11, 23, 12, 1, tzinfo=zone)


class Leader:
    """Election that this controller has won."""

    def __init__(self) -> None:
        self.heart = Heart()

    def start(self, acquired: Callable[[], None]) -> Heart:
        return self.heart

    def begin_round(self) -> bool:
        return True

    def allows_changes(self) -> bool:
        return True

    def stop(self) -> None:
        pass


class World:
    """A torchrun job in each namespace, with one failed and one running worker, and a node with a broken GPU."""

    def __init__(self, namespaces: Sequence[str] = NAMESPACES) -> None:
        self.server = ApiServer()
        self.health = Health()
        self.election: Any = Leader()
        self.stalled: set[str] = set()
        """Namespaces whose watches deliver nothing."""
        self._namespaces = namespaces
        for namespace in namespaces:
            self.server.add(f"apis/batch/v1/namespaces/{namespace}/jobs", self.make_job(namespace))
            for pod in self.pods(namespace):
                self.server.add(f"api/v1/namespaces/{namespace}/pods", pod)
        for name in ("one", "two", "three", "broken"):
            self.server.add("api/v1/nodes", self.make_node(name))

    def make_job(self, namespace: str) -> Object:
        root = controlled_jobs.make_main_object("torchrun")
        root["metadata"] |= {"namespace": namespace, "uid": f"uid-train-{namespace}"}
        return root

    def pods(self, namespace: str) -> list[Object]:
        failed, running = controlled_jobs.make_workers()
        failed = controlled_jobs.make_pod("train-worker-0", "worker", phase="Failed", code=1, until=40)
        for pod in (failed, running):
            pod["metadata"] |= {"namespace": namespace, "uid": f"{namespace}-{pod['metadata']['name']}"}
        return [failed, running]

    def make_node(self, name: str) -> Object:
        manifest = copy.deepcopy(healed_cluster.make_node(name))
        if name == "broken":
            manifest["status"]["conditions"][1] |= {"status": "False", "reason": healed_cluster.BUS}
        return manifest

    def add_record(self, namespace: str, content: Any, job: str = "train", **metadata: Any) -> None:
        """Add a ConfigMap with a record to a namespace."""
        text = content if isinstance(content, str) else json.dumps(content)
        labels = {"gpumpi.io/record": job}
        metadata = {"name": f"{job}-record-uid-trai", "namespace": namespace, "labels": labels, **metadata}
        self.server.add(f"api/v1/namespaces/{namespace}/configmaps", {"metadata": metadata, "data": {"record.json": text}})

    def start(self) -> None:
        """Start a controller that has read all objects."""
        api = LocalApi(self.server, self.election.allows_changes)
        nodes = Nodes(api, "gpumpi-system", POLICY)
        self.controller = Controller(api, self.election, self._namespaces, self.health, nodes)
        self.read()

    def read(self) -> None:
        """Bring the controller's copies of the objects up to date."""
        cluster = self.controller._cluster
        moving = [mirror for (namespace, _), mirror in cluster._mirrors.items() if namespace not in self.stalled]
        for mirror in (cluster._nodes, *moving):
            try:
                mirror._list_all()
            except Exception:
                mirror.is_synced.clear()

    def run(self, rounds: int = 1) -> list[Request]:
        """Run rounds of the controller, and return the requests with which it made changes."""
        with mock.patch.object(controller, "datetime", Noon):
            for _ in range(rounds):
                self.controller._run_round()
                self.read()
        return self.server.changes


def parse_namespace(request: Request) -> str:
    match = re.fullmatch(r"/apis?/(?:[\w.]+/)?v\w+/namespaces/([a-z0-9-]+)/[a-z]+(?:/[a-zA-Z0-9.%-]+)*", request[1])
    return match[1] if match else ""
