"""On a real API server, only the job controller can write the records of jobs. The policy and the permissions are those of
the default platform."""

import json
import ssl
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import urllib3

from infra.naming import JOB_NAMESPACE, PLATFORM_NAMESPACE, RECORD_KEY, RECORD_LABEL
from infra.platform.job_controller.component import NAME
from infra.platform.job_controller.in_pod import record
from infra.platform.job_controller.in_pod.api import Api
from infra.platform.job_controller.in_pod.phases import Phase
from infra.platform.job_controller.in_pod.store import CONFIG_MAPS, Store, trim_config_map
from localcloud.tools.build import BuildError
from testkit.control_plane import ControlPlane
from testkit.waiting import wait_until
from tests.program.platform_world import deploy_default_platform, list_manifests

ADA = "ada"
"""Administrator of the job namespace."""
ROOT = "root"
"""Administrator of the cluster."""
RECORDS = f"/api/v1/namespaces/{JOB_NAMESPACE}/configmaps"
MERGE, APPLY = "application/merge-patch+json", "application/apply-patch+yaml"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
PATHS = {
    "ServiceAccount": "/api/v1/namespaces/{}/serviceaccounts",
    "Role": f"{RBAC}/namespaces/{{}}/roles",
    "RoleBinding": f"{RBAC}/namespaces/{{}}/rolebindings",
    "ValidatingAdmissionPolicy": "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings",
}
Answer = tuple[int, str]
"""Status and message."""


def create_objects(plane: ControlPlane) -> None:
    """Create the objects of the default platform that decide who may write records, and the administrator's permissions."""
    for namespace in (JOB_NAMESPACE, PLATFORM_NAMESPACE):
        plane.request("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
    for manifest in list_manifests(deploy_default_platform(), *PATHS):
        namespace = manifest["metadata"].get("namespace")
        if namespace in (JOB_NAMESPACE, PLATFORM_NAMESPACE) or "AdmissionPolicy" in manifest["kind"]:
            plane.request("POST", PATHS[manifest["kind"]].format(namespace), manifest)
    for part in ("view", "edit", "admin"):  # a controller, which does not run here, joins them into the role `admin`
        binding = {
            "metadata": {"name": f"ada-{part}"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": f"system:aggregate-to-{part}"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": ADA}],
        }
        plane.request("POST", PATHS["RoleBinding"].format(JOB_NAMESPACE), binding)


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    running = ControlPlane(tmp_path_factory.mktemp("plane"))
    try:
        running.start()
    except BuildError as error:
        pytest.skip(str(error))
    try:
        create_objects(running)
        wait_until(partial(create, running, "probe", RECORD_LABEL, ROOT), lambda answer: answer[0] == 403)
        wait_until(partial(create, running, "first"), lambda answer: answer[0] == 201)
        yield running
    finally:
        running.stop()


@pytest.fixture
def store(plane: ControlPlane, tmp_path: Path) -> Store:
    """The job controller's store of records, with the token of its service account."""
    path = f"/api/v1/namespaces/{PLATFORM_NAMESPACE}/serviceaccounts/{NAME}/token"
    (tmp_path / "token").write_text(plane.request("POST", path, {"spec": {}})["status"]["token"])
    context = ssl.create_default_context(cafile=str(plane.folder / "certificates" / "apiserver.crt"))
    return Store(Api("127.0.0.1", plane.port, context, tmp_path / "token"))


def send(plane: ControlPlane, user: str, method: str, path: str, body: Any = None, kind: str = "application/json") -> Answer:
    headers = {"Authorization": "Bearer root", "Impersonate-User": user, "Content-Type": kind}
    if user == ROOT:
        headers["Impersonate-Group"] = "system:masters"
    with urllib3.PoolManager(ca_certs=str(plane.folder / "certificates" / "apiserver.crt")) as pool:
        answer = pool.request(method, plane.url + path, headers=headers, body=None if body is None else json.dumps(body).encode())
    return answer.status, str(answer.json().get("message", ""))


def create(plane: ControlPlane, name: str, label: str = "x", user: str = ADA, data: Any = None) -> Answer:
    manifest = {"metadata": {"name": name, "labels": {label: "train"}}, "data": data or {"key": "value"}}
    return send(plane, user, "POST", RECORDS, manifest)


def write_record(store: Store, job: str) -> str:
    """Write the record of a job as the job controller does. Return the name of its ConfigMap."""
    new = record.create_record(f"uid-{job}", job, JOB_NAMESPACE, "2026-11-23T12:00:00Z")
    assert store.write(new, None)
    return record.build_config_map_name(job, f"uid-{job}")


def assert_is_refused(answer: Answer) -> None:
    status, message = answer
    assert status == 403, message
    assert f"only the job controller may write a ConfigMap with the label {RECORD_LABEL}" in message
    assert "Remove the label; to delete a record, use `scripts/cluster delete JOB`" in message


def test_job_controller_creates_changes_and_prunes_records(plane: ControlPlane, store: Store) -> None:
    name = write_record(store, "own")
    stored = plane.request("GET", f"{RECORDS}/{name}")
    ended = record.create_record("uid-own", "own", JOB_NAMESPACE, "2026-01-01T00:00:00Z")
    record.enter_phase(ended, Phase.SUCCEEDED, "2026-01-02T00:00:00Z")
    assert store.write(ended, stored)
    changed = plane.request("GET", f"{RECORDS}/{name}")
    assert json.loads(changed["data"][RECORD_KEY])["phase"] == "Succeeded"
    store.prune_records({name: trim_config_map(changed)}, [], "2026-11-23T12:00:00Z")
    assert plane.request("GET", f"{RECORDS}/{name}") is None


@pytest.mark.parametrize("user", [ADA, ROOT])
def test_nobody_else_can_create_a_record(plane: ControlPlane, user: str) -> None:
    assert_is_refused(create(plane, "forged", RECORD_LABEL, user))
    labels = {RECORD_LABEL: ""}
    assert_is_refused(send(plane, user, "POST", RECORDS, {"metadata": {"generateName": "forged-", "labels": labels}}))
    applied = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "applied", "labels": labels}}
    assert_is_refused(send(plane, user, "PATCH", f"{RECORDS}/applied?fieldManager=x", applied, APPLY))


@pytest.mark.parametrize("user", [ADA, ROOT])
def test_nobody_else_can_turn_a_config_map_into_a_record(plane: ControlPlane, user: str) -> None:
    name = f"ordinary-{user}"
    assert create(plane, name)[0] == 201
    labels = {"metadata": {"labels": {RECORD_LABEL: "train"}}}
    assert_is_refused(send(plane, user, "PATCH", f"{RECORDS}/{name}", labels, MERGE))
    stored = plane.request("GET", f"{RECORDS}/{name}")
    stored["metadata"]["labels"] |= {RECORD_LABEL: "train"}
    assert_is_refused(send(plane, user, "PUT", f"{RECORDS}/{name}", stored))


CHANGES = {
    "content": {"data": {RECORD_KEY: "{}"}},
    "other label": {"metadata": {"labels": {RECORD_LABEL: "other"}}},
    "no label": {"metadata": {"labels": {RECORD_LABEL: None}}},
    "more labels": {"metadata": {"labels": {"gpumpi.io/role": "files"}}},
    "annotation": {"metadata": {"annotations": {"x": "y"}}},
    "finalizer": {"metadata": {"finalizers": ["example.com/never"]}},
    "owner": {"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "y"}]}},
    "immutable": {"immutable": True},
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("user", [ADA, ROOT])
def test_nobody_else_can_change_a_record(plane: ControlPlane, store: Store, user: str, change: str) -> None:
    name = write_record(store, f"kept-{user}-{change.replace(' ', '-')}")
    before = plane.request("GET", f"{RECORDS}/{name}")
    assert_is_refused(send(plane, user, "PATCH", f"{RECORDS}/{name}", CHANGES[change], MERGE))
    assert plane.request("GET", f"{RECORDS}/{name}") == before


def test_user_may_delete_a_record_but_not_replace_it(plane: ControlPlane, store: Store) -> None:
    name = write_record(store, "replaced")
    assert send(plane, ADA, "DELETE", f"{RECORDS}/{name}")[0] == 200
    assert_is_refused(create(plane, name, RECORD_LABEL, data={RECORD_KEY: "{}"}))


def test_record_that_is_deleted_in_the_foreground_disappears(plane: ControlPlane, store: Store) -> None:
    """Kubernetes' garbage collector removes its finalizer."""
    name = write_record(store, "foreground")
    options = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Foreground"}
    assert send(plane, ADA, "DELETE", f"{RECORDS}/{name}", options)[0] == 200
    wait_until(partial(plane.request, "GET", f"{RECORDS}/{name}"), lambda stored: stored is None)


def test_other_config_maps_are_written_as_before(plane: ControlPlane) -> None:
    name = f"{RECORDS}/free"
    assert create(plane, "free")[0] == 201
    assert (
        send(plane, ADA, "PATCH", name, {"metadata": {"labels": {"a": "b"}, "annotations": {RECORD_LABEL: "x"}}}, MERGE)[0] == 200
    )
    assert send(plane, ADA, "DELETE", name)[0] == 200
    assert create(plane, "free", user=ROOT)[0] == 201


def test_records_are_protected_in_every_namespace(plane: ControlPlane) -> None:
    """`jobs --all-namespaces` reads records in all of them."""
    manifest = {"metadata": {"name": "forged", "labels": {RECORD_LABEL: "train"}}}
    assert_is_refused(send(plane, ROOT, "POST", "/api/v1/namespaces/default/configmaps", manifest))


def test_namespace_with_records_can_be_deleted(plane: ControlPlane, store: Store) -> None:
    namespace = "temporary"
    plane.request("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
    for manifest in list_manifests(deploy_default_platform(), "Role", "RoleBinding"):
        if manifest["metadata"].get("namespace") == JOB_NAMESPACE and manifest["metadata"]["name"] == NAME:
            manifest["metadata"]["namespace"] = namespace
            plane.request("POST", PATHS[manifest["kind"]].format(namespace), manifest)
    new = record.create_record("uid", "last", namespace, "2026-11-23T12:00:00Z")
    wait_until(lambda: store.write(new, None), bool)
    assert plane.request("GET", "/" + CONFIG_MAPS.format(namespace) + "/" + record.build_config_map_name("last", "uid"))
    plane.request("DELETE", f"/api/v1/namespaces/{namespace}")
    wait_until(partial(plane.request, "GET", f"/api/v1/namespaces/{namespace}"), lambda stored: stored is None)
