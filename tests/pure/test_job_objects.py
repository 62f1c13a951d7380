"""A job's objects are created even if a webhook does not immediately see the objects that were created first."""

from collections.abc import Sequence
from typing import Any

import pytest

from cli.clusters.kubernetes_access import Object
from cli.errors import Forbidden, NotFound
from cli.jobs import objects
from tests.pure.job_world import render_objects

UNSEEN = (
    'cannot create StatefulSet a: admission webhook "mstatefulset.kb.io" denied the request: Job.batch "a-launcher" not found'
)


class Cluster:
    """A cluster that rejects the given number of attempts to create a StatefulSet."""

    def __init__(self, refusals: int, message: str = UNSEEN) -> None:
        self.refusals, self.message = refusals, message
        self.made: list[str] = []
        self.deleted: list[str] = []

    def create(self, manifest: Object) -> Object:
        if manifest["kind"] == "StatefulSet" and self.refusals:
            self.refusals -= 1
            raise NotFound(self.message)
        self.made.append(manifest["kind"])
        return {**manifest, "metadata": {**manifest["metadata"], "uid": "1"}}

    def delete(self, kind: str, name: str, namespace: str) -> None:
        self.deleted.append(kind)


@pytest.fixture(autouse=True)
def skip_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects, "PAUSE_SECONDS", 0.0)


def test_worker_creation_is_retried_until_the_queue_sees_the_owner() -> None:
    cluster: Any = Cluster(refusals=3)
    objects.create_job_objects(cluster, render_objects(launcher="standalone"))
    assert cluster.made[-1] == "StatefulSet"
    assert cluster.deleted == []


def test_other_creation_error_fails_at_once_and_deletes_created_objects() -> None:
    cluster: Any = Cluster(refusals=1, message='cannot create StatefulSet a-worker: namespaces "zz" not found')
    with pytest.raises(NotFound):
        objects.create_job_objects(cluster, render_objects(launcher="standalone"))
    assert (cluster.refusals, cluster.deleted) == (0, ["Job"])


def test_creation_fails_if_the_webhook_never_sees_the_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects, "UNSEEN_SECONDS", 0.0)
    cluster: Any = Cluster(refusals=10**9)
    with pytest.raises(NotFound, match="admission webhook"):
        objects.create_job_objects(cluster, render_objects(launcher="standalone"))
    assert cluster.deleted == ["Job"]


class Listed:
    """A cluster with an unfinished Job in each of two namespaces. Records each request for pods and records."""

    def __init__(self, *, everywhere: bool) -> None:
        self.everywhere, self.requests = everywhere, list[tuple[str, str | None]]()

    def list(self, kind: str, namespace: str | None = None, selector: Any = None, **more: Any) -> list[Object]:
        if kind == "Pod":
            return self.read(kind, namespace)
        metadata = {"name": "a", "creationTimestamp": "2026-11-21T10:00:00Z"}
        spec = {"template": {"spec": {}}}
        places = ("one", "two") if kind == "Job" else ()
        return [{"metadata": {**metadata, "namespace": place}, "spec": spec} for place in places if namespace in (None, place)]

    def list_labeled(self, kind: str, label: str, namespace: str | None) -> Sequence[Object]:
        return self.read(kind, namespace)

    def read(self, kind: str, namespace: str | None) -> Any:
        self.requests.append((kind, namespace))
        if namespace is None and not self.everywhere:
            raise Forbidden("only in your own namespaces")
        return []


def test_listing_jobs_of_all_namespaces_needs_one_request_for_pods_and_one_for_records() -> None:
    cluster: Any = Listed(everywhere=True)
    assert len(objects.list_jobs(cluster, None)) == 2
    assert cluster.requests == [("Pod", None), ("ConfigMap", None)]


def test_user_who_may_not_list_all_namespaces_gets_jobs_of_each_permitted_namespace() -> None:
    cluster: Any = Listed(everywhere=False)
    assert len(objects.list_jobs(cluster, None)) == 2
    assert cluster.requests == [(kind, place) for kind in ("Pod", "ConfigMap") for place in (None, "one", "two")]
