"""Import PyTorchJobs (`kubeflow.org/v1`).

https://github.com/kubeflow/training-operator/blob/v1.9.3/pkg/apis/kubeflow.org/v1/pytorch_types.go
"""

from collections.abc import Mapping
from typing import Any, Final

from cli.jobs.importing import containers
from cli.jobs.importing.draft import Draft
from cli.jobs.importing.errors import NotImportable
from cli.jobs.importing.mpijob import run_policy
from cli.jobs.importing.source import COUNT, Source
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
    """Read the job. The master and the workers become workers; the first worker acts as master."""
    containers.metadata(draft, source)
    spec = source.at("spec")
    draft.set("launcher", "torchrun")
    run_policy(draft, spec)
    _elastic(draft, spec)
    roles = [spec.at("pytorchReplicaSpecs", role) for role in ("Master", "Worker")]
    roles = [one for one in roles if one.value is not None]
    if not roles:
        raise NotImportable("spec.pytorchReplicaSpecs: has neither Master nor Worker. Add one")
    draft.set("workers", sum(_number(one.take("replicas")) for one in roles), "Master and Worker replicas together")
    for one in roles:
        one.change("restartPolicy", to=containers.RANKS_RESTART)
    _template(draft, roles)
    slots(draft, spec, "nprocPerNode")


def _number(value: Any) -> int:
    return value if isinstance(value, int) else 1


def _elastic(draft: Draft, spec: Source) -> None:
    elastic = spec.at("elasticPolicy")
    for key, why in _ELASTIC.items():
        elastic.drop(key, why=why)
    for key in _RENDEZVOUS:
        elastic.change(key, to="the launcher configures the rendezvous with PET_* variables")
    if "maxRestarts" not in draft.values and elastic.at("maxRestarts").value is not None:
        draft.set("maxRestarts", elastic.take("maxRestarts"), "from elasticPolicy.maxRestarts")
    elastic.drop("maxRestarts", why="runPolicy.backoffLimit is set")


def _template(draft: Draft, roles: list[Source]) -> None:
    """Read the last role's pod template for the workers, and compare the other roles' templates with it."""
    *others, chosen = roles
    pod = chosen.at("template", "spec")
    main = containers.pod(pod, CONTAINER)
    containers.template_metadata(draft, chosen.at("template"))
    containers.workers(draft, pod, main)
    words = containers.command(main)
    draft.set("command", words or None, how(words))
    for other in others:
        for key in ("labels", "annotations"):
            if other.at("template", "metadata", key).value == chosen.at("template", "metadata", key).value:
                other.take("template", "metadata", key)
            other.drop("template", "metadata", key, why="all workers of a job are identical")
        if other.at("template", "spec").value == pod.value:
            other.change("template", to="a worker's template; both are the same")
        else:
            other.drop("template", why="the master differs from the workers; all workers of a job are identical")


def how(words: list[str]) -> str:
    """Return a comment about how the torchrun launcher starts a command."""
    starter = starters.torch_starter(words)
    return f"{starter} runs once per worker, as before" if starter else "torchrun starts the command once per rank"


def slots(draft: Draft, source: Source, key: str) -> None:
    """Read the number of ranks per worker: a number, or a word such as `auto` for one per GPU."""
    value = source.at(key).value
    if value is None or COUNT.fullmatch(str(value)):
        source.take(key)
        given = int(value) if value is not None else None
        default = None if draft.values.get("gpusPerWorker") or starters.torch_starter(draft.values.get("command", ())) else 1
        draft.set("slots", given or default, "" if given else "one process per pod, because the source sets no number")
    else:
        source.change(key, to="slots, by default one rank per GPU, or one per vCPU without GPUs")
