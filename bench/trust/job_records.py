"""Surface: job records, annotations, pods and jobs of one namespace -> rounds of the job controller.

Each round reads many hostile objects in `team-a`. The judge compares all requests about `team-b` and the nodes with those
of a round without hostile objects.
"""

import contextlib
import copy
import io
import json
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import cache
from random import Random
from typing import Any, Final
from unittest import mock

from bench.trust.inputs import LABELS, NAMES, VICTIM, corrupt_document, draw_document_text, draw_text
from bench.trust.judge import Judge
from infra.health.healing import Policy, Pool
from infra.naming import JOB_LABEL, LAUNCHER_LABEL, POLICY_ANNOTATION, RECORD_KEY, RECORD_LABEL, ROLE_LABEL
from infra.platform.job_controller.in_pod import controller, record
from infra.platform.job_controller.in_pod.api import Api
from infra.platform.job_controller.in_pod.controller import Controller
from infra.platform.job_controller.in_pod.health import Health, Heart
from infra.platform.job_controller.in_pod.nodes import Nodes

Object = dict[str, Any]
Request = tuple[str, str]
"""Method and URL."""
ATTACKER: Final = "team-a"
BATCH: Final = 25
"""Number of hostile objects per round."""
COLLECTIONS: Final[Mapping[str, str]] = {
    "ConfigMap": "api/v1/namespaces/{}/configmaps",
    "Pod": "api/v1/namespaces/{}/pods",
    "Job": "apis/batch/v1/namespaces/{}/jobs",
    "MPIJob": "apis/kubeflow.org/v2beta1/namespaces/{}/mpijobs",
    "StatefulSet": "apis/apps/v1/namespaces/{}/statefulsets",
    "Workload": "apis/kueue.x-k8s.io/v1beta2/namespaces/{}/workloads",
}
_REQUEST: Final = re.compile(r"/apis?/(?:[\w.]+/)?v\w+/namespaces/([a-z0-9-]+)/([a-z]+)(?:/[A-Za-z0-9._%-]+){0,2}")
LISTED: Final = {"nodes", "leases", *(path.rpartition("/")[2] for path in COLLECTIONS.values())}
"""Last segments of the paths of lists."""
WRITTEN_KINDS: Final = {"configmaps", "pods", "jobs", "mpijobs", "statefulsets", "events"}
"""Resources that the controller may change in a job namespace."""
POLICY: Final = {
    "version": 1,
    "workers": 2,
    "maxRestarts": 2,
    "progress": {"pattern": "step ([0-9]+)", "within": 60},
    "hold": {"queue": "x"},
}


def at(second: int) -> str:
    return f"2026-11-23T12:{second // 60:02}:{second % 60:02}Z"


class ApiServer:
    """API server in memory. It records all requests that change something."""

    sock = None

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Object]] = {}
        self.changes: list[Request] = []
        self._answer: tuple[int, Object] = 200, {}

    def add(self, collection: str, manifest: Object) -> None:
        metadata = {"uid": f"uid-{manifest['metadata']['name']}", **manifest["metadata"], "resourceVersion": "1"}
        self.objects.setdefault(collection, {})[str(metadata["name"])] = {**manifest, "metadata": metadata}

    def request(self, method: str, url: str, content: bytes | None, headers: Any) -> None:
        path = url.partition("?")[0].strip("/")
        body = json.loads(content) if content else {}
        if method != "GET":
            self.changes.append((method, url))
        collection, _, name = path.rpartition("/")
        stored = self.objects.get(collection, {}).get(name)
        if method == "POST":
            self._answer = 201, {**body, "metadata": {**body["metadata"], "uid": "new", "resourceVersion": "1"}}
        elif stored is not None:
            self._answer = 200, {**stored, **body} if method == "PUT" else stored
        elif method == "GET" and name in LISTED:
            self._answer = 200, {"metadata": {"resourceVersion": "1"}, "items": list(self.objects.get(path, {}).values())}
        else:
            self._answer = 404, {"reason": "NotFound", "message": path}

    def getresponse(self) -> "ApiServer":
        return self

    @property
    def status(self) -> int:
        return self._answer[0]

    def read(self, limit: int | None = None) -> bytes:
        return json.dumps(self._answer[1]).encode()[:limit]

    def close(self) -> None:
        pass


class MemoryApi(Api):
    """The controller's client, connected to the API server in memory."""

    def __init__(self, server: ApiServer) -> None:
        super().__init__("", 0, None, None)
        self._server = server

    def copy(self, allows_changes: Callable[[], bool] | None = None) -> "MemoryApi":
        return MemoryApi(self._server)

    def _connect(self, limit: int) -> Any:
        return self._server


class Leader:
    """Election that this controller has won."""

    heart = Heart()

    def begin_round(self) -> bool:
        return True


class FrozenClock:
    @staticmethod
    def now(zone: Any) -> datetime:
        return datetime(2026, 11, 23, 12, 1, tzinfo=zone)


def build_pod(namespace: str, index: int, *, failed: bool) -> Object:
    ended = {"terminated": {"exitCode": 1, "startedAt": at(15), "finishedAt": at(40), "reason": "Error"}}
    state = ended if failed else {"running": {"startedAt": at(15)}}
    conditions = [{"type": kind, "status": "True", "lastTransitionTime": at(10)} for kind in ("PodScheduled", "Ready")]
    status = {"phase": "Failed" if failed else "Running", "startTime": at(10), "conditions": conditions}
    labels = {JOB_LABEL: "train", ROLE_LABEL: "worker", "batch.kubernetes.io/job-completion-index": str(index)}
    name = f"train-worker-{index}"
    return {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"{namespace}-{name}",
            "creationTimestamp": at(10),
            "labels": labels,
        },
        "spec": {"nodeName": "one", "containers": [{"name": "worker", "resources": {"limits": {"nvidia.com/gpu": "8"}}}]},
        "status": {**status, "containerStatuses": [{"name": "worker", "state": state, "lastState": {}}]},
    }


def build_job(namespace: str, name: str = "train") -> Object:
    labels = {JOB_LABEL: name, ROLE_LABEL: "job", LAUNCHER_LABEL: "torchrun"}
    metadata = {
        "name": name,
        "namespace": namespace,
        "uid": f"uid-{name}-{namespace}",
        "creationTimestamp": at(0),
        "labels": labels,
    }
    metadata["annotations"] = {POLICY_ANNOTATION: json.dumps({"version": 1, "workers": 2, "maxRestarts": 2})}
    return {"metadata": metadata, "spec": {"completionMode": "Indexed", "completions": 2}, "status": {}}


def build_mpi_job(namespace: str) -> Object:
    workers = {"replicas": 2, "template": {"spec": {"nodeSelector": {"gpumpi.io/pool": "train"}}}}
    status = {
        "conditions": [{"type": "Running", "status": "True", "lastTransitionTime": at(9)}],
        "replicaStatuses": {"Launcher": {"failed": 1}},
    }
    return {
        **build_job(namespace, "mpi"),
        "spec": {"mpiReplicaSpecs": {"Worker": workers}, "runPolicy": {"suspend": False}},
        "status": status,
    }


def build_node(name: str, *, broken: bool) -> Object:
    conditions = [{"type": "Ready", "status": "True"}]
    if broken:
        conditions.append(
            {"type": "AcceleratedHardwareReady", "status": "False", "reason": "NvidiaXID79Error", "lastTransitionTime": at(1)}
        )
    labels = {"pool": "train"}
    status = {"conditions": conditions, "allocatable": {"nvidia.com/gpu": "8"}}
    return {
        "metadata": {"name": name, "labels": labels, "creationTimestamp": at(0)},
        "spec": {"providerID": f"aws:///a/i-{name}"},
        "status": status,
    }


def build_record(namespace: str) -> Object:
    """Return a record with attempts, workers and a hang."""
    document = record.create_record(f"uid-train-{namespace}", "train", namespace, at(0))
    record.enter_phase(document, record.Phase.RUNNING, at(15))
    worker = {
        "uid": "w",
        "pod": "train-worker-0",
        "node": "one",
        "gpus": 8,
        "type": "p5.48xlarge",
        "zone": "a",
        "capacity": "",
        "pool": "",
    }
    hang = {"at": at(44), "step": 3, "log": ["x"], "ranks": [{"ranks": [0], "at": "", "lines": ["x"]}], "where": ""}
    attempt = {"number": 1, "pods": {"w": "train-worker-0"}, "companions": {}, "from": at(10), "running": at(15), "to": at(40)}
    document["attempts"] = [{**attempt, "outcome": "Failed", "cause": "x", "exits": [], "fault": "", "hang": hang}]
    document["workers"] = [{**worker, "from": at(10), "to": None}]
    return document


class Environment:
    """A job with one failed worker in team-b, and a node with a broken GPU. Hostile objects are in team-a."""

    def __init__(self) -> None:
        self.server = ApiServer()
        self.add("Job", build_job(VICTIM))
        for index in (0, 1):
            self.add("Pod", build_pod(VICTIM, index, failed=index == 0))
        for name in ("one", "two", "three", "broken"):
            self.server.add("api/v1/nodes", build_node(name, broken=name == "broken"))

    def add(self, kind: str, manifest: Object) -> None:
        self.server.add(COLLECTIONS[kind].format(manifest["metadata"]["namespace"]), manifest)

    def run_controller(self) -> list[Request]:
        """Run two rounds of a controller that has read all objects, and return its requests."""
        api = MemoryApi(self.server)
        leader: Any = Leader()
        nodes = Nodes(api, "gpumpi-system", Policy((Pool({"pool": "train"}, 8),)))
        process = Controller(api, leader, (ATTACKER, VICTIM), Health(), nodes)
        for _ in range(2):
            with mock.patch("time.sleep"), mock.patch.object(controller, "datetime", FrozenClock):
                for mirror in (process._cluster._nodes, *process._cluster._mirrors.values()):
                    mirror._list_all()
                process._run_round()
        return self.server.changes


@cache
def list_expected_requests() -> frozenset[Request]:
    """Return what the controller does without hostile objects."""
    expected = frozenset(Environment().run_controller())
    assert any("/team-b/pods/" in url for _, url in expected), "the job of team-b must be restarted"
    return expected


def draw_object(random: Random, number: int) -> tuple[str, Object]:
    """Return a hostile object in team-a, with its kind. The API server sets its namespace, UID and times."""
    kind = random.choice(("ConfigMap", "ConfigMap", "Pod", "Job", "MPIJob", "StatefulSet", "Workload"))
    name = f"{random.choice(NAMES[:4])}-{number}" if random.randrange(2) else random.choice(NAMES)
    labels = {key: random.choice(LABELS) for key in (JOB_LABEL, ROLE_LABEL, LAUNCHER_LABEL, RECORD_LABEL) if random.randrange(2)}
    own: Object = {
        "name": name,
        "namespace": ATTACKER,
        "uid": f"uid-{kind}-{number}",
        "creationTimestamp": at(random.randrange(30)),
    }
    match kind:
        case "ConfigMap":
            data = {RECORD_KEY: draw_document_text(random, build_record(random.choice((ATTACKER, VICTIM))))}
            content: Object = {"data": random.choice((data, data, data, None, {}))}
            labels[RECORD_LABEL] = random.choice(("train", *LABELS))
        case "Pod":
            content = _retype_document(random, build_pod(ATTACKER, 0, failed=bool(random.randrange(2))))
        case "MPIJob":
            content = corrupt_document(random, {key: build_mpi_job(ATTACKER)[key] for key in ("spec", "status")})
        case "Workload":
            spec = {"spec": {"active": False}, "status": {"conditions": [{"type": "Evicted", "status": "True", "message": "x"}]}}
            content = corrupt_document(random, spec)
        case _:
            content = _retype_document(random, {"spec": {**build_job(ATTACKER)["spec"], "replicas": 2}, "status": {}})
    content = content if isinstance(content, dict) else {"spec": content}
    if random.randrange(2):
        own["annotations"] = {POLICY_ANNOTATION: draw_document_text(random, POLICY)}
    if random.randrange(4) == 0:
        own["ownerReferences"] = [{"kind": "Job", "name": draw_text(random), "uid": random.choice((f"uid-train-{VICTIM}", "x"))}]
    return kind, {**content, "metadata": {**own, "labels": labels}}


def _retype_document(random: Random, document: Object) -> Object:
    """Return a copy with other values of the same types: the API server checks the types of built-in kinds."""
    document = copy.deepcopy({key: value for key, value in document.items() if key != "metadata"})
    for _ in range(random.randrange(3)):
        parent: Any = document
        while True:
            key = random.choice(sorted(parent) if isinstance(parent, dict) else range(len(parent)))
            if not isinstance(parent[key], dict | list) or not parent[key]:
                break
            parent = parent[key]
        if isinstance(parent[key], str):
            is_time = str(key).endswith(("At", "Time"))
            parent[key] = (
                random.choice((at(30), "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z")) if is_time else draw_text(random)
            )
        elif isinstance(parent[key], int) and not isinstance(parent[key], bool):
            parent[key] = random.choice((0, -1, 2**31 - 1))
    return document


def judge_requests(judge: Judge, requests: list[Request], expected: frozenset[Request]) -> None:
    """Report requests outside team-a that the controller does not send without hostile objects, and those that it no longer
    sends."""
    outside = set()
    for method, url in requests:
        match = _REQUEST.fullmatch(url)
        if match is not None and match[1] == ATTACKER:
            judge.require(match[2] in WRITTEN_KINDS, "executed", f"{method} {url}")
        else:
            outside.add((method, url))
    for request in sorted(outside - expected):
        judge.report("crossed", " ".join(request))
    for request in sorted(expected - outside):
        judge.report("lost", " ".join(request))


def try_records(judge: Judge, random: Random, count: int) -> None:
    for _ in range(0, count, BATCH):
        environment = Environment()
        for number in range(BATCH):
            environment.add(*draw_object(random, number))
        with judge.attempt(BATCH), contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
            judge_requests(judge, environment.run_controller(), list_expected_requests())
