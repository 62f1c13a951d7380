"""Commands leave out invalid objects that users of a namespace have written, print one note, and show everything else."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner, Result

from cli import console
from cli.clusters.dashboard import tables
from cli.clusters.kubernetes_access import Access
from cli.clusters.status.node_rows import derive_pool_status
from cli.jobs.foreign_jobs import find_log_pods, get_worker_index
from cli.jobs.records import find_last_hang, format_hang_report, list_records
from cli.main import app
from cli.nodes.health import findings
from infra.health import journal
from infra.naming import JOB_LABEL, RECORD_KEY, RECORD_LABEL
from infra.platform.job_controller.in_pod import record
from tests.pure.controlled_jobs import make_main_object, make_timestamp, make_workers
from tests.pure.job_world import TRAIN
from tests.pure.test_poisoned_objects import OUT_OF_SERVICE, TEXTS, VALUES, corrupted_documents, corrupted_texts, make_full_record

NOW = datetime(2026, 11, 23, 13, tzinfo=UTC)
GOOD = record.build_config_map(record.create_record("uid-good", "good", "team-b", make_timestamp(0)))
JOB_OF_B = make_main_object("torchrun")
JOB_OF_B["spec"]["template"] = {}
JOB_OF_B["metadata"] |= {"namespace": "team-b", "name": "good"}
JOB_OF_B["metadata"]["labels"] |= {JOB_LABEL: "good"}


class Cluster:
    """Cluster with a job and a record in team-b, and with objects that users of team-a have written."""

    namespace, server = None, "https://example.com"

    def __init__(self, *config_maps: Any, **objects: Any) -> None:
        self.config_maps, self.objects = [*config_maps, GOOD], objects
        self.deleted: list[str] = []

    def list_labeled(self, kind: str, label: str, namespace: str | None) -> Sequence[Any]:
        return [config_map for config_map in self.config_maps if namespace in (None, config_map["metadata"].get("namespace"))]

    def list(self, kind: str, namespace: str | None = None, selector: Any = None, **more: Any) -> list[Any]:
        return [*self.objects.get(kind, ()), *([JOB_OF_B] if kind == "Job" else [])]

    def find(self, kind: str, name: str, namespace: str) -> Any:
        return None

    def delete(self, kind: str, name: str, namespace: str) -> None:
        self.deleted.append(f"{kind} {namespace}/{name}")


def make_poisoned_record(text: str, **metadata: Any) -> dict[str, Any]:
    about = {"name": "train-record-uid-trai", "namespace": "team-a", "labels": {RECORD_LABEL: "train"}}
    return {"metadata": {**about, **metadata}, "data": {RECORD_KEY: text}}


def run_command(cluster: Cluster, *arguments: str) -> Result:
    console.print_progress_once.cache_clear()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Access, "connect", lambda _: cluster)
        return CliRunner().invoke(app, [*arguments])


COMMANDS = (
    ["jobs", "-A", "--all"],
    ["jobs", "-A", "--all", "--json"],
    ["goodput"],
    ["goodput", "--json"],
    ["delete", "good", "-n", "team-b"],
)


@given(config_map=corrupted_texts(make_full_record()).map(make_poisoned_record))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_invalid_record_does_not_hide_other_records(config_map: Any) -> None:
    for command in COMMANDS[:-1]:
        done = run_command(Cluster(config_map), *command)
        assert done.exit_code == 0, (command, done.exception)
        assert "good" in done.stdout
    readable = list_records(Cluster(config_map), None)  # type: ignore[arg-type]
    names = [row["cells"]["job"]["text"] for row in tables.build_ended_job_rows(readable, NOW)]
    assert len(names) <= 2 and isinstance(tables.describe_goodput([], readable, NOW), str)
    for entry in readable:
        if any(attempt.get("hang") for attempt in entry.content["attempts"]):
            shown = find_last_hang(Cluster(config_map), "team-a", entry.content["name"])  # type: ignore[arg-type]
            assert list(format_hang_report(shown))


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("text", ['{"version": 1}', "[]", "[" * 99_999, '{"version": 1, "uid": null}'], ids=["1", "2", "3", "4"])
def test_malformed_record_gets_one_warning_line(command: list[str], text: str) -> None:
    done = run_command(Cluster(make_poisoned_record(text, namespace="team-b")), *command)
    fix = "Delete it: kubectl delete configmap train-record-uid-trai -n team-b"
    note = f"cluster: ConfigMap train-record-uid-trai in namespace team-b is not a valid record of a job. {fix}"
    assert (done.exit_code, done.stderr.splitlines()) == (0, [note])


def test_a_record_of_another_namespace_or_job_is_not_shown() -> None:
    content = json.dumps(make_full_record())
    forged = [make_poisoned_record(content, namespace="team-b"), make_poisoned_record(content, labels={RECORD_LABEL: "good"})]
    assert [record.content["name"] for record in list_records(Cluster(*forged), None)] == ["good"]  # type: ignore[arg-type]


def test_record_of_a_newer_version_is_skipped_silently() -> None:
    done = run_command(Cluster(make_poisoned_record('{"version": 2}')), "goodput")
    assert (done.exit_code, done.stderr) == (0, "")


def make_foreign_job(kind: str, spec: Any, status: Any) -> dict[str, Any]:
    metadata = {"name": "odd", "namespace": "team-a", "creationTimestamp": make_timestamp(0), "uid": "odd"}
    return {"kind": kind, "metadata": metadata, "spec": spec, "status": status}


SPECS: dict[str, Any] = {
    "MPIJob": {"mpiReplicaSpecs": {"Worker": {"replicas": 2, "template": {"spec": {"nodeSelector": {"a": "b"}}}}}},
    "PyTorchJob": {"pytorchReplicaSpecs": {"Worker": {"replicas": 2}}, "runPolicy": {"suspend": False}},
    "JobSet": {"replicatedJobs": [{"replicas": 1, "template": {"spec": {"parallelism": 2}}}]},
    "TrainJob": {"trainer": {"numNodes": 2}},
    "RayJob": {"rayClusterSpec": {"workerGroupSpecs": [{"replicas": 1}]}},
}
STATUS = {
    "conditions": [{"type": "Failed", "status": "True", "lastTransitionTime": make_timestamp(9), "message": "x"}],
    "completionTime": make_timestamp(9),
    "replicaStatuses": {"Launcher": {"failed": 1}},
    "jobsStatus": [{"ready": 1}],
}


@given(data=st.data(), kind=st.sampled_from(sorted(SPECS)))
@settings(max_examples=100, deadline=None)
def test_malformed_job_does_not_hide_other_jobs(data: st.DataObject, kind: str) -> None:
    both = data.draw(
        corrupted_documents({"spec": SPECS[kind], "status": STATUS}) | st.fixed_dictionaries({"spec": VALUES, "status": VALUES})
    )
    odd = make_foreign_job(kind, both.get("spec"), both.get("status"))
    done = run_command(Cluster(**{kind: [odd]}), "jobs", "-A", "--json")
    assert done.exit_code == 0, done.exception
    shown = [load["name"] for load in json.loads(done.stdout)]
    assert "good" in shown
    assert "odd" in shown or "odd in namespace team-a is left out, because it cannot be read" in done.stderr


@pytest.mark.parametrize("kind", sorted(SPECS))
def test_a_job_without_labels_is_listed(kind: str) -> None:
    odd = make_foreign_job(kind, SPECS[kind], STATUS)
    odd["metadata"] |= {"labels": None, "annotations": None, "ownerReferences": None}
    assert {"good", "odd"} == {
        load["name"] for load in json.loads(run_command(Cluster(**{kind: [odd]}), "jobs", "-A", "--json").stdout)
    }


@given(quantity=TEXTS | st.text() | st.from_regex(r"[0-9]{1,4}(m|k|M|Ki|Ei|e3)?", fullmatch=True))
@settings(deadline=None)
def test_gpu_quantities_of_pods_and_nodes_parse_identically(quantity: str) -> None:
    (pod, _) = make_workers()
    pod["spec"]["containers"][0]["resources"] = {"requests": {"nvidia.com/gpu": quantity}}
    status = {"allocatable": {"nvidia.com/gpu": quantity}, "capacity": {"nvidia.com/gpu": quantity}, "conditions": []}
    node = {"metadata": {"name": "one", "labels": TRAIN.node_selector}, "spec": {}, "status": status}
    used = derive_pool_status(TRAIN, [node], [pod]).gpus_used
    assert findings.assess_node_health(node, [], [], NOW).gpus == (used, used)


def test_quantity_with_a_suffix_is_counted() -> None:
    (pod, _) = make_workers()
    pod["spec"]["containers"][0]["resources"] = {"requests": {"nvidia.com/gpu": "1k"}}
    node: Any = {"metadata": {"name": "one", "labels": TRAIN.node_selector}, "spec": {}, "status": {}}
    assert derive_pool_status(TRAIN, [node], [pod]).gpus_used == 1000


@given(annotations=st.dictionaries(TEXTS | st.just("batch.kubernetes.io/job-completion-index"), TEXTS | st.text()), label=TEXTS)
def test_invalid_replica_indexes_in_user_labels_are_ignored(annotations: Any, label: str) -> None:
    labels = {"gpumpi.io/role": "worker", "training.kubeflow.org/replica-index": label}
    pod = {"metadata": {"name": "a-worker-x", "labels": labels, "annotations": annotations}}
    assert find_log_pods([pod]) == [pod]
    assert get_worker_index(pod) is None or get_worker_index(pod) in range(10**9)


@given(
    text=corrupted_texts(
        {"version": 1, "entries": [{**OUT_OF_SERVICE, "node": "one", "uid": "1", "instance": "i", "steps": []}], "held": []}
    )
)
@settings(deadline=None)
def test_corrupt_journal_keeps_its_other_entries(text: str) -> None:
    entry = {
        "node": "two",
        "uid": "2",
        "instance": "i",
        "at": make_timestamp(0),
        "condition": "x",
        "reason": "y",
        "action": "reboot",
    }
    whole = {**entry, "state": "gone", "steps": [{"state": "gone", "at": make_timestamp(0)}]}
    damaged = journal.parse_journal(text)["entries"]
    entries = journal.parse_journal(json.dumps({"version": 1, "entries": [*damaged, {}, None, 5, whole], "held": []}))["entries"]
    assert entries == [*damaged, whole]
    assert journal.update_journal({"version": 1, "entries": entries, "held": []}, [], [], NOW)["entries"]
