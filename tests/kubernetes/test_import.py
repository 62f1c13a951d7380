"""A single command imports and runs a job of another system. test_coming_from.py contains more tests."""

import re
from pathlib import Path

import pytest

from testkit.job_cluster import JobCluster

pytestmark = [pytest.mark.xdist_group("jobs"), pytest.mark.usefixtures("job_cleanup")]

RANKS = "from mpi4py import MPI; w = MPI.COMM_WORLD; print('sum', w.allreduce(w.rank + 1), flush=True)"
TORCH = "import torch.distributed as d; d.init_process_group('gloo'); print('rank', d.get_rank(), 'of', d.get_world_size())"

MPIJOB_V1 = f"""
apiVersion: kubeflow.org/v1
kind: MPIJob
metadata: {{name: imported-v1}}
spec:
  mpiReplicaSpecs:
    Launcher:
      template:
        spec: {{containers: [{{name: mpi, image: "train:1", command: [mpirun, -np, "2", python3, -c, "{RANKS}"]}}]}}
    Worker:
      replicas: 2
      template: {{spec: {{containers: [{{name: mpi, image: "train:1"}}]}}}}
"""
JOB = f"""
apiVersion: batch/v1
kind: Job
metadata: {{name: imported-job}}
spec:
  template:
    spec:
      restartPolicy: Never
      containers:
        - name: main
          image: train:1
          command: [bash, -c, "mpirun -np 2 --oversubscribe python3 -c \\"{RANKS}\\""]
"""
PYTORCHJOB = f"""
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {{name: imported-torch}}
spec:
  pytorchReplicaSpecs:
    Master: &replica
      replicas: 1
      template: {{spec: {{containers: [{{name: pytorch, image: "train:1", command: [python3, -c, "{TORCH}"]}}]}}}}
    Worker: *replica
"""
TRAINJOB = f"""
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {{name: imported-train}}
spec:
  runtimeRef: {{name: torch-distributed}}
  trainer:
    image: train:1
    numNodes: 2
    numProcPerNode: 1
    command: [torchrun, --no_python, python3, -c, "{TORCH}"]
"""
SRUN_TORCHRUN = f"""#!/bin/bash
#SBATCH --nodes=2
#SBATCH --job-name=imported-srun
export TORCHRUN=torchrun
srun -l ${{TORCHRUN}} --nproc_per_node=1 --nnodes=$SLURM_JOB_NUM_NODES --rdzv_id=$SLURM_JOB_ID --rdzv_backend=c10d \\
  --rdzv_endpoint=$(hostname):29500 --no_python python3 -c "{TORCH}"
"""


def import_and_run(cluster: JobCluster, path: Path, text: str, *options: str) -> str:
    path.write_text(text)
    done = cluster.cluster("import", str(path), *options, "--submit", "--follow")
    assert done.code == 0, done.out + done.err
    return done.out


def test_a_kubernetes_job_that_calls_mpirun_can_be_imported_and_run(job_cluster: JobCluster, tmp_path: Path) -> None:
    said = import_and_run(job_cluster, tmp_path / "job.yaml", JOB, "--set", "image=openmpi:5", "--set", "slots=2")
    assert said.count("sum 3\n") == 2, said


@pytest.mark.mission_only
def test_an_mpijob_of_the_training_operator_can_be_imported_and_run(job_cluster: JobCluster, tmp_path: Path) -> None:
    said = import_and_run(job_cluster, tmp_path / "v1.yaml", MPIJOB_V1, "--set", "image=openmpi:5")
    assert said.count("sum 3\n") == 2, said


def list_pod_names(cluster: JobCluster) -> set[str]:
    return {pod["metadata"]["name"] for pod in cluster.list_objects("pods")}


COMPLIANT = """
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: checked}
spec:
  pytorchReplicaSpecs:
    Worker:
      replicas: 2
      template:
        spec:
          securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}
          containers:
            - name: pytorch
              image: "registry.test/fsdp:1"
              securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
"""


def test_validate_checks_the_pods_of_a_foreign_manifest_against_the_cluster(job_cluster: JobCluster, tmp_path: Path) -> None:
    file = tmp_path / "fsdp.yaml"
    file.write_text(COMPLIANT)
    before = list_pod_names(job_cluster)
    sound = job_cluster.cluster("validate", str(file), "--json")
    assert (sound.code, sound.json["problems"], sound.json["unchecked"]) == (0, [], []), sound.err
    file.write_text(COMPLIANT.replace("        spec:\n", "        spec:\n          priorityClassName: nobody\n"))
    refused = job_cluster.cluster("validate", str(file), "--json")
    (problem,) = refused.json["problems"]
    assert refused.code == 3
    assert problem["path"] == "PyTorchJob checked: spec.pytorchReplicaSpecs.Worker.template.spec"
    assert "the cluster rejects the pod: " in problem["message"] and "no PriorityClass with name nobody" in problem["message"]
    assert list_pod_names(job_cluster) <= before, "validate created a pod"


@pytest.mark.mission_only
@pytest.mark.mission("E", "torchrun")
@pytest.mark.parametrize("text", [PYTORCHJOB, TRAINJOB, SRUN_TORCHRUN], ids=["PyTorchJob", "TrainJob", "sbatch"])
def test_pytorch_ranks_of_imported_jobs_form_one_process_group(job_cluster: JobCluster, tmp_path: Path, text: str) -> None:
    said = import_and_run(job_cluster, tmp_path / "job.yaml", text, "--set", "image=pytorch:1")
    assert set(re.findall(r"rank \d of \d", said)) <= {"rank 0 of 2", "rank 1 of 2"}
    assert "rank 0 of 2" in said
