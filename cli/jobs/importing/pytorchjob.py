"""Import PyTorchJobs (`kubeflow.org/v1`).

https://github.com/kubeflow/training-operator/blob/v1.9.3/pkg/apis/kubeflow.org/v1/pytorch_types.go
"""

from collections.abc import Mapping
from typing import Any, Final

from cli.jobs.importing import containers
from cli.jobs.importing.draft import Draft
from cli.jobs.importing.mpijob import read_run_policy
from cli.jobs.importing.source import COUNT, NotImportable, Source
from infra.jobs import starters

CONTAINER: Final = "pytorch"
_ELASTIC: Final[Mapping[str, str]] = {
    "minReplicas": "the job always runs with all its workers",
    "maxReplicas": "the job always runs with all its workers",
    "metrics": "the job always runs with all its workers",
    "standalone": "depends on the number of workers",
}
_RENDEZVOUS: Final = ("rdzvBackend", "rdzvHost", "rdzvPort", "rdzvId", "rdzvConf")


def read(draft: Draft, source: Source) -> None:
    """Read the job. The master and the workers become workers; the first worker acts as the master."""
    containers.read_metadata(draft, source)
    spec = source.get_field("spec")
    draft.set("launcher", "torchrun")
    read_run_policy(draft, spec)
    _read_elastic_policy(draft, spec)
    roles = [spec.get_field("pytorchReplicaSpecs", role) for role in ("Master", "Worker")]
    roles = [role for role in roles if role.value is not None]
    if not roles:
        raise NotImportable("spec.pytorchReplicaSpecs: has neither Master nor Worker. Add one")
    draft.set("workers", sum(_parse_replicas(role.take("replicas")) for role in roles), "Master and Worker replicas together")
    for replicas in roles:
        replicas.note_changed_field("restartPolicy", to=containers.RANKS_RESTART)
    _read_templates(draft, roles)
    read_slots(draft, spec, "nprocPerNode")


def _parse_replicas(value: Any) -> int:
    return value if isinstance(value, int) else 1


def _read_elastic_policy(draft: Draft, spec: Source) -> None:
    elastic = spec.get_field("elasticPolicy")
    for key, why in _ELASTIC.items():
        elastic.note_dropped_field(key, why=why)
    for key in _RENDEZVOUS:
        elastic.note_changed_field(key, to="the launcher configures the rendezvous with PET_* variables")
    if "maxRestarts" not in draft.values and elastic.get_field("maxRestarts").value is not None:
        draft.set("maxRestarts", elastic.take("maxRestarts"), "from elasticPolicy.maxRestarts")
    elastic.note_dropped_field("maxRestarts", why="runPolicy.backoffLimit is set")


def _read_templates(draft: Draft, roles: list[Source]) -> None:
    """Read the last role's pod template for the workers, and compare the other roles' templates with it."""
    *unused, chosen = roles
    pod = chosen.get_field("template", "spec")
    main = containers.read_pod(pod, CONTAINER)
    containers.read_template_metadata(draft, chosen.get_field("template"))
    containers.read_worker_template(draft, pod, main)
    words = containers.read_command(main)
    draft.set("command", words or None, describe_rank_start(words))
    for other in unused:
        for key in ("labels", "annotations"):
            if other.get_field("template", "metadata", key).value == chosen.get_field("template", "metadata", key).value:
                other.take("template", "metadata", key)
            other.note_dropped_field("template", "metadata", key, why="all workers of a job are identical")
        if other.get_field("template", "spec").value == pod.value:
            other.note_changed_field("template", to="a worker's template; both are the same")
        else:
            other.note_dropped_field("template", why="the master differs from the workers; all workers of a job are identical")


def describe_rank_start(words: list[str]) -> str:
    """Return a comment about how the torchrun launcher starts a command."""
    starter = starters.find_torch_starter(words)
    return f"{starter} runs once per worker, as before" if starter else "torchrun starts the command once per rank"


def read_slots(draft: Draft, source: Source, key: str) -> None:
    """Read the number of ranks per worker: a number, or a word such as `auto` for one per GPU."""
    value = source.get_field(key).value
    if value is None or COUNT.fullmatch(str(value)):
        source.take(key)
        number = int(value) if value is not None else None
        default = None if draft.values.get("gpusPerWorker") or starters.find_torch_starter(draft.values.get("command", ())) else 1
        draft.set("slots", number or default, "" if number else "one process per pod, because the source does not set the number")
    else:
        source.note_changed_field(key, to="slots, by default one rank per GPU, or one per vCPU without GPUs")
