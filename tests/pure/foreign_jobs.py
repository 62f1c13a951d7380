"""Hypothesis strategies for jobs of other systems: manifests and batch scripts."""

from collections.abc import Sequence
from typing import Any, Final

from hypothesis import strategies as st

Programs = st.SearchStrategy[list[str]]

WORDS: Final = st.text("abcdefgh./=-", min_size=1, max_size=8)
PROGRAMS: Final = st.sampled_from([["torchrun", "train.py"], ["python3", "train.py"], ["./train"], ["bash", "-c", "./train"]])
MPI_PROGRAMS: Final = st.sampled_from(
    [["mpirun", "-n", "2", "./train"], ["python3", "train.py"], ["bash", "-c", "mpirun ./train"]]
)
NAMES: Final = st.text("ABCDEFGH", min_size=4, max_size=8) | st.sampled_from(
    ["NCCL_DEBUG", "HOME", "USER", "NNODES", "NVIDIA_VISIBLE_DEVICES", "OMPI_MCA_pml", "MASTER_PORT"]
)
REFERENCES: Final = st.sampled_from(
    [
        {"secretKeyRef": {"name": "a", "key": "b"}},
        {"secretKeyRef": {"name": "c", "key": "d"}},
        {"fieldRef": {"fieldPath": "spec.nodeName"}},
    ]
)
ENTRIES: Final = st.lists(
    st.builds(lambda name, value: {"name": name, "value": value}, NAMES, WORDS)
    | st.builds(lambda name, source: {"name": name, "valueFrom": source}, NAMES, REFERENCES),
    max_size=4,
)
AMOUNTS: Final = st.fixed_dictionaries(
    {},
    optional={
        "nvidia.com/gpu": st.integers(1, 8),
        "vpc.amazonaws.com/efa": st.integers(1, 4),
        "memory": st.sampled_from(["64Gi", "32Gi"]),
        "cpu": st.integers(1, 64),
        "hugepages-2Mi": st.just("5128Mi"),
        "example.test/fpga": st.just(1),
    },
)
RESOURCES: Final = st.fixed_dictionaries({}, optional={"limits": AMOUNTS, "requests": AMOUNTS})


def _container_strategy(name: str, programs: Programs = PROGRAMS) -> st.SearchStrategy[dict[str, Any]]:
    rest = st.fixed_dictionaries(
        {"name": st.just(name), "image": st.just("registry.test/a:1")},
        optional={
            "env": ENTRIES,
            "resources": RESOURCES,
            "tty": st.just(True),
            "unknownField": WORDS,
            "workingDir": st.sampled_from(["/work", "/data"]),
        },
    )
    words = st.fixed_dictionaries({"command": programs}, optional={"args": st.lists(WORDS, max_size=3)})
    both = words | st.fixed_dictionaries({"args": programs})
    return st.builds(lambda container, words: {**container, **words}, rest, both)


def _pod_strategy(name: str, programs: Programs = PROGRAMS) -> st.SearchStrategy[dict[str, Any]]:
    containers = st.builds(
        lambda main, sidecars: [main, *sidecars],
        _container_strategy(name, programs),
        st.lists(_container_strategy("sidecar"), max_size=1),
    )
    return st.fixed_dictionaries(
        {"containers": containers},
        optional={
            "hostNetwork": st.booleans(),
            "runtimeClassName": WORDS,
            "tolerations": st.just([{"key": "a", "operator": "Exists"}]),
            "terminationGracePeriodSeconds": st.sampled_from([60, 90]),
        },
    )


def _role_strategy(name: str, programs: Programs = PROGRAMS) -> st.SearchStrategy[dict[str, Any]]:
    template = st.fixed_dictionaries({"spec": _pod_strategy(name, programs)})
    return st.fixed_dictionaries({"template": template}, optional={"replicas": st.integers(1, 9)})


def _make_documents(kind: str, version: str, spec: Any) -> list[dict[str, Any]]:
    return [{"apiVersion": version, "kind": kind, "metadata": {"name": "a"}, "spec": spec}]


def _make_policy(key: str, more: dict[str, Any]) -> dict[str, Any]:
    return {key: more} if more else {}


RUN_POLICIES: Final = st.fixed_dictionaries(
    {}, optional={"backoffLimit": st.integers(0, 9), "activeDeadlineSeconds": st.integers(60, 99), "suspend": st.booleans()}
)
MPI_JOBS: Final = st.builds(
    lambda roles, policy, more: _make_documents(
        "MPIJob", "kubeflow.org/v2beta1", {"mpiReplicaSpecs": roles, **_make_policy("runPolicy", policy), **more}
    ),
    st.fixed_dictionaries({"Launcher": _role_strategy("launcher", MPI_PROGRAMS), "Worker": _role_strategy("worker")}),
    RUN_POLICIES,
    st.fixed_dictionaries({}, optional={"slotsPerWorker": st.integers(1, 8)}),
)
PYTORCH_JOBS: Final = st.builds(
    lambda roles, policy, more: _make_documents(
        "PyTorchJob", "kubeflow.org/v1", {"pytorchReplicaSpecs": roles, **_make_policy("runPolicy", policy), **more}
    ),
    st.fixed_dictionaries({"Worker": _role_strategy("pytorch")}, optional={"Master": _role_strategy("pytorch")})
    | st.fixed_dictionaries({"Master": _role_strategy("pytorch")}),
    RUN_POLICIES,
    st.fixed_dictionaries({}, optional={"nprocPerNode": st.sampled_from(["1", "4", "auto"])}),
)
BATCH_JOBS: Final = st.builds(
    lambda template, more: _make_documents("Job", "batch/v1", {"template": template, **more}),
    st.fixed_dictionaries({"spec": _pod_strategy("main", MPI_PROGRAMS | PROGRAMS)}),
    st.fixed_dictionaries(
        {}, optional={"completions": st.integers(1, 9), "parallelism": st.integers(1, 9), "backoffLimit": st.integers(0, 9)}
    ),
)
TRAINERS: Final = st.fixed_dictionaries(
    {},
    optional={
        "image": st.just("registry.test/b:1"),
        "command": PROGRAMS,
        "args": st.lists(WORDS, min_size=1, max_size=3),
        "env": ENTRIES,
        "numNodes": st.integers(1, 9),
        "numProcPerNode": st.integers(1, 8),
        "resourcesPerNode": RESOURCES,
    },
)
REPLICATED: Final = st.builds(
    lambda pods, more: {"name": "node", "template": {"spec": {"template": {"spec": pods}}}, **more},
    _pod_strategy("node"),
    st.fixed_dictionaries(
        {}, optional={"replicas": st.integers(1, 2), "dependsOn": st.just([{"name": "first", "status": "Complete"}])}
    ),
)
POLICIES: Final = st.fixed_dictionaries(
    {"torch": st.fixed_dictionaries({}, optional={"numProcPerNode": st.sampled_from([1, 4, "auto"])})},
    optional={"numNodes": st.integers(1, 9)},
) | st.builds(
    lambda policy: {"torch": {"elasticPolicy": policy}},
    st.fixed_dictionaries(
        {}, optional={"minNodes": st.integers(1, 3), "maxNodes": st.integers(4, 9), "maxRestarts": st.integers(0, 9)}
    ),
)
JOB_SETS: Final = st.fixed_dictionaries(
    {"replicatedJobs": REPLICATED.map(lambda job: [job])},
    optional={
        "network": st.just({"publishNotReadyAddresses": True}),
        "successPolicy": st.just({"operator": "All"}),
        "failurePolicy": st.fixed_dictionaries({"maxRestarts": st.integers(0, 9)}),
    },
)


def _make_train_job(trainer: dict[str, Any], policy: dict[str, Any], jobs: dict[str, Any]) -> list[dict[str, Any]]:
    runtime = _make_documents(
        "ClusterTrainingRuntime", "trainer.kubeflow.org/v1alpha1", {"mlPolicy": policy, "template": {"spec": jobs}}
    )
    spec = {"runtimeRef": {"name": "a"}, "trainer": trainer}
    return [*_make_documents("TrainJob", "trainer.kubeflow.org/v1alpha1", spec), *runtime]


TRAIN_JOBS: Final = st.builds(_make_train_job, TRAINERS, POLICIES, JOB_SETS)
JOBS: Final = st.one_of(MPI_JOBS, PYTORCH_JOBS, BATCH_JOBS, TRAIN_JOBS)
"""Lists of YAML documents: a job, and its runtime if it has one."""


# --- batch scripts -----------------------------------------------------------------------------------------------------

DIRECTIVES: Final = st.fixed_dictionaries(
    {},
    optional={
        "job-name": st.sampled_from(["train", "Train_1"]),
        "nodes": st.integers(1, 9),
        "ntasks": st.integers(1, 40),
        "ntasks-per-node": st.integers(1, 8),
        "gpus-per-node": st.sampled_from(["4", "8", "a100:4"]),
        "gpus-per-task": st.integers(1, 1),
        "gres": st.sampled_from(["gpu:8", "nic:1,gpu:4", "gpu:h100:8", "shard:2"]),
        "gpus": st.integers(1, 8),
        "time": st.sampled_from(["60", "01:00:00", "1-0", "UNLIMITED", "0"]),
        "partition": st.just("train"),
        "mem": st.just("0"),
        "cpus-per-task": st.integers(1, 9),
        "exclusive": st.just(""),
        "unknown-option": WORDS.filter(lambda word: not word.startswith("-")),
    },
)
SRUN_OPTIONS: Final = st.lists(
    st.sampled_from(
        ["-c 8", "--container-image x.sqsh", "--container-mounts=/a:/b", "-w node1", "-l", "--kill-on-bad-exit", "--mpi=pmix"]
    ),
    unique=True,
    max_size=4,
)
PROGRAMS_OF_SCRIPTS: Final = st.sampled_from(["./train --epochs 4", "torchrun train.py", "python3 -m train"])


def make_script(options: dict[str, Any], lines: Sequence[str]) -> str:
    directives = (f"#SBATCH --{name}={value}" if value != "" else f"#SBATCH --{name}" for name, value in options.items())
    return "\n".join(["#!/bin/bash", *directives, *lines, ""])
