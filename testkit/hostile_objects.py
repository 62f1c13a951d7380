"""Objects as a hostile or careless user of one namespace can store them: hypothesis strategies.

`hostile_objects(namespace)` returns objects of all kinds. The API server sets and checks their identity (name, namespace,
UID, times) and the types of most kinds. The rest is arbitrary: custom resources with any types, texts with the names of
other namespaces, of other jobs and with characters of URLs, documents in annotations and ConfigMaps.
"""

import copy
import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from hypothesis import strategies as st

from infra.naming import JOB_LABEL, LAUNCHER_LABEL, MPI_JOB_LABEL, POLICY_ANNOTATION, RECORD_KEY, RECORD_LABEL, ROLE_LABEL

Object = dict[str, Any]

VICTIM: Final = "team-b"
"""Namespace that hostile texts name."""
JOB: Final = "train"
"""Name of the job that most hostile objects claim to belong to."""

LONG_AGO: Final = "2020-01-01T00:00:00Z"

COLLECTIONS: Final[Mapping[str, str]] = {
    "ConfigMap": "api/v1/namespaces/{}/configmaps",
    "Event": "api/v1/namespaces/{}/events",
    "Pod": "api/v1/namespaces/{}/pods",
    "StatefulSet": "apis/apps/v1/namespaces/{}/statefulsets",
    "Job": "apis/batch/v1/namespaces/{}/jobs",
    "JobSet": "apis/jobset.x-k8s.io/v1alpha2/namespaces/{}/jobsets",
    "MPIJob": "apis/kubeflow.org/v2beta1/namespaces/{}/mpijobs",
    "PyTorchJob": "apis/kubeflow.org/v1/namespaces/{}/pytorchjobs",
    "RayJob": "apis/ray.io/v1/namespaces/{}/rayjobs",
    "TrainJob": "apis/trainer.kubeflow.org/v1alpha1/namespaces/{}/trainjobs",
    "Workload": "apis/kueue.x-k8s.io/v1beta2/namespaces/{}/workloads",
}
"""Maps a kind to the path of its collection in a namespace."""
TYPED: Final = ("ConfigMap", "Event", "Job", "Pod", "StatefulSet", "Workload")
"""Kinds whose types the API server checks: built-in ones, and that of the queue that `up` installs. The definitions of other
custom resources depend on their versions, so these may have any content."""

# --- values -----------------------------------------------------------------------------------------------------------------

NUMBERS: Final = st.sampled_from([0, -1, 1e308, float("nan"), float("inf"), 10**30, 10**400, True, 0.5])
TEXTS: Final = st.sampled_from(
    [
        *("", "x", VICTIM, JOB, "\ud800", "\x00", f"../../{VICTIM}", "a/b?c=d#e", "%2F..", "Succeeded", "Failed", "Disrupted"),
        *("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "2026-11-23T12:00:00", "2026-11-23T12:00:00Z", "1k"),
        *(f"uid-{JOB}-{VICTIM}", f"{JOB}-worker-1", f"{VICTIM}/pods/{JOB}-worker-1?x=", f"../namespaces/{VICTIM}/pods/{JOB}"),
        *(
            f"workdirs/{VICTIM}/{'0' * 64}/00000000.tar.gz",
            "../x.00000000",
            "arn:aws:s3:::another",
            "$(id)",
            "`id`",
            "\x1b]52;c;aWQ=\a",
            "-rf",
        ),
    ]
)
VALUES: Final = st.recursive(
    st.none() | NUMBERS | TEXTS | st.text(max_size=3) | st.integers(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
NOT_JSON: Final = st.sampled_from(
    ["", "{", "null", "[]", "NaN", "[" * 100_000, '{"a":' * 5000, "1" * 5000, '"\\ud800"', "\x00", "x" * 1_000_000]
)
TIMES: Final = st.sampled_from(["2026-11-23T12:00:30Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "2026-11-23T12:00:30.5Z"])
QUANTITIES: Final = st.sampled_from(["0", "1", "8", "1k", "100m", "9E", "1e3", "-1", "0.5", "4Gi"])
LABEL_VALUES: Final = st.sampled_from(
    [
        *("", "x", VICTIM, JOB, "job", "worker", "workers", "launcher", "setup", "files", "standalone", "mpijob", "torchrun"),
        *("0", "1", "9" * 30, "1e5", "a.b_c-d", "a" * 63),
    ]
)
NAMES: Final = st.sampled_from(
    [*(JOB, f"{JOB}-launcher", f"{JOB}-worker-0", f"{JOB}-record-uid-trai", f"{JOB}-files-00000000", VICTIM), "x.y", "a" * 253]
)

# --- valid documents that are then corrupted ---------------------------------------------------------------------------------


def format_time(second: int) -> str:
    return f"2026-11-23T12:{second // 60:02}:{second % 60:02}Z"


def make_policy() -> Object:
    """Return a job's policy with every field set."""
    more = {"progress": {"pattern": "step ([0-9]+)", "within": 60}, "hold": {"queue": "x"}}
    return {"version": 1, "maxRestarts": 2, "workers": 2, **more}


def make_folder_data() -> dict[str, str]:
    """Return the data of a ConfigMap that records the folder of a job on a volume."""
    values = {"pool": "train", "image": "openmpi:5", "priority": "", "imagePullSecrets": "a b"}
    return {"id": "00000000", "volume": "shared", **values}


def make_full_record(namespace: str = "team-a", **changes: Any) -> Object:
    """Return the record of a job with every field set."""
    step = {"step": 3, "at": format_time(55)}
    slow = {"rank": 1, "since": 2, "steps": 5, "ratio": 2.5, "node": "one", "pod": f"{JOB}-worker-0"}
    steps = {"goal": 2, "first": step, "last": step, "highest": 3, "regained": format_time(55), "savedMs": 5}
    ranks = [{"ranks": [0], "at": "", "lines": ["x"]}]
    hang = {"at": format_time(44), "step": None, "log": ["x"], "ranks": ranks, "where": "", "nccl": [], "unknown": []}
    companions = {f"uid-{JOB}-worker-{index}": f"{JOB}-worker-{index}" for index in (0, 1)}
    ended = {"pod": f"{JOB}-launcher-1", "container": "launcher", "code": 1, "reason": "Error", "at": format_time(40)}
    worker = {"uid": f"uid-{JOB}-worker-0", "pod": f"{JOB}-worker-0", "node": "one", "gpus": 8, "type": "p5.48xlarge"}
    return {
        **{"version": 1, "uid": f"uid-{JOB}-{namespace}", "name": JOB, "namespace": namespace, "created": format_time(0)},
        **{"launcher": "mpijob", "pool": "train", "size": 2, "admitted": format_time(12), "knownUntil": format_time(11)},
        **{"phase": "Running", "ended": None, "reason": "", "exitCode": None, "restarts": 1, "failures": 1, "disruptions": 0},
        "phases": [
            {"phase": "Queued", "from": format_time(0), "to": format_time(15)},
            {"phase": "Running", "from": format_time(15), "to": format_time(40)},
            {"phase": "Restarting", "from": format_time(40), "to": format_time(55)},
            {"phase": "Running", "from": format_time(55), "to": None},
        ],
        "seconds": {"Queued": 15.0, "Running": 25.0, "Restarting": 15.0},
        "attempts": [
            {
                **{"number": 1, "pods": {f"uid-{JOB}-launcher-1": f"{JOB}-launcher-1"}, "companions": companions},
                **{"from": format_time(10), "running": format_time(15), "to": format_time(40), "outcome": "Failed"},
                **{"cause": f"{JOB}-launcher-1: exit code 1", "exits": [ended], "fault": "", "hang": hang},
            },
            {
                **{"number": 2, "pods": {f"uid-{JOB}-launcher-5": f"{JOB}-launcher-5"}, "companions": companions},
                **{"from": format_time(50), "running": format_time(55), "to": None, "outcome": None, "cause": "", "exits": []},
                **{"fault": "", "steps": {**steps, "until": format_time(55), "slow": slow}},
            },
        ],
        "workers": [
            {**worker, "zone": "us-west-2a", "capacity": "", "pool": "train", "from": format_time(10), "to": None},
            {**worker, "zone": "us-west-2a", "capacity": "", "pool": "train", "from": format_time(10), "to": format_time(40)},
        ],
        **{"gpuSeconds": 400.0, "droppedGpuSeconds": 1.5, "progressProblem": "x"},
        "verdict": {"reason": "x", "message": "y", "at": format_time(50)},
        "setup": {"from": format_time(1), "to": None, "outcome": None, "failures": 0},
        **changes,
    }


_CONDITION: Final = {"type": "Failed", "status": "True", "lastTransitionTime": format_time(40), "reason": "x", "message": "y"}
_CONTAINER: Final = {"name": "launcher", "image": "openmpi:5", "resources": {"limits": {"nvidia.com/gpu": "8"}}}
_POD_SPEC: Final = {"nodeName": "one", "containers": [_CONTAINER], "initContainers": [{**_CONTAINER, "restartPolicy": "Always"}]}
_TEMPLATE: Final = {"metadata": {}, "spec": {**_POD_SPEC, "nodeSelector": {"gpumpi.io/pool": "train"}}}
_TERMINATED: Final = {
    "exitCode": 1,
    "reason": "Error",
    "message": "x",
    "startedAt": format_time(5),
    "finishedAt": format_time(40),
}
_STATES: Final = (
    {"terminated": _TERMINATED},
    {"running": {"startedAt": format_time(5)}},
    {"waiting": {"reason": "ErrImagePull", "message": "y"}},
)

CONTENTS: Final[Mapping[str, Object]] = {
    "Event": {
        **{"involvedObject": {"kind": "Pod", "name": JOB, "namespace": "team-a"}, "type": "Warning", "reason": "FailedCreate"},
        **{"message": "x", "lastTimestamp": format_time(30), "eventTime": None, "count": 1},
    },
    "Pod": {
        "spec": {**_POD_SPEC, "terminationGracePeriodSeconds": 30},
        "status": {
            **{"phase": "Running", "startTime": format_time(5), "conditions": [_CONDITION, {**_CONDITION, "type": "Ready"}]},
            "containerStatuses": [
                {"name": "launcher", "ready": True, "restartCount": 1, "state": state, "lastState": _STATES[0]}
                for state in _STATES
            ],
        },
    },
    "StatefulSet": {"spec": {"replicas": 2, "template": _TEMPLATE}, "status": {"replicas": 2, "readyReplicas": 1}},
    "Job": {
        "spec": {"completionMode": "Indexed", "completions": 2, "parallelism": 2, "suspend": False, "template": _TEMPLATE},
        "status": {"conditions": [_CONDITION], "startTime": format_time(1), "active": 2, "ready": 1, "failed": 1},
    },
    "MPIJob": {
        "spec": {"mpiReplicaSpecs": {"Worker": {"replicas": 2, "template": _TEMPLATE}}, "runPolicy": {"suspend": False}},
        "status": {"conditions": [_CONDITION], "startTime": format_time(1), "completionTime": format_time(40)},
    },
    "PyTorchJob": {
        "spec": {"pytorchReplicaSpecs": {"Worker": {"replicas": 2, "template": _TEMPLATE}}, "runPolicy": {"suspend": False}},
        "status": {"conditions": [_CONDITION], "completionTime": format_time(9), "replicaStatuses": {"Worker": {"failed": 1}}},
    },
    "JobSet": {
        "spec": {"replicatedJobs": [{"name": "x", "replicas": 1, "template": {"spec": {"parallelism": 2}}}], "suspend": False},
        "status": {"conditions": [_CONDITION], "restarts": 1, "replicatedJobsStatus": [{"ready": 1, "failed": 1}]},
    },
    "RayJob": {
        "spec": {"rayClusterSpec": {"workerGroupSpecs": [{"replicas": 1}]}, "suspend": False},
        "status": {
            "jobDeploymentStatus": "Failed",
            "jobStatus": "FAILED",
            "message": "x",
            "endTime": format_time(9),
            "failed": 1,
        },
    },
    "TrainJob": {
        "spec": {"trainer": {"numNodes": 2}, "suspend": False},
        "status": {"conditions": [_CONDITION], "jobsStatus": [{"ready": 1, "succeeded": 1, "failed": 1}]},
    },
    "Workload": {
        "spec": {"active": False, "podSets": [{"name": "main", "count": 2, "template": _TEMPLATE}]},
        "status": {"conditions": [{**_CONDITION, "type": "Evicted"}]},
    },
}
"""Spec, status and other fields of an object of each kind, except ConfigMaps."""

# --- corruption -------------------------------------------------------------------------------------------------------------


@st.composite
def corrupted_documents(draw: st.DrawFn, document: Any) -> Any:
    """Return a document in which one value, at any depth, is replaced, removed or added."""
    document = copy.deepcopy(document)
    parent, key = _draw_position(draw, document)
    match draw(st.sampled_from(["replace", "replace", "remove", "add"])):
        case "replace":
            parent[key] = draw(VALUES)
        case "remove":
            del parent[key]
        case _ if isinstance(parent, dict):
            parent[draw(TEXTS)] = draw(VALUES)
    return document


def corrupted_texts(document: Any) -> st.SearchStrategy[str]:
    """Return texts that should be this document in JSON, but are not."""
    return NOT_JSON | VALUES.map(json.dumps) | corrupted_documents(document).map(json.dumps)


_REQUIRED: Final = ("containers", "name", "template", "spec", "type", "status", "involvedObject", "state")
"""Fields without which the API server rejects an object of these kinds."""


@st.composite
def retyped_documents(draw: st.DrawFn, document: Any) -> Any:
    """Return a document in which one value is replaced by another one of its type, or is removed if it is optional."""
    document = copy.deepcopy(document)
    parent, key = _draw_position(draw, document)
    value = parent[key]
    is_optional = isinstance(parent, list) or key not in _REQUIRED
    if is_optional and draw(st.booleans()) and not (key == "containers" and len(value) == 1):
        del parent[key]
        return document
    match value:
        case bool():
            parent[key] = not value
        case int():
            parent[key] = draw(st.integers(-1, 2**31 - 1))
        case str() if str(key).endswith(("Time", "At", "Timestamp")):
            parent[key] = draw(TIMES)
        case str() if str(key).startswith("nvidia.com/"):
            parent[key] = draw(QUANTITIES)
        case str() if key == "status":
            parent[key] = draw(st.sampled_from(["True", "False", "Unknown"]))
        case str():
            parent[key] = draw(LABEL_VALUES | TEXTS.filter(bool))
        case list() if value:
            parent[key] = [*value, draw(st.sampled_from(value))]
    return document


def _draw_position(draw: st.DrawFn, document: Any) -> tuple[Any, Any]:
    """Return a dictionary or list of the document, and one of its keys or indexes."""
    parent = document
    while True:
        key = draw(st.sampled_from(sorted(parent)) if isinstance(parent, dict) else st.integers(0, len(parent) - 1))
        if not parent[key] or not isinstance(parent[key], dict | list) or draw(st.booleans()):
            return parent, key
        parent = parent[key]


def _repeat(draw: st.DrawFn, corrupt: Callable[[Any], st.SearchStrategy[Any]], document: Any) -> Any:
    for _ in range(draw(st.sampled_from([1, 1, 2, 3, 0]))):
        document = draw(corrupt(document)) if document else document
    return document


# --- objects ----------------------------------------------------------------------------------------------------------------


@st.composite
def hostile_object(draw: st.DrawFn, kind: str, namespace: str, number: int = 0) -> Object:
    """Return an object of a kind in a namespace. `number` is part of its UID."""
    content = _draw_config_map(draw, namespace) if kind == "ConfigMap" else _draw_content(draw, kind)
    labels = draw(st.dictionaries(st.sampled_from([JOB_LABEL, ROLE_LABEL, LAUNCHER_LABEL, MPI_JOB_LABEL, "x"]), LABEL_VALUES))
    usual = {JOB_LABEL: JOB, ROLE_LABEL: {"StatefulSet": "workers", "Job": "job"}.get(kind, "worker"), LAUNCHER_LABEL: "torchrun"}
    if kind == "Event" and draw(st.booleans()):
        about = {"involvedObject": {"kind": "Node", "name": "one", "namespace": namespace}, "type": "Warning"}
        content |= {**about, "reason": "AcceleratedHardwareReady", "message": "NvidiaXID79Error: x"}
    metadata: Object = {
        **{"name": draw(NAMES), "namespace": namespace, "uid": f"uid-{kind.lower()}-{number}-{namespace}"},
        **{"creationTimestamp": draw(st.sampled_from([format_time(0), format_time(20), LONG_AGO])), "resourceVersion": "1"},
        **({"labels": {**usual, **labels}} if draw(st.booleans()) else {"labels": labels} if labels else {}),
        **content.pop("metadata", {}),
    }
    if draw(st.booleans()):
        texts = corrupted_texts(make_policy()) | TEXTS
        metadata["annotations"] = draw(st.dictionaries(st.just(POLICY_ANNOTATION) | TEXTS, texts, max_size=2))
    if draw(st.booleans()):
        owner = {"apiVersion": draw(TEXTS), "kind": draw(st.sampled_from(["Job", "MPIJob", "x"])), "name": draw(NAMES | TEXTS)}
        metadata["ownerReferences"] = [{**owner, "uid": draw(TEXTS), "controller": draw(st.booleans())}]
    if draw(st.integers(0, 9)) == 0:
        metadata["deletionTimestamp"] = format_time(59)
    group, version = COLLECTIONS[kind].split("/namespaces/")[0].split("/")[-2:]
    return {"apiVersion": version if group == "api" else f"{group}/{version}", "kind": kind, "metadata": metadata, **content}


def _draw_content(draw: st.DrawFn, kind: str) -> Object:
    corrupt = retyped_documents if kind in TYPED else corrupted_documents
    content = _repeat(draw, corrupt, CONTENTS[kind])
    return {"spec": {}, **content} if kind != "Event" else dict(content)


def _draw_config_map(draw: st.DrawFn, namespace: str) -> Object:
    """Return a forged record of a job, a forged record of its folder, or neither."""
    match draw(st.sampled_from(["record", "folder", "other"])):
        case "record":
            text = draw(st.just(json.dumps(make_full_record(namespace))) | corrupted_texts(make_full_record(namespace)))
            return {"metadata": {"labels": {RECORD_LABEL: draw(st.just(JOB) | LABEL_VALUES)}}, "data": {RECORD_KEY: text}}
        case "folder":
            own_key = st.just(f"workdirs/{namespace}/{'0' * 64}/00000000.tar.gz")
            in_bucket = st.fixed_dictionaries({"object": own_key | TEXTS})
            on_volume = st.builds(
                lambda key, text: {**make_folder_data(), key: text}, st.sampled_from([*make_folder_data()]), TEXTS
            )
            data = draw(st.just(make_folder_data()) | on_volume | in_bucket)
            return {"metadata": {"labels": {JOB_LABEL: draw(st.just(JOB) | LABEL_VALUES), ROLE_LABEL: "files"}}, "data": data}
    documents = st.dictionaries(st.sampled_from([RECORD_KEY, "remover.json", "helper.json"]), TEXTS | NOT_JSON)
    other_data = draw(st.none() | documents)
    return {} if other_data is None else {"data": other_data}


@st.composite
def hostile_objects(draw: st.DrawFn, namespace: str, most: int = 4) -> dict[str, list[Object]]:
    """Return up to `most` objects in a namespace, by kind. Names are unique within a kind."""
    by_kind: dict[str, list[Object]] = {}
    for number in range(draw(st.integers(1, most))):
        kind = draw(st.sampled_from([*sorted(COLLECTIONS), "ConfigMap", "ConfigMap", "ConfigMap"]))
        created = draw(hostile_object(kind, namespace, number))
        if created["metadata"]["name"] not in [other["metadata"]["name"] for other in by_kind.get(kind, ())]:
            by_kind.setdefault(kind, []).append(created)
    return by_kind
