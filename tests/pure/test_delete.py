"""`delete` leaves nothing of a job behind, even if Kubernetes or kubectl has already deleted the job."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from cli.clusters.kubernetes_access import Access, Object
from cli.exit_codes import NOT_FOUND, OK
from cli.main import app
from infra.jobs import files
from infra.jobs.cluster import ClusterDescription
from infra.platform.job_controller.in_pod import record
from tests.pure.job_world import make_cluster
from tests.pure.job_world import placed as placed_job

NAME, NAMESPACE, ID = "mnist", "mpi-jobs", "0123abcd"


class Cluster:
    """Namespace without jobs, but with ConfigMaps of deleted jobs."""

    namespace = NAMESPACE

    def __init__(self, *config_maps: Object) -> None:
        self.config_maps = list(config_maps)
        self.created: list[Object] = []

    def description(self) -> ClusterDescription:
        return make_cluster()

    def find(self, kind: str, name: str, namespace: str) -> None:
        return None

    def list(self, kind: str, namespace: str, selector: dict[str, str] | None = None, **more: Any) -> list[Object]:
        listed = self.config_maps if kind == "ConfigMap" else []
        return [manifest for manifest in listed if (selector or {}).items() <= manifest["metadata"]["labels"].items()]

    def list_labeled(self, kind: str, label: str, namespace: str) -> Sequence[Object]:
        return [config_map for config_map in self.config_maps if label in config_map["metadata"]["labels"]]

    def create(self, manifest: Object) -> None:
        self.created.append(manifest)

    def delete(self, kind: str, name: str, namespace: str) -> None:
        assert kind == "ConfigMap"
        (gone,) = [config_map for config_map in self.config_maps if config_map["metadata"]["name"] == name]
        self.config_maps.remove(gone)


def make_files_record(name: str) -> Object:
    """Return the ConfigMap that lists a job's folder and logs."""
    placed = placed_job(name=name)
    located = files.find_job_files(placed, "1")
    assert located is not None
    return files.build_folder_record(placed, ID)


def make_job_record(name: str) -> Object:
    return record.build_config_map(record.create_record(f"uid-{name}", name, NAMESPACE, "2026-11-23T12:00:00Z"))


def run_delete(running: Cluster, monkeypatch: pytest.MonkeyPatch, *options: str) -> Result:
    monkeypatch.setattr(Access, "connect", lambda _: running)
    return CliRunner().invoke(app, ["delete", NAME, *options])


@pytest.mark.parametrize("records", [[make_job_record(NAME)], []], ids=["with a record", "without a record"])
def test_delete_removes_folder_and_logs_of_a_job_that_no_longer_exists(
    records: list[Object], monkeypatch: pytest.MonkeyPatch
) -> None:
    unrelated = [make_files_record("other"), make_job_record("other")]
    running = Cluster(make_files_record(NAME), *records, *unrelated)
    done = run_delete(running, monkeypatch)
    assert done.exit_code == OK, done.output
    assert running.config_maps == unrelated
    (remover,) = running.created
    (container,) = remover["spec"]["template"]["spec"]["containers"]
    assert container["command"][-1] == f"/shared/.gpumpi/jobs/{NAMESPACE}/{NAME}.{ID}"


def test_delete_reports_how_many_records_it_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run_delete(Cluster(make_job_record(NAME)), monkeypatch).output == f"job {NAME} deleted, with 1 record\n"
    done = run_delete(Cluster(make_files_record(NAME)), monkeypatch, "--json")
    assert json.loads(done.output) == {"name": NAME, "namespace": NAMESPACE, "records": 0}


def test_delete_of_unknown_job_suggests_a_similar_name(monkeypatch: pytest.MonkeyPatch) -> None:
    running = Cluster(make_files_record("other"), make_job_record("mnist2"))
    done = run_delete(running, monkeypatch)
    assert done.exit_code == NOT_FOUND
    assert "there is no job or record mnist in namespace mpi-jobs. Did you mean mnist2?" in done.output
    assert len(running.config_maps) == 2 and running.created == []
