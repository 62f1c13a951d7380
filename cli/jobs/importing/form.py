"""Check the structure of a foreign manifest as an API server would: the readers rely on mappings, lists and text
where Kubernetes requires them."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from cli.jobs.importing.source import NotImportable, Path
from infra.config.messages import format_value
from infra.config.problems import format_path

_MAPPINGS: Final = frozenset(
    {
        *("metadata", "spec", "template", "resources", "resourcesPerNode", "securityContext", "affinity", "trainer"),
        *("initializer", "dataset", "model", "runtimeRef", "mlPolicy", "torch", "mpi", "jax", "runPolicy", "elasticPolicy"),
        *("schedulingPolicy", "mpiReplicaSpecs", "pytorchReplicaSpecs", "Launcher", "Worker", "Master", "valueFrom"),
        *("secretKeyRef", "configMapKeyRef", "fieldRef", "emptyDir", "persistentVolumeClaim", "trainingRuntimeSpec"),
        "jobTemplate",
    }
)
_LISTS: Final = frozenset(
    {
        *("env", "envFrom", "containers", "initContainers", "volumes", "volumeMounts", "tolerations", "imagePullSecrets"),
        *("ports", "replicatedJobs", "podSpecOverrides", "podTemplateOverrides", "runtimePatches", "targetJobs", "dependsOn"),
    }
)
"""Lists of mappings."""
_TEXTS: Final = frozenset({"args", "command"})
_FREE: Final = frozenset({"annotations", "labels", "limits", "matchLabels", "nodeSelector", "requests"})
"""Mappings whose keys users choose."""
_NUMBERS: Final = frozenset(
    {
        *("activeDeadlineSeconds", "backoffLimit", "completions", "containerPort", "numNodes", "parallelism", "replicas"),
        *("slotsPerWorker", "terminationGracePeriodSeconds", "ttlSecondsAfterFinished", "minReplicas", "maxReplicas"),
    }
)
_SCALARS: Final = frozenset(
    {
        *("apiVersion", "claimName", "cleanPodPolicy", "generateName", "image", "key", "kind", "medium", "mountPath"),
        *("mpiImplementation", "name", "namespace", "numProcPerNode", "nProcPerNode", "nprocPerNode", "operator", "protocol"),
        *("readOnly", "restartPolicy", "sizeLimit", "sshAuthMountPath", "storageUri", "subPath", "value", "workingDir"),
    }
)


def check_types(document: Any) -> None:
    """Raise NotImportable with the first value whose type differs from what Kubernetes requires."""
    if problem := next(_find_problems(document, ()), None):
        raise NotImportable(problem)


def _find_problems(value: Any, path: Path) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from find_key_problems(key, inner, (*path, key))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _find_problems(inner, (*path, number))


def find_key_problems(key: str, value: Any, path: Path) -> Iterator[str]:
    if value is None:
        return
    if key in _MAPPINGS and not isinstance(value, Mapping):
        yield _format_problem(path, value, "a mapping")
    elif key in _LISTS and not isinstance(value, list):
        yield _format_problem(path, value, "a list")
    elif key in _LISTS:
        for number, inner in enumerate(value):
            if not isinstance(inner, Mapping):
                yield _format_problem((*path, number), inner, "a mapping")
        yield from _find_problems(value, path)
    elif key in _TEXTS and not isinstance(value, list):
        yield _format_problem(path, value, "a list, such as [python3, train.py]")
    elif key in _FREE and not isinstance(value, Mapping):
        yield _format_problem(path, value, "a mapping")
    elif key in _TEXTS | _FREE:
        for step, inner in value.items() if isinstance(value, Mapping) else enumerate(value):
            if inner is None or isinstance(inner, Mapping | list):
                yield _format_problem((*path, step), inner, "text")
    elif key in _NUMBERS and (isinstance(value, bool) or not isinstance(value, int)):
        yield _format_problem(path, value, "a whole number")
    elif key in _SCALARS and isinstance(value, Mapping | list):
        yield _format_problem(path, value, "text")
    else:
        yield from _find_problems(value, path)


def _format_problem(path: Path, value: Any, form: str) -> str:
    what = "is empty" if value is None else f"is {format_value(value)}"
    return f"{format_path(path)}: {what}. Kubernetes requires {form} here"
