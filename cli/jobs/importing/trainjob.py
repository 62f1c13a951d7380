"""Import TrainJobs (`trainer.kubeflow.org/v1alpha1`) and their runtimes.

https://github.com/kubeflow/trainer/blob/v2.1.0/pkg/apis/trainer/v1alpha1/trainjob_types.go
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from cli.jobs.importing import containers
from cli.jobs.importing.draft import Draft
from cli.jobs.importing.errors import NotImportable
from cli.jobs.importing.mpijob import home
from cli.jobs.importing.pytorchjob import how, slots
from cli.jobs.importing.source import Source
from infra.jobs import starters

RUNTIMES: Final = ("ClusterTrainingRuntime", "TrainingRuntime")
_KNOWN: Final[Mapping[str, Mapping[str, Any]]] = {
    "torch-distributed": {"spec": {"mlPolicy": {"numNodes": 1, "torch": {}}}},
    "deepspeed-distributed": {
        "spec": {"mlPolicy": {"numNodes": 1, "mpi": {"numProcPerNode": 1, "mpiImplementation": "OpenMPI"}}}
    },
}
"""Runtimes that Kubeflow Trainer installs, without their images: manifests/base/runtimes at 8c0f505, read 2026-11-23."""
_JOB_SET: Final[Mapping[str, str]] = {
    "network": "the launcher gives the pods their DNS names",
    "successPolicy": "a job succeeds when all of its ranks succeed",
    "failurePolicy": "the job restarts as a whole, up to maxRestarts times",
}
_ELASTIC: Final = ("minNodes", "maxNodes", "metrics")
_REPLACED: Final = "the TrainJob's value, which replaces the runtime's"
_ONE_KIND: Final = "a job has one kind of worker"


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
    own, usual = trainer.at("numNodes"), policy.at("numNodes")
    if usual.value is None:  # numNodes cannot be combined with an elasticPolicy
        usual = policy.at("torch", "elasticPolicy", "minNodes")
    draft.set("workers", _either(own, usual) or 1, "" if own.value else "from the runtime")
    draft.set("activeDeadlineSeconds", spec.take("activeDeadlineSeconds"))
    spec.drop("initializer", why="use setup to fetch the data set and the model to a volume")
    for key in ("runtimePatches", "podTemplateOverrides"):
        spec.drop(key, why="change the job's fields instead")
    for key in ("managedBy", "suspend"):
        spec.drop(key, why="the queue manages the job")
    _restarts(draft, runtime, policy)
    node, starts = _template(draft, runtime, trainer, mpi=mpi)
    _image_and_command(draft, trainer, node, starts)
    containers.environment(draft, trainer)
    containers.resources(draft, trainer.at("resourcesPerNode"))
    _ranks(draft, trainer, policy, mpi=mpi)
    for job in runtime.each("spec", "template", "spec", "replicatedJobs"):
        job.drop(why="the job's launcher replaces it" if mpi and job.at("name").value == "launcher" else _ONE_KIND)


def _runtime(spec: Source, runtimes: Sequence[Source]) -> Source:
    name = str(spec.at("runtimeRef", "name").value or "torch-distributed")
    spec.take("runtimeRef")
    for one in runtimes:
        if one.at("metadata", "name").value == name:
            return one
    if name in _KNOWN:
        return Source({"metadata": {"name": name}, **_KNOWN[name]})
    raise NotImportable(f"runtime {name} is not in the file. Add it: kubectl get clustertrainingruntime {name} -o yaml")


def _either(own: Source, usual: Source) -> Any:
    """Return the TrainJob's value or, if it is not set, the runtime's value.

    https://github.com/kubeflow/trainer/blob/v2.1.0/pkg/runtime/framework/plugins/jobset/builder.go (Trainer)
    """
    value = own.take()
    if value in (None, [], "") or value == usual.value:
        return usual.take()
    usual.change(to=_REPLACED)
    return value


def _restarts(draft: Draft, runtime: Source, policy: Source) -> None:
    """Read the number of restarts, and record which of the runtime's policies the job file does not support."""
    for keys in (("apiVersion",), ("kind",), ("metadata", "name")):
        runtime.take(*keys)
    runtime.drop("metadata", why="it describes the runtime, not the job")
    runtime.drop("spec", "podGroupPolicy", why="the queue admits the job as a whole")
    elastic, jobs = policy.at("torch", "elasticPolicy"), runtime.at("spec", "template", "spec")
    for key in _ELASTIC:
        elastic.drop(key, why="the job always runs with all its workers")
    if elastic.at("maxRestarts").value is not None:
        draft.set("maxRestarts", elastic.take("maxRestarts"), "from the runtime's elasticPolicy.maxRestarts")
    else:
        draft.set("maxRestarts", jobs.take("failurePolicy", "maxRestarts"), "from the runtime's failurePolicy")
    for key, why in _JOB_SET.items():
        jobs.drop(key, why=why)


def _template(draft: Draft, runtime: Source, trainer: Source, *, mpi: bool) -> tuple[Source, Source]:
    """Read the pod template of the runtime's nodes. Return the nodes' container, and the container that starts the
    ranks.

    If the runtime is not available, the value of both is None.
    """
    jobs = {str(job.at("name").value): job for job in runtime.each("spec", "template", "spec", "replicatedJobs")}
    nothing = Source(None)
    node = _node(draft, jobs["node"], trainer) if "node" in jobs else nothing
    if not mpi or "launcher" not in jobs:
        return node, node
    jobs["launcher"].take("name")
    pod = jobs["launcher"].at("template", "spec", "template", "spec")
    launcher = next(iter(pod.each("containers")), nothing)
    containers.environment(draft, launcher)
    return node, launcher


def _node(draft: Draft, job: Source, trainer: Source) -> Source:
    job.take("name")
    if job.at("replicas").value == 1:
        job.take("replicas")
    job.drop("replicas", why=f"{_ONE_KIND}; `workers` sets their number")
    job.drop("dependsOn", why="run the earlier steps in setup, or as a separate job")
    job.drop("template", "metadata", why="the launcher sets the labels")
    containers.template_metadata(draft, job.at("template", "spec", "template"))
    pod = job.at("template", "spec", "template", "spec")
    containers.pod_settings(draft, pod)
    found = containers.pod(pod, "node")
    containers.environment(draft, found)
    containers.ports(draft, found)
    draft.set("workingDir", found.take("workingDir"))
    containers.volumes(draft, pod, found)
    own = trainer.at("resourcesPerNode")
    if own.at("limits").value or own.at("requests").value:
        found.change("resources", to=_REPLACED)
    else:
        containers.resources(draft, found.at("resources"))
    return found


def _image_and_command(draft: Draft, trainer: Source, node: Source, starts: Source) -> None:
    """Read the image and the command. As in Kubernetes, `args` without `command` replaces only the arguments."""
    own, usual = trainer.at("image").value, node.at("image").value
    draft.set("image", _either(trainer.at("image"), node.at("image")), "" if own or not usual else "from the runtime")
    if any("sshd" in str(word) for key in ("command", "args") for word in starts.at(key).value or ()):
        for key in ("command", "args"):
            starts.drop(key, why="workers start sshd")
        starts = Source(None)
    if not trainer.at("command").value and not starts.at("command").value:
        for one in (trainer, starts):
            one.change("args", to=containers.WITHOUT_ENTRYPOINT)
    words = [str(word) for key in ("command", "args") for word in _either(trainer.at(key), starts.at(key)) or ()]
    mpi = starters.mpi_starter(words)
    draft.set("command", words or None, f"{mpi} runs once, in the launcher" if mpi else how(words))
    if draft.values["launcher"] == "mpijob":
        draft.comments["command"] = f"{mpi} runs once, in the launcher" if mpi else "runs on every rank"


def _ranks(draft: Draft, trainer: Source, policy: Source, *, mpi: bool) -> None:
    own = trainer.at("numProcPerNode")
    if mpi:
        draft.set("slots", _either(own, policy.at("mpi", "numProcPerNode")) or 1)
        draft.set("mpiImplementation", policy.take("mpi", "mpiImplementation"))
        home(draft, policy.at("mpi"))
        policy.drop("mpi", "runLauncherAsNode", why="the launcher runs no ranks; all nodes are workers")
        return
    if own.value is not None:
        policy.change("torch", "numProcPerNode", to=_REPLACED)
    given = trainer if own.value is not None else policy.at("torch")
    if given.at("numProcPerNode").value is not None:
        slots(draft, given, "numProcPerNode")
