"""Manifests of other systems, applied with kubectl in a namespace with Pod Security `baseline`.

Each manifest is our own, with the constructs of a public file (tests/corpus/SOURCES.md). Only the CPU requests are
smaller, as for all pods in the local cloud, because the nodes share the CPUs of this machine.
"""

import shutil
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from localcloud import mirror
from testkit.job_cluster import POOL, JobCluster
from testkit.waiting import wait_until

pytestmark = [pytest.mark.xdist_group("jobs"), pytest.mark.mission_only, pytest.mark.usefixtures("foreign_job_cleanup")]

NAMESPACE = "foreign"
PYTORCH_JOBS = "manifests/base/crds/kubeflow.org_pytorchjobs.yaml"
CPU = {"limits": {"cpu": 1, "memory": "1Gi"}, "requests": {"cpu": "50m", "memory": "256Mi"}}
P5 = {"nvidia.com/gpu": 8, "vpc.amazonaws.com/efa": 32}
SSHD = {"args": ["-De", "-f", "/home/mpiuser/.sshd_config"], "command": ["/usr/sbin/sshd"]}
MPIUSER = {"securityContext": {"runAsUser": 1000}}


def build_replica(count: int, container: dict[str, Any], **pod: Any) -> dict[str, Any]:
    return {"replicas": count, "template": {"spec": {"containers": [{"name": "main", **container}], **pod}}}


def build_mpi_job(name: str, launcher: dict[str, Any], worker: dict[str, Any], **spec: Any) -> dict[str, Any]:
    replicas = {"Launcher": build_replica(1, launcher), "Worker": build_replica(2, worker)}
    return build_manifest("kubeflow.org/v2beta1", "MPIJob", name, mpiReplicaSpecs=replicas, **spec)


def build_manifest(version: str, kind: str, name: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec}


def build_pi_job() -> dict[str, Any]:
    own = {"image": "mpioperator/mpi-pi:openmpi", "resources": CPU, **MPIUSER}
    start = {"command": ["mpirun"], "args": ["-n", "2", "/home/mpiuser/pi"]}
    return build_mpi_job("pi", {**own, **start}, {**own, **SSHD}, sshAuthMountPath="/home/mpiuser/.ssh", slotsPerWorker=1)


def build_intel_pi_job() -> dict[str, Any]:
    own = {"image": "mpioperator/mpi-pi:intel", "imagePullPolicy": "Always", "resources": CPU, **MPIUSER}
    start = {"args": ["mpirun", "-n", "2", "/home/mpiuser/pi"]}
    ready = {"readinessProbe": {"tcpSocket": {"port": 2222}, "initialDelaySeconds": 2}}
    serve = {"args": [*SSHD["command"], *SSHD["args"]]}
    more = {"sshAuthMountPath": "/home/mpiuser/.ssh", "mpiImplementation": "Intel"}
    return build_mpi_job("pi-intel", {**own, **start}, {**own, **serve, **ready}, **more)


def build_tensorflow_benchmarks_job() -> dict[str, Any]:
    own = {"image": "mpioperator/tensorflow-benchmarks:latest"}
    start = {"command": ["mpirun", "--allow-run-as-root", "-np", "2", "python", "tf_cnn_benchmarks.py"]}
    return build_mpi_job("tensorflow-benchmarks", {**own, **start}, {**own, "resources": {"limits": {"nvidia.com/gpu": 1}}})


def build_tensorflow_mnist_job() -> dict[str, Any]:
    own = {"image": "docker.io/kubeflow/mpi-horovod-mnist", "resources": CPU}
    start = {"command": ["mpirun"], "args": ["-np", "2", "--allow-run-as-root", "python", "/examples/tensorflow_mnist.py"]}
    return build_mpi_job("tensorflow-mnist", {**own, **start}, own)


def build_nccl_tests_job() -> dict[str, Any]:
    own = {"image": "public.ecr.aws/hpc-cloud/nccl-tests:latest"}
    start = {"command": ["/opt/amazon/openmpi/bin/mpirun", "-np", "16", "-N", "8", "all_reduce_perf"]}
    manifest = build_mpi_job(
        "nccl-tests", {**own, **start}, {**own, "resources": {"limits": P5, "requests": P5}}, slotsPerWorker=8
    )
    manifest["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]["volumes"] = [HOST_SHM]
    return manifest


HOST_SHM = {"name": "shmem", "hostPath": {"path": "/dev/shm"}}


def build_fsdp_job() -> dict[str, Any]:
    """Return the manifest with its template variables replaced, as its README requires."""
    own = {"image": "registry.example.com/fsdp:1", "command": ["torchrun", "--nnodes=2", "train.py"], "resources": {"limits": P5}}
    worker = build_replica(2, {**own, "name": "pytorch"}, volumes=[HOST_SHM])
    elastic = {"rdzvBackend": "c10d", "minReplicas": 1, "maxReplicas": 64}
    return build_manifest("kubeflow.org/v1", "PyTorchJob", "fsdp", pytorchReplicaSpecs={"Worker": worker}, elasticPolicy=elastic)


def apply_manifest(cluster: JobCluster, manifest: dict[str, Any]) -> str:
    """Apply a manifest as a user would. Return the name of the job."""
    done = cluster.kubectl("apply", "-n", NAMESPACE, "-f", "-", text=yaml.safe_dump(manifest))
    assert done.code == 0, done.err
    return str(manifest["metadata"]["name"])


def list_jobs(cluster: JobCluster) -> list[dict[str, Any]]:
    jobs: list[dict[str, Any]] = cluster.cluster("jobs", "-n", NAMESPACE, "--json").json
    return jobs


def find_job(cluster: JobCluster, name: str) -> dict[str, Any]:
    return next((job for job in list_jobs(cluster) if job["name"] == name), {"phase": "gone", "reason": ""})


def collect_diagnostics(cluster: JobCluster) -> str:
    return cluster.kubectl("get", "pods,events", "-n", NAMESPACE, "-o", "wide").out


def assert_commands_show(cluster: JobCluster, name: str, reason: str) -> None:
    """Check that `jobs`, `status` and `logs` give the reason why the job does not run."""
    job = wait_until(lambda: find_job(cluster, name), lambda job: reason in job["reason"])
    assert job["phase"] in ("Queued", "Starting")
    status = cluster.cluster("status", "-n", NAMESPACE, "--json").json
    (line,) = [row for row in status["jobs"] if row["name"] == name]
    assert reason in line["waitsFor"]
    assert reason in cluster.cluster("logs", name, "-n", NAMESPACE).err


@pytest.fixture
def foreign_job_cleanup(job_cluster: JobCluster) -> Iterator[None]:
    yield
    for job in list_jobs(job_cluster):
        job_cluster.cluster("cancel", job["name"], "-n", NAMESPACE)


@pytest.fixture
def pytorch_job_crd(job_cluster: JobCluster) -> Iterator[None]:
    """Install the CRD of the training operator, without the operator."""
    go = shutil.which("go")
    assert go is not None
    file = mirror.download_module(go, "github.com/kubeflow/training-operator@v1.9.3") / PYTORCH_JOBS
    result = job_cluster.kubectl("apply", "--server-side", "-f", str(file))
    assert result.code == 0, result.err
    wait_until(lambda: job_cluster.kubectl("get", "pytorchjobs", "-n", NAMESPACE).code == 0)  # the API server serves the kind
    yield
    job_cluster.kubectl("delete", "-f", str(file))


@pytest.mark.mission_only
@pytest.mark.parametrize("example", [build_pi_job, build_intel_pi_job], ids=["pi", "pi-intel"])
def test_an_mpi_job_from_the_mpi_operator_examples_runs_unchanged(job_cluster: JobCluster, example: Any) -> None:
    name = apply_manifest(job_cluster, example())
    job = wait_until(lambda: find_job(job_cluster, name), lambda job: job["phase"] in ("Succeeded", "Failed"))
    assert job["phase"] == "Succeeded", collect_diagnostics(job_cluster)
    assert "pi is approximately 3.14" in job_cluster.cluster("logs", name, "-n", NAMESPACE).out


@pytest.mark.mission_only
@pytest.mark.parametrize("example", [build_tensorflow_benchmarks_job, build_tensorflow_mnist_job], ids=["benchmarks", "mnist"])
def test_every_command_reports_an_image_that_cannot_be_pulled(job_cluster: JobCluster, example: Any) -> None:
    manifest = example()
    image = manifest["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]["image"]
    assert_commands_show(job_cluster, apply_manifest(job_cluster, manifest), image.removeprefix("docker.io/"))


@pytest.mark.mission_only
def test_nccl_tests_for_larger_nodes_stay_queued_for_devices_missing_in_the_cluster(job_cluster: JobCluster) -> None:
    assert_commands_show(job_cluster, apply_manifest(job_cluster, build_nccl_tests_job()), "insufficient quota for ")


def test_a_pytorch_job_is_gang_scheduled_once_its_kind_exists(job_cluster: JobCluster, pytorch_job_crd: None) -> None:
    assert_commands_show(job_cluster, apply_manifest(job_cluster, build_fsdp_job()), "insufficient quota for ")
    (workload,) = job_cluster.list_objects("workloads", namespace=NAMESPACE)
    (pods,) = workload["spec"]["podSets"]
    assert (workload["metadata"]["ownerReferences"][0]["kind"], pods["count"]) == ("PyTorchJob", 2)


def test_only_pods_that_request_gpus_run_on_nodes_with_gpus(job_cluster: JobCluster) -> None:
    limits: dict[str, dict[str, Any]] = {"with-gpu": {"nvidia.com/gpu": 1}, "without-gpu": {}}
    for name, devices in limits.items():
        own = {"image": "mpioperator/mpi-pi:openmpi", "command": ["true"], "resources": {**CPU, "limits": devices}}
        pod = build_replica(1, own, restartPolicy="Never")["template"]
        apply_manifest(job_cluster, build_manifest("batch/v1", "Job", name, template=pod))
    wait_until(lambda: {job["phase"] for job in list_jobs(job_cluster)}, lambda phases: phases == {"Succeeded"})
    pods = {
        item["metadata"]["labels"]["batch.kubernetes.io/job-name"]: item["spec"]
        for item in job_cluster.list_objects("pods", namespace=NAMESPACE)
    }
    pools = {name: spec["nodeSelector"]["gpumpi.io/pool"] for name, spec in pods.items()}
    assert pools == {"with-gpu": POOL, "without-gpu": "system"}
    tolerated = {name: {toleration.get("key") for toleration in spec["tolerations"]} for name, spec in pods.items()}
    assert "nvidia.com/gpu" in tolerated["with-gpu"] and "nvidia.com/gpu" not in tolerated["without-gpu"]
