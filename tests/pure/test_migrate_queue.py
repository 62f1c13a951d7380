"""`migrate-queue` writes each object of an outdated kind once, and then records the version."""

import copy
from collections.abc import Sequence
from typing import Any

import pytest

from cli.clusters.kubernetes_access import Access, Object
from cli.errors import CommandError, Conflict, NotFound
from cli.jobs import migrate_queue


def definition(kind: str, plural: str, *stored: str, group: str = "kueue.x-k8s.io") -> Object:
    versions = [{"name": "v1beta1", "storage": False}, {"name": "v1beta2", "storage": True}]
    return {
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {"group": group, "names": {"kind": kind, "plural": plural}, "versions": versions},
        "status": {"storedVersions": list(stored)},
    }


class Cluster:
    """API server that records each write, and rejects writes to the given objects."""

    server = "https://10.0.0.1:6443"

    def __init__(
        self, definitions: list[Object], objects: Sequence[str] = (), refused: dict[str, CommandError] | None = None
    ) -> None:
        self.definitions = {one["metadata"]["name"]: one for one in definitions}
        self.objects, self.refused = objects, refused or {}
        self.written: list[str] = []

    def list(self, kind: str) -> list[Object]:
        return copy.deepcopy(list(self.definitions.values()))

    def get(self, kind: str, name: str) -> Object:
        return copy.deepcopy(self.definitions[name])

    def list_at(self, path: str, kind: str) -> Sequence[Object]:
        return [{"metadata": {"name": name, "namespace": "jobs"}, "spec": {"of": kind}} for name in self.objects]

    def replace(self, manifest: Object, path: str | None = None, subresource: str = "") -> None:
        name = manifest["metadata"]["name"]
        if error := self.refused.pop(name, None):
            raise error
        if manifest["kind"] == "CustomResourceDefinition":
            assert subresource == "status"
            self.definitions[name] = manifest
        else:
            assert path == "apis/kueue.x-k8s.io/v1beta2/{namespace}workloads"
            assert manifest["spec"] == {"of": "Workload"} and manifest["apiVersion"] == "kueue.x-k8s.io/v1beta2"
        self.written.append(name)

    def stored(self) -> Sequence[Any]:
        return [one["status"]["storedVersions"] for one in self.definitions.values()]


def run(monkeypatch: pytest.MonkeyPatch, cluster: Any) -> int:
    monkeypatch.setattr(Access, "connect", lambda self: cluster)
    return migrate_queue.command()


OUTDATED = definition("Workload", "workloads", "v1beta1", "v1beta2")
RECORD = "workloads.kueue.x-k8s.io"


def test_objects_are_written_before_the_version_is_recorded(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = Cluster([OUTDATED, definition("Cohort", "cohorts", "v1beta2")], ["a", "b"])
    assert run(monkeypatch, cluster) == 0
    assert cluster.written == ["a", "b", RECORD]
    assert cluster.stored() == [["v1beta2"], ["v1beta2"]]
    assert capsys.readouterr().out == "workloads: 2 objects rewritten\nKueue's objects are stored as v1beta2\n"
    assert run(monkeypatch, cluster) == 0
    assert cluster.written == ["a", "b", RECORD], "the second run writes nothing"


@pytest.mark.parametrize("error", [Conflict("changed"), NotFound("gone")])
def test_an_object_that_changes_meanwhile_needs_no_second_write(error: CommandError, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster([OUTDATED], ["a", "b"], {"a": error})
    assert run(monkeypatch, cluster) == 0
    assert cluster.written == ["b", RECORD]


def test_an_object_that_cannot_be_written_leaves_the_version_on_record(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster([OUTDATED], ["a", "b"], {"b": CommandError("the webhook is down")})
    with pytest.raises(CommandError, match="the webhook is down"):
        run(monkeypatch, cluster)
    assert cluster.stored() == [["v1beta1", "v1beta2"]]


def test_a_definition_that_changes_meanwhile_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster([OUTDATED], ["a"], {RECORD: Conflict("changed")})
    assert run(monkeypatch, cluster) == 0
    assert cluster.stored() == [["v1beta2"]]


def test_without_kueue_the_setting_that_installs_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        CommandError, match=r"Kueue is not installed on https://10\.0\.0\.1:6443; `platform\.queue: true` installs it"
    ):
        run(monkeypatch, Cluster([definition("MPIJob", "mpijobs", "v1", group="kubeflow.org")]))
