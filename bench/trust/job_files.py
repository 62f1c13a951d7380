"""Surface: job files of strangers -> `submit`, and manifests and Slurm scripts -> `import`.

An imported job may only contain what a job file may contain. So the judge reads the result as a job file again.
"""

from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, Final

import yaml

from bench.trust.inputs import corrupt_document, corrupt_text, draw_text
from bench.trust.job_folders import CLUSTER
from bench.trust.judge import Judge
from bench.trust.stack_files import HOSTILE_YAML
from cli.jobs.importing import formats, import_command
from cli.jobs.importing.source import NotImportable
from infra.jobs.placed import KeyPair
from infra.jobs.reading import JobRefused, check_job_values, read_job_values, validate_job
from infra.jobs.render import render_job

JOB: Final = {
    **{"name": "train", "namespace": "team-a", "pool": "train", "workers": 2, "gpusPerWorker": 8, "launcher": "torchrun"},
    **{"image": "docker.io/library/openmpi:5", "command": ["python3", "train.py"], "env": {"A": "b"}, "maxRestarts": 3},
    **{"volumes": [{"name": "shared"}], "secretEnv": ["key"], "activeDeadlineSeconds": 60, "podOverrides": {"spec": {}}},
}
_CONTAINER: Final = {
    **{"name": "pytorch", "image": "example.com/a:1", "command": ["torchrun", "train.py"], "env": [{"name": "A", "value": "b"}]},
    **{"resources": {"limits": {"nvidia.com/gpu": 8, "memory": "4Gi"}}, "volumeMounts": [{"name": "v", "mountPath": "/v"}]},
    "securityContext": {"privileged": True},
}
_POD: Final = {
    **{"containers": [_CONTAINER], "volumes": [{"name": "v", "hostPath": {"path": "/"}}], "hostNetwork": True, "hostPID": True},
    **{"serviceAccountName": "admin", "nodeSelector": {"a": "b"}, "tolerations": [{"operator": "Exists"}]},
}
_REPLICAS: Final = {"replicas": 2, "restartPolicy": "OnFailure", "template": {"spec": _POD}}
_METADATA: Final = {"name": "train", "namespace": "team-b", "annotations": {"a": "b"}, "labels": {"gpumpi.io/record": "x"}}
MANIFESTS: Final = (
    {
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "metadata": _METADATA,
        "spec": {"mpiReplicaSpecs": {"Launcher": _REPLICAS, "Worker": _REPLICAS}},
    },
    {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": _METADATA,
        "spec": {"pytorchReplicaSpecs": {"Master": _REPLICAS, "Worker": _REPLICAS}},
    },
    {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": _METADATA,
        "spec": {"template": {"spec": _POD}, "parallelism": 2, "completions": 2},
    },
    {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": _METADATA,
        "spec": {"runtimeRef": {"name": "torch"}, "trainer": {"numNodes": 2, "image": "a", "command": ["b"]}},
    },
)
SCRIPT: Final = """#!/bin/bash
#SBATCH --job-name=train --nodes=2
#SBATCH --ntasks-per-node=8 --gres=gpu:8 --time=1-00:00:00
#SBATCH --output=%x.log
export A=b
module load cuda
srun --mpi=pmix python3 train.py
"""
DIRECTIVES: Final = (
    "--nodes=",
    "--wrap=",
    "--uid=0",
    "--chdir=/",
    "--export=ALL",
    "--gres=gpu:-1",
    "--time=99999999-0",
    "-N",
    "--comment='",
)
DANGEROUS: Final = ("hostPath", "hostNetwork", "hostPID", "hostIPC", "privileged")


def draw_import(random: Random) -> str:
    """Return a text that a user may try to import."""
    if random.randrange(3) == 0:
        lines = SCRIPT.splitlines()
        for _ in range(random.randrange(1, 4)):
            position = random.randrange(len(lines))
            added = (
                f"#SBATCH {random.choice(DIRECTIVES)}{draw_text(random)}",
                draw_text(random),
                corrupt_text(random, lines[position]),
            )
            lines[position:position] = [random.choice(added)]
        return "\n".join(lines)
    return draw_yaml(random, random.choice(MANIFESTS))


def draw_yaml(random: Random, document: Any) -> str:
    if random.randrange(10) == 0:
        return random.choice(HOSTILE_YAML)
    for _ in range(random.randrange(1, 4)):
        document = corrupt_document(random, document)
    try:
        text = yaml.safe_dump(document, allow_unicode=True)
    except yaml.YAMLError:
        text = repr(document)
    return corrupt_text(random, text) if random.randrange(4) == 0 else text


def judge_objects(judge: Judge, values: Any) -> None:
    """Report objects of a job that leave its namespace, or that Pod Security `restricted` would refuse."""
    placed = validate_job(values, CLUSTER)
    namespace = placed.namespace.name
    for manifest in render_job(placed, lambda: KeyPair("private", "public")):
        where = manifest["metadata"].get("namespace")
        judge.require(where == namespace, "crossed", f"{manifest['kind']} in {where!r} instead of {namespace!r}")
        text = yaml.safe_dump(manifest)
        judge.require(not any(f"{key}: true" in text or f"{key}:\n" in text for key in DANGEROUS), "executed", text[:400])


def try_job_files(judge: Judge, random: Random, count: int) -> None:
    trace = Path("TRACE")
    with TemporaryDirectory() as text:
        path = Path(text) / "job.yaml"
        for number in range(count):
            if number % 2:
                with judge.attempt(1, NotImportable):
                    imported = formats.import_job(draw_import(random), {})
                    import_command._choose_pool(imported.draft)
                    judge.require(all(map(str, check_job_values(imported.draft.values))), "lost", "a problem without a sentence")
                    values = {**imported.draft.values, "pool": "train"}
                    with judge.attempt(0, JobRefused):
                        judge_objects(judge, values)
            else:
                path.write_bytes(draw_yaml(random, JOB).encode(errors="surrogatepass"))
                with judge.attempt(1, JobRefused):
                    values, problems = read_job_values(path)
                    judge.require(all(map(str, problems)), "lost", "a problem without a sentence")
                    if values is not None:
                        judge_objects(judge, values)
            if trace.exists():
                judge.report("executed", "a program ran")
                trace.unlink()
