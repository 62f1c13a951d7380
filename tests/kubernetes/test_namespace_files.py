"""Pods of one namespace cannot see, change or plant files of another one."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from localcloud.aws.account import ACCOUNT
from testkit.aws_clients import REGION
from testkit.job_cluster import IMAGE, NAMESPACE, JobCluster, build_python_command, write_job_file
from testkit.waiting import wait_until

pytestmark = pytest.mark.xdist_group("jobs")

OTHER = "foreign"
"""The second job namespace of tests/kubernetes/data/Pulumi.jobs.yaml."""
JOB = "planted"
WRITE = "open('/shared/secret-of-the-team', 'w').write('secret')"
ATTACK = f"""
import json, os, pathlib
def attempt(action):
    try:
        return action() or "done"
    except OSError as error:
        return error.strerror
keys = pathlib.Path("/shared/.gpumpi/ssh/{NAMESPACE}.{JOB}")
code = pathlib.Path("/shared/.gpumpi/jobs/{NAMESPACE}/{JOB}.1/workdir")
for folder in (keys / "users", code):
    folder.mkdir(parents=True, exist_ok=True)
for name in ("id_rsa", "id_rsa.pub", "authorized_keys"):
    (keys / name).write_text("ssh-ed25519 AAAAplanted")
print(json.dumps({{
    "seen": sorted(name for _, _, names in os.walk("/shared") for name in names if name.startswith("secret")),
    "neighbor": attempt(lambda: os.listdir("/shared/../gpumpi-jobs-{NAMESPACE}")),
    "link": attempt(lambda: os.symlink("../gpumpi-jobs-{NAMESPACE}", "/shared/link") or os.listdir("/shared/link")),
}}))
"""
KEY = "import pathlib; print('key', (pathlib.Path.home() / '.ssh' / 'id_rsa.pub').read_text().split()[1], flush=True)"


def run_pod(cluster: JobCluster, namespace: str, name: str, program: str) -> str:
    """Run a Python program in a pod that mounts the shared volume of its namespace. Return its output."""
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "restartPolicy": "Never",
            "securityContext": {"runAsNonRoot": True, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [
                {
                    "name": "main",
                    "image": f"{ACCOUNT}.dkr.ecr.{REGION}.amazonaws.com/gpumpi-jobs/{IMAGE}",
                    "command": ["python3", "-c", program],
                    "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
                    "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}},
                    "volumeMounts": [{"name": "shared", "mountPath": "/shared"}],
                }
            ],
            "volumes": [{"name": "shared", "persistentVolumeClaim": {"claimName": "shared"}}],
        },
    }
    created = cluster.kubectl("create", "-f", "-", text=json.dumps(pod))
    assert created.code == 0, created.err

    def read_phase() -> str:
        return cluster.kubectl("get", "pod", name, "-n", namespace, "-o", "jsonpath={.status.phase}").out

    try:
        phase = wait_until(read_phase, lambda value: value in ("Succeeded", "Failed"))
        output = cluster.kubectl("logs", name, "-n", namespace).out
    finally:
        cluster.kubectl("delete", "pod", name, "-n", namespace, "--wait=false")
    assert phase == "Succeeded", output
    return output


@pytest.fixture(scope="module")
def attack(job_cluster: JobCluster) -> Iterator[dict[str, Any]]:
    """Report of a pod in another namespace that planted keys and code for a job of the first namespace."""
    run_pod(job_cluster, NAMESPACE, "victim", WRITE)
    yield json.loads(run_pod(job_cluster, OTHER, "attacker", ATTACK))
    clean = "import shutil, os; shutil.rmtree('/shared/.gpumpi'); os.unlink('/shared/link')"
    run_pod(job_cluster, OTHER, "attacker-cleans", clean)
    run_pod(job_cluster, NAMESPACE, "victim-cleans", "import os; os.unlink('/shared/secret-of-the-team')")


def find_root(cluster: JobCluster, namespace: str) -> Path:
    """Return the folder that stores the files of a namespace."""
    (root,) = cluster.cloud.folder.glob(f"file-systems/*/gpumpi-jobs-{namespace}")
    return root


@pytest.mark.mission("D", "shared volume")
def test_a_pod_sees_no_file_of_another_namespace(job_cluster: JobCluster, attack: dict[str, Any]) -> None:
    missing = "No such file or directory"
    assert attack == {"seen": [], "neighbor": missing, "link": missing}
    assert (find_root(job_cluster, NAMESPACE) / "secret-of-the-team").read_text() == "secret"


def test_files_of_each_namespace_belong_to_a_user_of_its_own(job_cluster: JobCluster, attack: dict[str, Any]) -> None:
    roots = [find_root(job_cluster, namespace) for namespace in (NAMESPACE, OTHER)]
    files = [roots[0] / "secret-of-the-team", roots[1] / ".gpumpi/ssh" / f"{NAMESPACE}.{JOB}" / "id_rsa"]
    owners = [(root.stat().st_uid, file.stat().st_uid) for root, file in zip(roots, files, strict=True)]
    assert all(root == file for root, file in owners) and len(set(owners)) == 2
    assert all(uid > 65535 for pair in owners for uid in pair)


@pytest.mark.usefixtures("attack")
@pytest.mark.mission("D", "keys on the volume")
def test_a_job_never_uses_keys_that_a_pod_of_another_namespace_planted(job_cluster: JobCluster, tmp_path: Path) -> None:
    file = write_job_file(tmp_path, JOB, launcher="standalone", keyExchange="volume", command=build_python_command(KEY))
    try:
        result = job_cluster.cluster("submit", file, "--follow")
        assert result.code == 0, result.out + result.err
        keys = {line.split()[1] for line in result.out.splitlines() if line.startswith("key ")}
    finally:
        job_cluster.cluster("cancel", JOB)
    assert len(keys) == 1 and "AAAAplanted" not in keys


def test_a_claim_on_the_storage_class_of_another_namespace_is_refused(job_cluster: JobCluster) -> None:
    spec = {
        "accessModes": ["ReadWriteMany"],
        "storageClassName": f"efs-{NAMESPACE}",
        "resources": {"requests": {"storage": "1Gi"}},
    }
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "own", "namespace": OTHER}, "spec": spec}
    result = job_cluster.kubectl("create", "-f", "-", text=json.dumps(claim))
    assert result.code != 0 and "exceeded quota: no-foreign-storage-class" in result.err


def test_a_claim_never_binds_to_the_volume_of_another_namespace(job_cluster: JobCluster) -> None:
    """A user may know the label of the volume, but the volume is reserved for the claim of its namespace."""
    selector = {"matchLabels": {"gpumpi.io/shared-volume": NAMESPACE}}
    spec = {
        "accessModes": ["ReadWriteMany"],
        "storageClassName": "",
        "selector": selector,
        "resources": {"requests": {"storage": "1Gi"}},
    }
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "stolen", "namespace": OTHER},
        "spec": spec,
    }
    created = job_cluster.kubectl("create", "-f", "-", text=json.dumps(claim))
    assert created.code == 0, created.err

    def list_reasons() -> list[str]:
        path = "jsonpath={.items[*].reason}"
        events = job_cluster.kubectl("get", "events", "-n", OTHER, "--field-selector", "involvedObject.name=stolen", "-o", path)
        return events.out.split()

    try:
        wait_until(list_reasons, lambda reasons: "FailedBinding" in reasons)
        phase = job_cluster.kubectl("get", "pvc", "stolen", "-n", OTHER, "-o", "jsonpath={.status.phase}").out
    finally:
        job_cluster.kubectl("delete", "pvc", "stolen", "-n", OTHER)
    assert phase == "Pending"
