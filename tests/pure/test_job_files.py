"""Files of submitted jobs on the shared volume: where ranks start, which logs are kept, and the pods that access them."""

import os
import signal
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from cli.jobs.workdir.in_cluster import is_record_expired
from infra.jobs import files
from infra.jobs.files import JobFiles
from infra.jobs.in_pods import read_source
from tests.pure.job_world import placed


def list_containers(manifest: dict[str, Any]) -> list[dict[str, Any]]:
    spec = manifest.get("spec", {})
    templates = [replica["template"] for replica in spec.get("mpiReplicaSpecs", {}).values()] + [spec.get("template", {})]
    pods = [template.get("spec", {}) for template in templates]
    return [container for pod in pods for container in (*pod.get("initContainers", ()), *pod.get("containers", ()))]


def test_job_folder_is_on_the_first_writable_cluster_volume() -> None:
    assert files.find_job_files(placed(volumes=[{"name": "shared", "mountPath": "/data/"}]), "7") == JobFiles(
        "/data/.gpumpi/jobs/mpi-jobs", "mnist.7"
    )
    for volumes in ([], [{"name": "shared", "readOnly": True}], [{"name": "own-claim", "mountPath": "/own"}]):
        assert files.find_job_files(placed(volumes=volumes), "7") is None


def test_file_access_pods_have_no_secrets_or_gpus_and_delete_themselves() -> None:
    waiting = files.build_waiting_job(placed(env={"A": "b"}, secretEnv={"TOKEN": {"name": "s", "key": "k"}}), "7")
    (main,) = list_containers(waiting)
    assert [variable["name"] for variable in main["env"]] == ["HOME", "USER", "LOGNAME"]
    assert set(main["resources"]["limits"]) == {"cpu", "memory"}
    assert waiting["spec"]["ttlSecondsAfterFinished"] == 0 and waiting["spec"]["activeDeadlineSeconds"] > 0
    assert waiting["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "jobs"


@pytest.mark.parametrize(
    "more",
    [{}, {"priority": "high", "imagePullSecrets": ["login", "other.login"]}, {"imagePullSecrets": [], "namespace": "team-a"}],
)
def test_record_is_sufficient_to_remove_the_files_of_a_job(more: dict[str, Any]) -> None:
    placement = placed(launcher="standalone", **more)
    record = files.build_folder_record(placement, "0123abcd")
    labels, namespace = record["metadata"]["labels"], record["metadata"]["namespace"]
    again, folder = files.parse_folder_record(labels["gpumpi.io/job"], record["data"], placement.cluster, namespace)
    assert folder == files.find_job_files(placement, "0123abcd")
    assert files.build_cleanup_job(again, folder, "1") == files.build_cleanup_job(placement, folder, "1")
    assert files.build_waiting_job(again, "1") == files.build_waiting_job(placement, "1")
    assert "ownerReferences" not in record["metadata"]


def test_file_record_contains_no_manifest_and_no_path() -> None:
    assert set(files.build_folder_record(placed(), "0123abcd")["data"]) == {"id", "volume", "pool", "image", "priority"}


def test_a_folder_at_another_mount_path_is_removed_from_the_same_volume() -> None:
    placement = placed(volumes=[{"name": "shared", "mountPath": "/data"}])
    again, folder = files.parse_folder_record(
        "mnist", files.build_folder_record(placement, "0123abcd")["data"], placement.cluster, "mpi-jobs"
    )
    (main,) = list_containers(files.build_cleanup_job(again, folder, "1"))
    assert main["command"][-1] == "/shared/.gpumpi/jobs/mpi-jobs/mnist.0123abcd"
    assert {"name": "gpumpi-shared", "mountPath": "/shared"} in main["volumeMounts"]


def test_files_are_considered_old_after_thirty_days() -> None:
    record = {"metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"}}
    assert not is_record_expired(record, datetime(2026, 1, 30, tzinfo=UTC))
    assert is_record_expired(record, datetime(2026, 2, 1, tzinfo=UTC))


# --- kept logs ---------------------------------------------------------------------------------------------------------


def start_script(folder: Path, script: str, blocks: int = 2048) -> "subprocess.Popen[str]":
    """Start a script whose output goes to `folder`/logs/pod."""
    whole = read_source("log.sh").replace("/tmp/output", f"{folder}/output") + script
    environment = {**os.environ, "GPUMPI_LOG": f"{folder}/logs/pod", "GPUMPI_LOG_BLOCKS": str(blocks)}
    return subprocess.Popen(["/bin/sh", "-c", whole], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("code", [0, 3])
def test_output_and_errors_are_printed_and_saved_and_exit_code_is_kept(tmp_path: Path, code: int) -> None:
    process = start_script(tmp_path, f"set -eu; echo one; echo two >&2; (exec sleep 600) & exit {code}")
    out, _ = process.communicate(timeout=60)
    assert (process.returncode, out) == (code, "one\ntwo\n")
    assert (tmp_path / "logs" / "pod").read_text() == out


def test_a_script_that_gets_a_signal_keeps_its_last_lines(tmp_path: Path) -> None:
    process = start_script(tmp_path, "trap 'echo saved; exit 143' TERM; echo ready; while :; do sleep 0.05; done")
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=60)
    assert (process.returncode, out) == (143, "saved\n")
    assert (tmp_path / "logs" / "pod").read_text() == "ready\nsaved\n"


def test_output_above_the_limit_is_printed_but_not_saved(tmp_path: Path) -> None:
    process = start_script(tmp_path, "i=0; while [ $i -lt 2000 ]; do echo line $i; i=$((i + 1)); done", blocks=2)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out.splitlines()[-1]) == (0, "line 1999")
    assert (tmp_path / "logs" / "pod").stat().st_size == 1024
    assert "File too large" in err


def test_unwritable_volume_does_not_stop_the_job(tmp_path: Path) -> None:
    (tmp_path / "logs").write_text("a file instead of a folder")
    process = start_script(tmp_path, "echo one")
    out, _ = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, "one\n")
