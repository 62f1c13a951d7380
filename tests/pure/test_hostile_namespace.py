"""Whatever a user stores in namespace team-a, the verbs that others run, and the job controller, change nothing outside of it,
fail with a sentence at most, and handle the job in team-b.

GPUMPI_EXAMPLES sets the number of examples per test.
"""

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from subprocess import CompletedProcess
from types import SimpleNamespace
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner, Result

from cli import console
from cli.clusters import pod_streams
from cli.clusters.dashboard import cluster_reader
from cli.clusters.kubernetes_access import Access
from cli.clusters.status.status_command import make_status_query
from cli.jobs import cloudwatch_logs, follow_log, port_forward, records
from cli.jobs.workdir import in_bucket
from cli.main import VERBS, app
from infra.jobs.cluster import CONFIG_MAP, CONFIG_MAP_KEY, CONFIG_MAP_NAMESPACE
from infra.kubernetes import kubeconfigs
from infra.naming import JOB_LABEL, JOB_SERVICE_ACCOUNT, POOL_LABEL, ROLE_LABEL
from testkit.hostile_objects import COLLECTIONS, JOB, LONG_AGO, Object, hostile_objects, make_folder_data
from testkit.memory_api import KINDS, MemoryApi, Request
from tests.pure.controlled_jobs import make_main_object, make_timestamp, make_workers
from tests.pure.controller_world import World, parse_namespace
from tests.pure.job_world import SHARED, make_cluster

HOSTILE, OTHER = "team-a", "team-b"
EXAMPLES: Final = int(os.environ.get("GPUMPI_EXAMPLES", "80"))
EXPLORE = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)
BUCKET, ACCOUNT, GROUP = "gpumpi-test-keys", "123456789012", "/gpumpi/test/jobs"

# --- the cluster -------------------------------------------------------------------------------------------------------------


def make_description(*, log_group: str = "") -> Any:
    first, second = make_cluster().namespaces
    spaces = [
        space.model_copy(update={"name": name, "volumes": (SHARED,)}) for space, name in ((first, HOSTILE), (second, OTHER))
    ]
    return make_cluster(namespaces=tuple(spaces), region="us-west-2", account=ACCOUNT, bucket=BUCKET, log_group=log_group)


def make_valid_job(namespace: str, name: str) -> dict[str, list[Object]]:
    main = make_main_object("torchrun")
    main["spec"] |= {"template": {"spec": {}}}
    main["metadata"] |= {"namespace": namespace, "name": name, "uid": f"uid-{name}-{namespace}"}
    main["metadata"]["labels"] |= {JOB_LABEL: name}
    pods = make_workers()
    for pod in pods:
        pod["metadata"] |= {"namespace": namespace, "uid": f"{namespace}-{pod['metadata']['name']}"}
        pod["metadata"]["labels"] |= {JOB_LABEL: name}
    return {"Job": [main], "Pod": pods}


def make_api(hostile: Mapping[str, Sequence[Object]], description: Any, *, is_valid_too: bool) -> MemoryApi:
    """Return the API server of a cluster with the hostile objects and, with `is_valid_too`, a valid job in their namespace."""
    stored: dict[str, list[Object]] = {kind: list(items) for kind, items in hostile.items()}
    metadata = {"name": CONFIG_MAP, "namespace": CONFIG_MAP_NAMESPACE, "creationTimestamp": make_timestamp(0)}
    described = {"metadata": metadata, "data": {CONFIG_MAP_KEY: description.to_json()}}
    node = {"metadata": {"name": "one", "labels": {POOL_LABEL: "train"}, "creationTimestamp": make_timestamp(0)}}
    node |= {"spec": {}, "status": {"conditions": [], "allocatable": {}, "capacity": {}}}
    more: list[dict[str, list[Object]]] = [{"ConfigMap": [described], "Node": [node]}, make_valid_job(OTHER, "good")]
    for objects in [*more, *([make_valid_job(HOSTILE, JOB)] if is_valid_too else [])]:
        for kind, items in objects.items():
            names = [(item["metadata"]["namespace"], item["metadata"]["name"]) for item in stored.get(kind, ())]
            is_new = [item for item in items if (item["metadata"].get("namespace"), item["metadata"]["name"]) not in names]
            stored.setdefault(kind, []).extend(is_new)
    return MemoryApi(stored)


class Aws:
    """A service of AWS without resources, which records the calls."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Object]] = []

    def __getattr__(self, operation: str) -> Any:
        return lambda *names, **arguments: self._answer(operation, arguments)

    def get_paginator(self, operation: str) -> Any:
        return SimpleNamespace(paginate=lambda **arguments: self._answer(operation, arguments) or [{"logStreams": []}])

    def _answer(self, operation: str, arguments: Object) -> Object:
        self.calls.append((operation, arguments))
        return {}


class Listener:
    """Listening socket of `port-forward`, whose user presses ^C."""

    def __enter__(self) -> "Listener":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def getsockname(self) -> tuple[str, int]:
        return "127.0.0.1", 6006

    def accept(self) -> Any:
        raise KeyboardInterrupt


def interrupt(seconds: float) -> None:
    raise KeyboardInterrupt


# --- verbs -------------------------------------------------------------------------------------------------------------------

IN_A: Final = ["-n", HOSTILE]
COMMANDS: Final[Mapping[str, Sequence[Sequence[str]]]] = {
    "status": [["status"], ["status", *IN_A, "--json"]],
    "health": [["health"], ["health", "one", "--json"]],
    "dashboard": [["dashboard"]],  # the page's data
    "submit": [["submit", "{folder}/job.yaml"], ["submit", "{folder}/new.yaml"], ["submit", "{folder}/new.yaml", "--follow"]],
    "jobs": [["jobs", "-A", "--all"], ["jobs", *IN_A, "--all", "--json"]],
    "goodput": [["goodput"], ["goodput", JOB, "--json"]],
    "logs": [["logs", JOB, *IN_A, *more] for more in ([], ["--all"], ["--hang"], ["--follow"], ["--worker", "0", "--json"])],
    "exec": [["exec", JOB, *IN_A, "--", "true"], ["exec", JOB, *IN_A, "--launcher", "--", "true"]],
    "port-forward": [["port-forward", JOB, "6006", *IN_A]],
    "cancel": [["cancel", JOB, *IN_A]],
    "delete": [["delete", JOB, *IN_A]],
    "smoke": [["smoke", *IN_A]],
}
"""Maps a verb to the commands that a colleague or an administrator runs."""
MUTATING: Final[Mapping[str, frozenset[str]]] = {
    "submit": frozenset({"POST Job", "POST StatefulSet", "POST Service", "POST ConfigMap", "POST Secret", "DELETE Job"})
    | {"POST MPIJob", "DELETE ConfigMap", "DELETE MPIJob"},
    "smoke": frozenset({"POST MPIJob", "POST ConfigMap", "POST Secret", "DELETE MPIJob"}),
    "logs": frozenset({"POST Job", "DELETE Job"}),  # a pod that reads the volume
    "exec": frozenset({"CONNECT Pod"}),
    "cancel": frozenset({"POST Job", "DELETE ConfigMap", *(f"DELETE {kind}" for kind in COLLECTIONS if kind.endswith("Job"))})
    | {"DELETE JobSet"},
}
"""Maps a verb to the changes that it may request, only in the namespace of the hostile objects."""
MUTATING_LIKE: Final = {"delete": "cancel"}
WITHOUT_JOBS: Final = {
    "acceptance": "runs verbs of this table as other processes, and needs a deployed stack",
    "import": "reads only the description of the cluster",
    "cost": "reads records and jobs with the functions of `jobs` and `goodput`; the rest comes from AWS",
}
"""Maps each verb with access to Kubernetes that is not in COMMANDS to the reason."""


def list_kubernetes_verbs() -> set[str]:
    panels = ("All clusters", "EKS and existing Kubernetes clusters")
    return {verb for panel in panels for verb in VERBS[panel]} | {"cost"}


def test_every_verb_for_kubernetes_is_tested_with_hostile_objects() -> None:
    assert list_kubernetes_verbs() == COMMANDS.keys() | WITHOUT_JOBS.keys()


@contextmanager
def connect(api: MemoryApi, aws: Aws) -> Iterator[None]:
    """Let verbs use this API server and this AWS, and never wait."""

    def make_clients(region: str) -> SimpleNamespace:
        return SimpleNamespace(s3=aws, logs=aws, region=region)

    console.print_progress_once.cache_clear()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(kubeconfigs, "load_connection", lambda *_: api)
        patched.setattr(in_bucket, "Clients", make_clients)
        patched.setattr(cloudwatch_logs, "Clients", make_clients)
        patched.setattr(records, "COMPLETE_SECONDS", 0.0)
        patched.setattr(follow_log, "time", SimpleNamespace(sleep=interrupt, monotonic=lambda: 0.0))
        patched.setattr(port_forward, "_open_listener", lambda port: Listener())
        patched.setattr(pod_streams, "run_command", lambda *_: CompletedProcess([], 0, b"", b""))
        yield


def run_command(arguments: Sequence[str], folder: Path) -> Result | None:
    """Run a command. Returns None for the dashboard, whose page is built and not served."""
    if list(arguments) == ["dashboard"]:
        access = Access()
        look = make_status_query(None, folder, access, folder)
        spending = cluster_reader.SpendingReader(None, None)
        reader = cluster_reader.Reader(look, cluster_reader.Kubernetes(access.connect), spending)
        reader.start()
        assert "good" in json.dumps(reader.build_page())
        return None
    return CliRunner().invoke(app, [argument.format(folder=folder) for argument in arguments])


def check_requests(verb: str, requests: Sequence[Request]) -> None:
    """Check that each request has a plain path, and that those that change something are allowed for the verb."""
    allowed = MUTATING.get(MUTATING_LIKE.get(verb, verb), frozenset())
    for request in requests:
        assert re.fullmatch(r"version|(api|apis/[a-z0-9.-]+)/v[a-z0-9]+/[A-Za-z0-9./_-]+", request.path), request
        segments = request.path.split("/")
        assert not {"", ".", ".."} & set(segments), request
        if request.method == "GET":
            continue
        match = re.fullmatch(rf".*/namespaces/{HOSTILE}/([a-z]+)(/[^/]+(/exec)?)?", request.path)
        assert match and f"{request.method} {KINDS[match[1]]}" in allowed, request
        if request.method == "POST":
            check_created_object(request.body, KINDS[match[1]])


def check_created_object(created: Object, kind: str) -> None:
    """Check kind, place and permissions of an object. Pods for files of jobs also get no more than the folder."""
    assert (created["kind"], created["metadata"]["namespace"]) == (kind, HOSTILE)
    text = json.dumps(created)
    assert set(re.findall(r'"serviceAccountName": "([^"]*)"', text)) <= {JOB_SERVICE_ACCOUNT}
    assert '"automountServiceAccountToken": true' not in text
    if created["metadata"]["name"].startswith("files-") and kind == "Job":
        assert not re.search(r"hostPath|privileged|hostNetwork|hostPID|secretKeyRef", text)
        (container,) = created["spec"]["template"]["spec"]["containers"]
        last = [*container.get("command", ()), *container.get("args", ())][-1]
        assert re.fullmatch(rf"3600|/shared/\.gpumpi/jobs/{HOSTILE}/[a-z0-9-]+\.[0-9a-f]{{8}}", last), last


def check_aws_calls(calls: Sequence[tuple[str, Object]]) -> None:
    for operation, arguments in calls:
        if operation == "describe_log_streams":
            assert arguments == {"logGroupName": GROUP, "logStreamNamePrefix": f"{HOSTILE}/{JOB}/"}
            continue
        assert (operation, arguments["Bucket"], arguments["ExpectedBucketOwner"]) == ("delete_object", BUCKET, ACCOUNT)
        assert re.fullmatch(rf"workdirs/{HOSTILE}/[0-9a-f]{{64}}/[0-9a-f]{{8}}\.tar\.gz", arguments["Key"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with files of a job with the name of the hostile one, and of a new one."""
    path = tmp_path_factory.mktemp("jobs")
    for name in (JOB, "new"):
        values = {"name": name, "namespace": HOSTILE, "pool": "small", "workers": 2, "image": "openmpi:5", "command": ["true"]}
        values |= {"launcher": "standalone" if name == "new" else "mpijob", "volumes": [{"name": "shared"}]}
        (path / ("new.yaml" if name == "new" else "job.yaml")).write_text(json.dumps(values))
    return path


@pytest.mark.parametrize("verb", COMMANDS)
@EXPLORE
@given(hostile=hostile_objects(HOSTILE), is_valid_too=st.booleans(), has_log_group=st.booleans())
def test_verb_changes_nothing_outside_the_hostile_namespace(
    verb: str, hostile: dict[str, list[Object]], is_valid_too: bool, has_log_group: bool, folder: Path
) -> None:
    for command in COMMANDS[verb]:
        api = make_api(hostile, make_description(log_group=GROUP if has_log_group else ""), is_valid_too=is_valid_too)
        aws = Aws()
        with connect(api, aws):
            done = run_command(command, folder)
        if done is not None:
            assert done.exception is None or isinstance(done.exception, SystemExit), (command, done.output)
            assert "Traceback" not in done.output
        check_requests(verb, api.requests)
        check_aws_calls(aws.calls)


@pytest.mark.parametrize(
    ("verb", "sent"),
    [
        ("submit", "POST MPIJob"),
        ("smoke", "POST MPIJob"),
        ("exec", "CONNECT Pod"),
        ("logs", "POST Job"),
        ("cancel", "POST Job"),
        ("cancel", "DELETE ConfigMap"),
        ("delete", "DELETE Job"),
    ],
)
def test_verb_does_its_work_in_this_cluster(verb: str, sent: str, folder: Path) -> None:
    """If the verbs did nothing here, the tests with hostile objects would prove nothing."""
    metadata = {"name": "x", "namespace": HOSTILE, "creationTimestamp": LONG_AGO, "labels": {JOB_LABEL: JOB, ROLE_LABEL: "files"}}
    api = make_api({"ConfigMap": [{"metadata": metadata, "data": make_folder_data()}]}, make_description(), is_valid_too=True)
    if verb in ("submit", "logs"):
        api.objects["Job"] = [main for main in api.objects["Job"] if main["metadata"]["namespace"] != HOSTILE]
    with connect(api, Aws()):
        run_command(COMMANDS[verb][0], folder)
    check_requests(verb, api.requests)
    assert sent in {
        f"{request.method} {KINDS[request.path.split('/namespaces/')[1].split('/')[1]]}"
        for request in api.requests
        if f"/namespaces/{HOSTILE}/" in request.path
    }


def test_event_of_a_job_namespace_about_a_node_is_no_warning_of_the_node() -> None:
    """The API server accepts an event about a node in a job namespace."""
    about = {"kind": "Node", "name": "one", "namespace": HOSTILE}
    metadata = {"name": "forged", "namespace": HOSTILE, "creationTimestamp": make_timestamp(30)}
    event = {"involvedObject": about, "type": "Warning", "reason": "AcceleratedHardwareReady", "message": "NvidiaXID79Error: x"}
    stated = []
    for namespace in ("default", HOSTILE):
        forged = {**event, "metadata": {**metadata, "namespace": namespace}, "lastTimestamp": make_timestamp(30)}
        with connect(make_api({"Event": [forged]}, make_description(), is_valid_too=False), Aws()):
            stated.append("NvidiaXID79Error" in CliRunner().invoke(app, ["health", "one", "--json"]).stdout)
    assert stated == [True, False]


VERBS_OF_OTHERS: Final = (
    ["jobs", "-A", "--json"],
    ["jobs", "-n", OTHER, "--json"],
    ["status", "--json"],
    ["logs", "good", "-n", OTHER, "--json"],
    ["cancel", "good", "-n", OTHER, "--json"],
)


@EXPLORE
@given(hostile=hostile_objects(HOSTILE))
def test_verbs_handle_the_job_of_another_namespace(hostile: dict[str, list[Object]]) -> None:
    for command in VERBS_OF_OTHERS:
        api = make_api(hostile, make_description(), is_valid_too=False)
        with connect(api, Aws()):
            done = run_command(command, Path())
        assert done is not None and done.exit_code == 0 and "good" in done.stdout, (command, done.output if done else "")
        assert all(f"/namespaces/{OTHER}/" in request.path for request in api.requests if request.method != "GET")


# --- job controller ----------------------------------------------------------------------------------------------------------

CONTROLLER_REQUESTS: Final = (
    r"(POST|PUT|DELETE) /api/v1/namespaces/team-a/configmaps(/[a-z0-9.-]+)?",
    r"DELETE /api/v1/namespaces/team-a/pods/[a-z0-9.-]+",
    r"POST /api/v1/namespaces/team-a/events",
    r"PATCH /apis/batch/v1/namespaces/team-a/jobs/[a-z0-9.-]+(/status)?",
    r"PATCH /apis/apps/v1/namespaces/team-a/statefulsets/[a-z0-9.-]+",
    r"PATCH /apis/kubeflow.org/v2beta1/namespaces/team-a/mpijobs/[a-z0-9.-]+",
)
"""Changes that the job controller may request because of the objects in a namespace."""


def run_controller(hostile: Mapping[str, Sequence[Object]]) -> list[tuple[str, str]]:
    """Return the requests of two rounds that change something."""
    world = World()
    for kind, items in hostile.items():
        for item in items:
            world.server.add(COLLECTIONS[kind].format(HOSTILE), item)
    world.start()
    return world.run(2)


@cache
def list_usual_requests() -> set[tuple[str, str]]:
    return {request for request in run_controller({}) if parse_namespace(request) != HOSTILE}


@settings(EXPLORE, max_examples=3 * EXAMPLES)
@given(hostile=hostile_objects(HOSTILE, most=6))
def test_job_controller_changes_nothing_outside_the_hostile_namespace(hostile: dict[str, list[Object]]) -> None:
    sent = run_controller(hostile)
    assert {request for request in sent if parse_namespace(request) != HOSTILE} == list_usual_requests()
    for method, url in sent:
        if parse_namespace((method, url)) == HOSTILE:
            assert any(re.fullmatch(pattern, f"{method} {url}") for pattern in CONTROLLER_REQUESTS), (method, url)
