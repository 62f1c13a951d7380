"""Import TrainJobs (`trainer.kubeflow.org/v1alpha1`) and their runtimes.

https://github.com/kubeflow/trainer/blob/v2.1.0/pkg/apis/trainer/v1alpha1/trainjob_types.go
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from cli.jobs.importing import containers
from cli.jobs.importing.draft import Draft
from cli.jobs.importing.mpijob import read_home
from cli.jobs.importing.pytorchjob import describe_rank_start, read_slots
from cli.jobs.importing.source import NotImportable, Source
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
    "network": "the launcher sets the DNS names of the pods",
    "successPolicy": "a job succeeds when all of its ranks succeed",
    "failurePolicy": "the job restarts as a whole, up to maxRestarts times",
}
_ELASTIC: Final = ("minNodes", "maxNodes", "metrics")
_REPLACED: Final = "the TrainJob's value, which replaces the runtime's"
_ONE_KIND: Final = "a job has one kind of worker"


def read(draft: Draft, source: Source, runtimes: Sequence[Source]) -> None:
    """Read the TrainJob; its runtime supplies the missing fields. Raises NotImportable if the runtime is missing."""
    containers.read_metadata(draft, source)
    spec, trainer = source.get_field("spec"), source.get_field("spec", "trainer")
    runtime = _find_runtime(spec, runtimes)
    policy = runtime.get_field("spec", "mlPolicy")
    mpi = policy.get_field("mpi").value is not None
    if not mpi and policy.get_field("torch").value is None:
        policies = ", ".join(key for key in policy.value or {} if key != "numNodes") or "no policy"
        raise NotImportable(
            f"runtime {runtime.get_field('metadata', 'name').value} uses {policies}; only torch and mpi can be imported"
        )
    draft.set("launcher", "mpijob" if mpi else "torchrun", "from the runtime's mlPolicy")
    own, usual = trainer.get_field("numNodes"), policy.get_field("numNodes")
    if usual.value is None:  # numNodes cannot be combined with an elasticPolicy
        usual = policy.get_field("torch", "elasticPolicy", "minNodes")
    draft.set("workers", choose_value(own, usual) or 1, "" if own.value else "from the runtime")
    draft.set("activeDeadlineSeconds", spec.take("activeDeadlineSeconds"))
    spec.note_dropped_field("initializer", why="use setup to fetch the data set and the model to a volume")
    for key in ("runtimePatches", "podTemplateOverrides"):
        spec.note_dropped_field(key, why="change the job's fields instead")
    for key in ("managedBy", "suspend"):
        spec.note_dropped_field(key, why="the queue manages the job")
    _read_restarts(draft, runtime, policy)
    node, starts = _read_templates(draft, runtime, trainer, mpi=mpi)
    _read_image_and_command(draft, trainer, node, starts)
    containers.read_environment(draft, trainer)
    containers.read_resources(draft, trainer.get_field("resourcesPerNode"))
    _read_ranks_per_node(draft, trainer, policy, mpi=mpi)
    for job in runtime.list_elements("spec", "template", "spec", "replicatedJobs"):
        job.note_dropped_field(
            why="the job's launcher replaces it" if mpi and job.get_field("name").value == "launcher" else _ONE_KIND
        )


def _find_runtime(spec: Source, runtimes: Sequence[Source]) -> Source:
    name = str(spec.get_field("runtimeRef", "name").value or "torch-distributed")
    spec.take("runtimeRef")
    for runtime in runtimes:
        if runtime.get_field("metadata", "name").value == name:
            return runtime
    if name in _KNOWN:
        return Source({"metadata": {"name": name}, **_KNOWN[name]})
    raise NotImportable(f"runtime {name} is not in the file. Add it: kubectl get clustertrainingruntime {name} -o yaml")


def choose_value(own: Source, usual: Source) -> Any:
    """Return the TrainJob's value or, if it is not set, the runtime's value.

    https://github.com/kubeflow/trainer/blob/v2.1.0/pkg/runtime/framework/plugins/jobset/builder.go (Trainer)
    """
    value = own.take()
    if value in (None, [], "") or value == usual.value:
        return usual.take()
    usual.note_changed_field(to=_REPLACED)
    return value


def _read_restarts(draft: Draft, runtime: Source, policy: Source) -> None:
    """Read the number of restarts, and record which of the runtime's policies the job file does not support."""
    for keys in (("apiVersion",), ("kind",), ("metadata", "name")):
        runtime.take(*keys)
    runtime.note_dropped_field("metadata", why="this field describes the runtime, not the job")
    runtime.note_dropped_field("spec", "podGroupPolicy", why="the queue admits the job as a whole")
    elastic, jobs = policy.get_field("torch", "elasticPolicy"), runtime.get_field("spec", "template", "spec")
    for key in _ELASTIC:
        elastic.note_dropped_field(key, why="the job always runs with all its workers")
    if elastic.get_field("maxRestarts").value is not None:
        draft.set("maxRestarts", elastic.take("maxRestarts"), "from the runtime's elasticPolicy.maxRestarts")
    else:
        draft.set("maxRestarts", jobs.take("failurePolicy", "maxRestarts"), "from the runtime's failurePolicy")
    for key, why in _JOB_SET.items():
        jobs.note_dropped_field(key, why=why)


def _read_templates(draft: Draft, runtime: Source, trainer: Source, *, mpi: bool) -> tuple[Source, Source]:
    """Read the pod template of the runtime's nodes. Return the container of the nodes, and the container that starts the ranks.

    If the runtime is not available, both values are None.
    """
    jobs = {str(job.get_field("name").value): job for job in runtime.list_elements("spec", "template", "spec", "replicatedJobs")}
    nothing = Source(None)
    node = _read_node_template(draft, jobs["node"], trainer) if "node" in jobs else nothing
    if not mpi or "launcher" not in jobs:
        return node, node
    jobs["launcher"].take("name")
    pod = jobs["launcher"].get_field("template", "spec", "template", "spec")
    launcher = next(iter(pod.list_elements("containers")), nothing)
    containers.read_environment(draft, launcher)
    return node, launcher


def _read_node_template(draft: Draft, job: Source, trainer: Source) -> Source:
    job.take("name")
    if job.get_field("replicas").value == 1:
        job.take("replicas")
    job.note_dropped_field("replicas", why=f"{_ONE_KIND}; `workers` sets their number")
    job.note_dropped_field("dependsOn", why="run the earlier steps in setup, or as a separate job")
    job.note_dropped_field("template", "metadata", why="the launcher sets the labels")
    containers.read_template_metadata(draft, job.get_field("template", "spec", "template"))
    pod = job.get_field("template", "spec", "template", "spec")
    containers.read_pod_settings(draft, pod)
    pod_spec = containers.read_pod(pod, "node")
    containers.read_environment(draft, pod_spec)
    containers.read_ports(draft, pod_spec)
    draft.set("workingDir", pod_spec.take("workingDir"))
    containers.read_volumes(draft, pod, pod_spec)
    own = trainer.get_field("resourcesPerNode")
    if own.get_field("limits").value or own.get_field("requests").value:
        pod_spec.note_changed_field("resources", to=_REPLACED)
    else:
        containers.read_resources(draft, pod_spec.get_field("resources"))
    return pod_spec


def _read_image_and_command(draft: Draft, trainer: Source, node: Source, starts: Source) -> None:
    """Read the image and the command. As in Kubernetes, `args` without `command` replaces only the arguments."""
    own, usual = trainer.get_field("image").value, node.get_field("image").value
    draft.set(
        "image", choose_value(trainer.get_field("image"), node.get_field("image")), "" if own or not usual else "from the runtime"
    )
    if any("sshd" in str(word) for key in ("command", "args") for word in starts.get_field(key).value or ()):
        for key in ("command", "args"):
            starts.note_dropped_field(key, why="workers start sshd")
        starts = Source(None)
    if not trainer.get_field("command").value and not starts.get_field("command").value:
        for source in (trainer, starts):
            source.note_changed_field("args", to=containers.WITHOUT_ENTRYPOINT)
    words = [
        str(word) for key in ("command", "args") for word in choose_value(trainer.get_field(key), starts.get_field(key)) or ()
    ]
    mpi = starters.find_mpi_starter(words)
    draft.set("command", words or None, f"{mpi} runs once, in the launcher" if mpi else describe_rank_start(words))
    if draft.values["launcher"] == "mpijob":
        draft.comments["command"] = f"{mpi} runs once, in the launcher" if mpi else "runs on every rank"


def _read_ranks_per_node(draft: Draft, trainer: Source, policy: Source, *, mpi: bool) -> None:
    own = trainer.get_field("numProcPerNode")
    if mpi:
        draft.set("slots", choose_value(own, policy.get_field("mpi", "numProcPerNode")) or 1)
        draft.set("mpiImplementation", policy.take("mpi", "mpiImplementation"))
        read_home(draft, policy.get_field("mpi"))
        policy.note_dropped_field("mpi", "runLauncherAsNode", why="the launcher runs no ranks; all nodes are workers")
        return
    if own.value is not None:
        policy.note_changed_field("torch", "numProcPerNode", to=_REPLACED)
    processes = trainer if own.value is not None else policy.get_field("torch")
    if processes.get_field("numProcPerNode").value is not None:
        read_slots(draft, processes, "numProcPerNode")
