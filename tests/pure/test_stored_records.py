"""Users of a job namespace can write any text into the ConfigMaps that record the files of jobs. Because of such
text, other users' verbs change nothing outside that namespace, and nothing in AWS except the folders of that
namespace."""

import json
import re
from collections.abc import Mapping, Sequence
from subprocess import CompletedProcess
from types import SimpleNamespace
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kubernetes.client.exceptions import ApiException
from typer.testing import CliRunner

from cli.clusters import pod_streams
from cli.clusters.kubernetes_access import Access, Cluster
from cli.errors import CommandError
from cli.jobs.workdir import in_bucket, in_cluster
from cli.main import app
from infra.jobs import files
from infra.jobs.cluster import CONFIG_MAP, CONFIG_MAP_KEY
from infra.kubernetes import kubeconfigs
from infra.naming import JOB_LABEL
from tests.pure.job_world import make_cluster, placed

Object = dict[str, Any]
NAMESPACE, JOB = "mpi-jobs", "mnist"
BUCKET, ACCOUNT = "gpumpi-test-keys", "123456789012"
DESCRIBED = make_cluster(region="us-west-2", account=ACCOUNT, bucket=BUCKET)
GENUINE = files.build_folder_record(placed(DESCRIBED, name=JOB), "0123abcd")["data"]
KEY = f"workdirs/{NAMESPACE}/{'a' * 64}/0123abcd.tar.gz"
BINDING = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "RoleBinding",
    "metadata": {"name": "own", "namespace": "kube-system", "labels": {}},
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
}
ROOT_POD = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "root", "namespace": NAMESPACE},
    "spec": {"template": {"spec": {"serviceAccountName": "admin", "containers": [{"name": "a", "image": "a:1"}]}}},
}


class ApiServer:
    """Fake API server whose namespace contains these ConfigMaps; it records write requests."""

    context, namespace, server = "test", NAMESPACE, "https://cluster.test"

    def __init__(self, config_maps: Sequence[Object]) -> None:
        self.config_maps, self.writes = config_maps, list[tuple[str, str, Any]]()

    def list_failing_checks(self) -> list[str]:
        return []

    def call(self, method: str, path: str, query: Mapping[str, str] | None = None, body: Any = None, **_: Any) -> Any:
        if method != "GET":
            self.writes.append((method, path, body))
            return make_answer({**(body or {}), "metadata": {"uid": "1", **(body or {}).get("metadata", {})}})
        if path.endswith(CONFIG_MAP):
            return make_answer({"data": {CONFIG_MAP_KEY: DESCRIBED.to_json()}})
        labels = dict(part.split("=") for part in (query or {}).get("labelSelector", "").split(",") if "=" in part)
        if path == f"api/v1/namespaces/{NAMESPACE}/configmaps":
            return make_answer(
                {"items": [item for item in self.config_maps if labels.items() <= item["metadata"]["labels"].items()]}
            )
        if path.endswith("/pods") and "batch.kubernetes.io/job-name" in labels:
            state = {"containerStatuses": [{"name": "files", "state": {"running": {}}}]}
            return make_answer({"items": [{"metadata": {"name": "files-1-x"}, "spec": {}, "status": state}]})
        if re.search(r"namespaces/[^/]+/[a-z]+/", path):
            raise ApiException(status=404, reason="NotFound")
        return make_answer({"items": []})


def make_answer(document: Any) -> Any:
    return SimpleNamespace(data=json.dumps(document))


TEXTS = st.one_of(
    st.text(max_size=20),
    st.sampled_from(
        [
            *(
                "",
                "..",
                "../../kube-system",
                "/",
                "*",
                "kube-system",
                "shared",
                "train",
                "small",
                "high",
                "a b",
                "$(id)",
                "\x1b[2J",
            ),
            *(
                json.dumps(BINDING),
                json.dumps(ROOT_POD),
                "[]",
                "{}",
                "null",
                "openmpi:5",
                "evil.example/a:1",
                "a:1\n",
                "0123abcd",
            ),
            *(
                "someone-elses-bucket",
                BUCKET,
                "us-east-1",
                KEY,
                f"workdirs/team-a/{'a' * 64}/0123abcd.tar.gz",
                "jobs/mpi-jobs/key",
            ),
            *(f"workdirs/{NAMESPACE}/../team-a/x.tar.gz", f"{KEY}\n", "/shared/.gpumpi/jobs", "/", "/etc"),
        ]
    ),
)
KEYS = st.sampled_from([*GENUINE, "imagePullSecrets", "object", "bucket", "region", "folder", "helper.json", "remover.json"])
DATA = st.one_of(
    st.none(), st.dictionaries(KEYS, TEXTS), st.dictionaries(KEYS, TEXTS, max_size=3).map(lambda forged: {**GENUINE, **forged})
)


def make_config_map(data: Object | None, label: str, place: str, annotations: dict[str, str]) -> Object:
    metadata = {
        "name": "forged",
        "namespace": place,
        "labels": {**files.SELECTOR, JOB_LABEL: label},
        "annotations": annotations,
        "creationTimestamp": "2020-01-01T00:00:00Z",
        "ownerReferences": [{"kind": "RoleBinding", "name": "own"}],
    }
    return {"metadata": metadata, **({} if data is None else {"data": data})}


CONFIG_MAPS = st.lists(
    st.builds(
        make_config_map,
        DATA,
        st.sampled_from([JOB, JOB, "other", "..", "a/../b", "Name_With.Dots"]),
        st.sampled_from([NAMESPACE, "kube-system"]),
        st.dictionaries(TEXTS, TEXTS, max_size=2),
    ),
    min_size=1,
    max_size=4,
)
VERBS: Final = {
    "cancel": lambda: CliRunner().invoke(app, ["cancel", JOB]),
    "delete": lambda: CliRunner().invoke(app, ["delete", JOB]),
    "logs": lambda: CliRunner().invoke(app, ["logs", JOB]),
    "expiry at submit": lambda: in_cluster.remove_expired_files(Access().connect(), NAMESPACE),
}


class Aws:
    """Records the calls of S3."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Object]] = []

    def __getattr__(self, name: str) -> Any:
        return lambda **arguments: self.calls.append((name, arguments)) or {}


@pytest.mark.parametrize("verb", VERBS)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(config_maps=CONFIG_MAPS)
def test_forged_file_records_affect_nothing_outside_their_namespace(
    verb: str, config_maps: list[Object], monkeypatch: pytest.MonkeyPatch
) -> None:
    api, aws = ApiServer(config_maps), Aws()
    monkeypatch.setattr(kubeconfigs, "load_connection", lambda *_: api)
    monkeypatch.setattr(in_bucket, "Clients", lambda region: SimpleNamespace(s3=aws, region=region))
    monkeypatch.setattr(pod_streams, "run_command", lambda *_: CompletedProcess([], 0, b"", b""))
    result = VERBS[verb]()
    assert result is None or result.exception is None or isinstance(result.exception, SystemExit), result.exception
    for method, path, body in api.writes:
        check_write(method, path, body)
    for name, arguments in aws.calls:
        assert (name, arguments["Bucket"], arguments["ExpectedBucketOwner"]) == ("delete_object", BUCKET, ACCOUNT)
        assert re.fullmatch(rf"workdirs/{NAMESPACE}/[0-9a-f]{{64}}/[0-9a-f]{{8}}\.tar\.gz", arguments["Key"])


def check_write(method: str, path: str, body: Any) -> None:
    """Check that a request deletes a record or a helper, or creates a helper that has no permissions."""
    where = urlsplit(f"https://x/{path}")
    assert not parse_qs(where.query) and ".." not in where.path
    if method == "DELETE":
        assert re.fullmatch(
            rf"/(api/v1/namespaces/{NAMESPACE}/configmaps/forged|apis/batch/v1/namespaces/{NAMESPACE}/jobs/files-\w+)", where.path
        )
        return
    assert (method, where.path) == ("POST", f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs")
    assert (body["kind"], body["metadata"]["namespace"], "annotations" in body["metadata"]) == ("Job", NAMESPACE, False)
    pod = body["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["automountServiceAccountToken"] is False and pod["serviceAccountName"] == "mpi-job"
    assert pod["volumes"] == [
        {"name": "gpumpi-shared", "persistentVolumeClaim": {"claimName": "shared"}},
        {"name": "tmp", "emptyDir": {}},
    ]
    assert "envFrom" not in container and container["securityContext"]["allowPrivilegeEscalation"] is False
    assert re.fullmatch(rf"3600|/shared/\.gpumpi/jobs/{NAMESPACE}/[a-z0-9-]+\.[0-9a-f]{{8}}", container["command"][-1])


@pytest.mark.parametrize("verb", VERBS)
def test_valid_file_record_is_accepted(verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    api = ApiServer([make_config_map(GENUINE, JOB, NAMESPACE, {})])
    monkeypatch.setattr(kubeconfigs, "load_connection", lambda *_: api)
    monkeypatch.setattr(pod_streams, "run_command", lambda *_: CompletedProcess([], 0, b"/mnist-launcher-x\n hello\n", b""))
    VERBS[verb]()
    (created,) = [body for method, _, body in api.writes if method == "POST"]
    assert created["spec"]["template"]["spec"]["containers"][0]["image"].endswith("/openmpi:5")
    assert [path for method, path, _ in api.writes if method == "DELETE"]


def test_invalid_file_record_is_reported_and_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    api = ApiServer([make_config_map({"remover.json": json.dumps(BINDING)}, JOB, NAMESPACE, {})])
    monkeypatch.setattr(kubeconfigs, "load_connection", lambda *_: api)
    done = CliRunner().invoke(app, ["cancel", JOB])
    assert "ConfigMap forged: is not a valid record of a job's files" in done.output
    assert "Delete it: kubectl delete configmap forged -n mpi-jobs" in done.output
    assert "there is no job mnist" in done.output and api.writes == []


def test_undeletable_files_do_not_prevent_job_submission(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    api = ApiServer(
        [make_config_map(GENUINE, "other", NAMESPACE, {}), make_config_map({**GENUINE, "id": "f" * 8}, "more", NAMESPACE, {})]
    )
    api_call, refused = api.call, []

    def refuse_post(method: str, path: str, *arguments: Any, **more: Any) -> Any:
        if method == "POST":
            refused.append(path)
            raise ApiException(status=403, reason="Forbidden")
        return api_call(method, path, *arguments, **more)

    monkeypatch.setattr(api, "call", refuse_post)
    monkeypatch.setattr(kubeconfigs, "load_connection", lambda *_: api)
    in_cluster.remove_expired_files(Access().connect(), NAMESPACE)
    assert len(refused) == 2 and api.writes == []
    assert capsys.readouterr().err.count("the files of ConfigMap forged were not removed: ") == 2


@pytest.mark.parametrize("name", ["..", ".", "", "a/b", "a/../../secrets/b", "a?dryRun=All", "a#b", "a%2fb", "a b", "a\n"])
@pytest.mark.parametrize("place", ["name", "namespace"])
def test_names_that_would_change_the_path_of_a_request_are_refused(
    name: str, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    api = ApiServer([])
    monkeypatch.setattr(kubeconfigs, "load_connection", lambda *_: api)
    of_object = {"name": "a", "namespace": NAMESPACE, place: name}
    running = Cluster(None, None)
    for call in (
        lambda: running.delete("ConfigMap", of_object["name"], of_object["namespace"]),
        lambda: running.get("ConfigMap", of_object["name"], of_object["namespace"]),
        lambda: list(running.log(of_object["name"], of_object["namespace"], follow=False)),
        lambda: running.websocket(of_object["name"], of_object["namespace"], "exec", [], doing="x"),
    ):
        with pytest.raises(CommandError, match="is not the name of a Kubernetes object"):
            call()
    assert api.writes == []
