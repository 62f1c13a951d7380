"""`migrate-queue` with a real API server and etcd: stored objects, and the CRDs that Kubernetes accepts afterwards."""

import base64
import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import urllib3
import yaml

from cli.jobs import migrate_queue
from infra.platform.objects import without_descriptions
from infra.versions import KUEUE_CRDS
from localcloud import mirror
from testkit.control_plane import ControlPlane, Objects
from testkit.waiting import wait_until

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GROUP = "kueue.x-k8s.io"
KINDS = {"localqueues": "LocalQueue", "workloadpriorityclasses": "WorkloadPriorityClass"}


def definition(plural: str, stored: str) -> dict[str, Any]:
    """Return a CRD of Kueue with `stored` as its storage version, which differs between v0.15.0 and v0.16.1."""
    (file,) = [one for one in KUEUE_CRDS if one.file.endswith(f"_{plural}.yaml")]
    found = without_descriptions(yaml.safe_load((mirror.ensure(print) / file.path).read_text()))
    for version in found["spec"]["versions"]:
        version["storage"] = version["name"] == stored
    return found


def apply(plane: ControlPlane, wanted: dict[str, Any]) -> Any:
    """Create the CRD, or replace its spec, and wait until the API server uses it."""
    address = f"{DEFINITIONS}/{wanted['metadata']['name']}"
    now = plane.request("GET", address)
    if now is None:
        plane.request("POST", DEFINITIONS, wanted)
    else:
        plane.request("PUT", address, {**now, "spec": {**wanted["spec"], "conversion": now["spec"]["conversion"]}})
    return wait_until(
        lambda: plane.request("GET", address),
        lambda found: any(one["type"] == "Established" for one in found.get("status", {}).get("conditions") or ()),
    )


def in_etcd(plane: ControlPlane, key: str) -> Any:
    """Read an object from etcd through etcd's JSON gateway."""
    body = {"key": base64.b64encode(f"/registry/{GROUP}/{key}".encode()).decode()}
    answer = urllib3.request("POST", f"http://127.0.0.1:{plane.etcd_port}/v3/kv/range", json=body).json()
    (found,) = answer["kvs"]
    return json.loads(base64.b64decode(found["value"]))


@pytest.fixture
def upgraded(plane: ControlPlane, objects: Objects) -> Iterator[dict[str, str]]:
    """Create objects in the storage version of Kueue 0.15, then apply the CRDs of Kueue 0.16. Yield the objects' etcd
    keys."""
    for plural in KINDS:
        apply(plane, definition(plural, "v1beta1"))
    space = objects.namespace
    queue = {"metadata": {"name": "default"}, "spec": {"clusterQueue": "default"}}
    plane.request("POST", f"/apis/{GROUP}/v1beta2/namespaces/{space}/localqueues", of("LocalQueue", queue))
    priority = {"metadata": {"name": "high"}, "value": 1000}
    plane.request("POST", f"/apis/{GROUP}/v1beta2/workloadpriorityclasses", of("WorkloadPriorityClass", priority))
    for plural in KINDS:
        apply(plane, definition(plural, "v1beta2"))
    await_storage(plane, f"namespaces/{space}/localqueues", f"localqueues/{space}", of("LocalQueue", queue))
    await_storage(plane, "workloadpriorityclasses", "workloadpriorityclasses", of("WorkloadPriorityClass", priority))
    yield {"localqueues": f"localqueues/{space}/default", "workloadpriorityclasses": "workloadpriorityclasses/high"}
    for plural in KINDS:
        plane.request("DELETE", f"{DEFINITIONS}/{plural}.{GROUP}")


def await_storage(plane: ControlPlane, path: str, key: str, example: dict[str, Any]) -> None:
    """Wait until the API server has noticed the new CRD and stores new objects in v1beta2."""
    address = f"/apis/{GROUP}/v1beta2/{path}"

    def stored() -> str:
        plane.request("POST", address, {**example, "metadata": {"name": "probe"}})
        version: str = in_etcd(plane, f"{key}/probe")["apiVersion"]
        plane.request("DELETE", f"{address}/probe")
        return version

    wait_until(stored, lambda version: version == f"{GROUP}/v1beta2")


def of(kind: str, content: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": f"{GROUP}/v1beta2", "kind": kind, **content}


def test_every_object_is_stored_in_the_new_version_and_the_earlier_one_can_be_removed(
    plane: ControlPlane, upgraded: dict[str, str], tmp_path: Path
) -> None:
    before = {plural: in_etcd(plane, key) for plural, key in upgraded.items()}
    assert {one["apiVersion"] for one in before.values()} == {f"{GROUP}/v1beta1"}
    without = copy.deepcopy(definition("localqueues", "v1beta2"))
    without["spec"]["versions"] = [one for one in without["spec"]["versions"] if one["name"] == "v1beta2"]
    with pytest.raises(AssertionError, match=r"missing from spec\.versions"):
        apply(plane, without)

    config = tmp_path / "kubeconfig.yaml"
    config.write_text(plane.kubeconfig())
    assert migrate_queue.command(kubeconfig=config) == 0

    after = {plural: in_etcd(plane, key) for plural, key in upgraded.items()}
    assert {one["apiVersion"] for one in after.values()} == {f"{GROUP}/v1beta2"}
    for plural, one in after.items():
        assert one == {**before[plural], "apiVersion": f"{GROUP}/v1beta2", "metadata": one["metadata"]}
        assert one["metadata"]["uid"] == before[plural]["metadata"]["uid"]
    assert apply(plane, without)["status"]["storedVersions"] == ["v1beta2"]
