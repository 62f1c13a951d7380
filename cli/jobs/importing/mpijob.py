"""Import MPIJobs (`kubeflow.org`) of versions v2beta1 (mpi-operator 0.3 and newer) and v1 (training-operator).

https://github.com/kubeflow/mpi-operator/blob/v0.8.2/pkg/apis/kubeflow/v2beta1/types.go
https://github.com/kubeflow/training-operator/blob/v1.9.3/pkg/apis/kubeflow.org/v1/mpi_types.go
"""

from collections.abc import Mapping
from typing import Final

from cli.jobs.importing import containers
from cli.jobs.importing.draft import Draft
from cli.jobs.importing.source import Source
from infra.jobs import starters

_ELSEWHERE: Final[Mapping[str, str]] = {
    "runLauncherAsWorker": "the launcher runs no ranks; add a worker",
    "launcherCreationPolicy": "the launcher waits for its workers",
    "mainContainer": "a job has one container",
}
_POLICY: Final[Mapping[str, str]] = {
    "managedBy": "the queue manages the job",
    "suspend": "the queue suspends the job until it fits",
    "schedulingPolicy": "the queue admits the job as a whole",
}


def read_job(draft: Draft, source: Source) -> None:
    """Read the job. The command comes from the launcher; everything else comes from the workers."""
    containers.read_metadata(draft, source)
    spec = source.get_field("spec")
    launcher, worker = (spec.get_field("mpiReplicaSpecs", role) for role in ("Launcher", "Worker"))
    draft.set("launcher", "mpijob")
    draft.set("workers", worker.take("replicas") or 1)
    if launcher.get_field("replicas").value == 1:
        launcher.take("replicas")
    launcher.note_dropped_field("replicas", why="a job has one launcher")
    draft.set("slots", spec.take("slotsPerWorker") or 1, "slotsPerWorker; ranks per worker")
    draft.set("mpiImplementation", spec.take("mpiImplementation"))
    read_run_policy(draft, spec)
    read_home(draft, spec)
    for key, why in _ELSEWHERE.items():
        spec.note_dropped_field(key, why=why)
    _read_templates(draft, launcher, worker)
    if source.get_field("apiVersion").value == "kubeflow.org/v1":
        draft.comments["image"] = (
            "MPIJob v1 starts ranks with kubectl exec, so this image may lack sshd. A job needs sshd in its image."
        )


def read_run_policy(draft: Draft, spec: Source) -> None:
    """Read `runPolicy`, which MPIJob and PyTorchJob share."""
    policy = spec.get_field("runPolicy")
    draft.set("cleanPodPolicy", policy.take("cleanPodPolicy") or spec.take("cleanPodPolicy"))
    draft.set("ttlSecondsAfterFinished", policy.take("ttlSecondsAfterFinished"))
    draft.set("activeDeadlineSeconds", policy.take("activeDeadlineSeconds"))
    draft.set("maxRestarts", policy.take("backoffLimit"))
    for key, why in _POLICY.items():
        policy.note_dropped_field(key, why=why)


def read_home(draft: Draft, spec: Source) -> None:
    """Derive the home directory of the pods' user from `sshAuthMountPath`."""
    path = str(spec.get_field("sshAuthMountPath").value or "")
    if path.startswith("/root"):
        spec.note_dropped_field(
            "sshAuthMountPath", why=f"pods run as user {containers.USER}. Set home to that user's home directory in the image"
        )
    elif path:
        spec.take("sshAuthMountPath")
        draft.set("home", path.removesuffix("/.ssh"), "from sshAuthMountPath")


def _read_templates(draft: Draft, launcher: Source, worker: Source) -> None:
    pods = {role: replicas.get_field("template", "spec") for role, replicas in (("worker", worker), ("launcher", launcher))}
    for replicas in (launcher, worker):
        replicas.note_changed_field("restartPolicy", to=containers.RANKS_RESTART)
    for role, replicas in (("worker", worker), ("launcher", launcher)):
        containers.read_template_metadata(draft, replicas.get_field("template"), role)
        containers.read_pod_settings(draft, pods[role], role)
    main = {role: containers.read_pod(spec) for role, spec in pods.items()}
    image = main["worker"].get_field("image").value or main["launcher"].get_field("image").value
    draft.set("image", image)
    for role, replicas in main.items():
        containers.read_ports(draft, replicas, role)
        if replicas.get_field("image").value in (None, image):
            replicas.take("image")
        else:
            replicas.note_changed_field("image", to=f"{image}, the workers' image; the launcher also uses it")
        containers.read_environment(draft, replicas)
    containers.read_volumes(draft, pods["launcher"], main["launcher"], "launcher")
    containers.read_volumes(draft, pods["worker"], main["worker"])
    containers.read_resources(draft, main["worker"].get_field("resources"))
    main["launcher"].note_dropped_field("resources", why="the launcher runs no ranks and gets few resources")
    words = containers.read_command(main["launcher"])
    draft.set("workingDir", main["launcher"].take("workingDir"))
    starts = starters.find_any_mpi_starter(words)
    once = "the launcher's command; it runs once and starts the ranks"
    draft.set("command", words or None, once if starts else "runs on every rank")
    _drop_worker_command(main["worker"])


def _drop_worker_command(worker: Source) -> None:
    """Drop the workers' command. If the command only starts sshd, nothing is lost, because the workers of every job
    start sshd.
    """
    whole = " ".join(str(word) for key in ("command", "args") for word in worker.get_field(key).value or [])
    why = "workers start sshd" if "sshd" in whole or not whole else "workers start only sshd; move the rest to setup or the image"
    worker.note_dropped_field("command", why=why)
    worker.note_dropped_field("args", why=why)
    worker.note_dropped_field("workingDir", why="ranks start in the same folder as the launcher")
