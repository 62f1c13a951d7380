"""TrainJob of trainer.kubeflow.org/v1alpha1 with its runtime.

https://github.com/kubeflow/trainer/blob/v2.1.0/pkg/apis/trainer/v1alpha1/trainjob_types.go
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from cli.importing import containers
from cli.importing.draft import Draft
from cli.importing.errors import NotImportable
from cli.importing.pytorchjob import how, slots
from cli.importing.source import Source
from infra.jobs import starters

RUNTIMES: Final = ("ClusterTrainingRuntime", "TrainingRuntime")
_KNOWN: Final[Mapping[str, Mapping[str, Any]]] = {
    "torch-distributed": {"spec": {"mlPolicy": {"numNodes": 1, "torch": {}}}},
    "deepspeed-distributed": {
        "spec": {"mlPolicy": {"numNodes": 1, "mpi": {"numProcPerNode": 1, "mpiImplementation": "OpenMPI"}}}
    },
}
"""Runtimes that Kubeflow Trainer installs, without their images: manifests/base/runtimes at 8c0f505, read 2026-11-23."""


def read(draft: Draft, source: Source, runtimes: Sequence[Source]) -> None:
    """Read the job; its runtime supplies the missing fields. Raises NotImportable if the runtime is missing."""
    containers.metadata(draft, source)
    spec, trainer = source.at("spec"), source.at("spec", "trainer")
    runtime = _runtime(spec, runtimes)
    policy = runtime.at("spec", "mlPolicy")
    mpi = policy.at("mpi").value is not None
    if not mpi and policy.at("torch").value is None:
        others = ", ".join(key for key in policy.value or {} if key != "numNodes") or "no policy"
        raise NotImportable(f"runtime {runtime.at('metadata', 'name').value} uses {others}; only torch and mpi can be imported")
    draft.set("launcher", "mpijob" if mpi else "torchrun", "from the runtime's mlPolicy")
    nodes = trainer.take("numNodes")
    draft.set("workers", nodes or policy.take("numNodes") or 1, "" if nodes else "from the runtime")
    draft.set("activeDeadlineSeconds", spec.take("activeDeadlineSeconds"))
    spec.drop("initializer", why="use setup to fetch the data set and the model to a volume")
    for key in ("runtimePatches", "podTemplateOverrides"):
        spec.drop(key, why="change the job's fields instead")
    for key in ("managedBy", "suspend"):
        spec.drop(key, why="the queue manages the job")
    _image_and_command(draft, trainer, _template(draft, runtime, mpi=mpi))
    containers.environment(draft, trainer)
    trainer.change("resourcesPerNode", to="resources and gpusPerWorker")
    containers.resources(draft, Source({"resources": trainer.at("resourcesPerNode").value or {}}))
    _ranks(draft, trainer, policy, mpi=mpi)


def _runtime(spec: Source, runtimes: Sequence[Source]) -> Source:
    name = str(spec.at("runtimeRef", "name").value or "torch-distributed")
    spec.take("runtimeRef")
    for one in runtimes:
        if one.at("metadata", "name").value == name:
            return one
    if name in _KNOWN:
        return Source({"metadata": {"name": name}, **_KNOWN[name]})
    raise NotImportable(f"runtime {name} is not in the file. Add it: kubectl get clustertrainingruntime {name} -o yaml")


def _template(draft: Draft, runtime: Source, *, mpi: bool) -> Source | None:
    """Read the pod template of the runtime's nodes, if the runtime is available; return its container."""
    for key in ("apiVersion", "kind", "metadata"):
        runtime.take(key)
    runtime.take("spec", "mlPolicy")
    runtime.drop("spec", "podGroupPolicy", why="the queue admits the job as a whole")
    found = None
    for job in runtime.each("spec", "template", "spec", "replicatedJobs"):
        if job.at("name").value != "node":
            job.drop(why="the job's launcher replaces it" if mpi else "a job has one kind of workers")
            continue
        for key in ("name", "replicas", "dependsOn"):
            job.take(key)
        job.drop("template", "metadata", why="the launcher sets the labels")
        containers.template_metadata(draft, job.at("template", "spec", "template"))
        pod = job.at("template", "spec", "template", "spec")
        containers.pod_settings(draft, pod)
        found = containers.pod(pod, "node")
        containers.environment(draft, found)
        containers.ports(draft, found)
        draft.set("workingDir", found.take("workingDir"))
        containers.volumes(draft, pod, found)
        containers.resources(draft, found)
    runtime.take("spec", "template", "spec", "network")
    runtime.take("spec", "template", "spec", "successPolicy")
    return found


def _image_and_command(draft: Draft, trainer: Source, node: Source | None) -> None:
    image = trainer.take("image")
    usual = node.take("image") if node else None
    draft.set("image", image or usual, "" if image or not usual else "from the runtime")
    words = containers.command(trainer)
    default = containers.command(node) if node else []
    if not words and not any("sshd" in word for word in default):
        words = default
    starts = starters.mpi_starter(words)
    draft.set("command", words or None, f"{starts} runs once, in the launcher" if starts else how(words))
    if draft.values["launcher"] == "mpijob":
        draft.comments["command"] = f"{starts} runs once, in the launcher" if starts else "runs on every rank"


def _ranks(draft: Draft, trainer: Source, policy: Source, *, mpi: bool) -> None:
    if mpi:
        draft.set("slots", trainer.take("numProcPerNode") or policy.at("mpi", "numProcPerNode").value or 1)
        draft.set("mpiImplementation", policy.at("mpi", "mpiImplementation").value)
    else:
        given = trainer if trainer.at("numProcPerNode").value is not None else policy.at("torch")
        if given.at("numProcPerNode").value is not None:
            slots(draft, given, "numProcPerNode")
