"""`import` followed by rendering loses no command, variable, resource or number without a note."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import yaml
from hypothesis import given, reject, settings

from cli.jobs.importing import formats
from cli.jobs.importing.formats import Imported
from cli.jobs.importing.source import Path, Source, list_leaves
from infra.config.problems import format_path
from infra.jobs.cluster import ClusterDescription
from infra.jobs.reading import JobRefused, validate_job
from infra.jobs.render import render_job
from infra.jobs.sizing import parse_bytes, parse_millicores
from infra.naming import EFA_RESOURCE, GPU_RESOURCE, HUGEPAGES_RESOURCE
from tests.pure import foreign_jobs
from tests.pure.job_world import KEYS, TRAIN, make_cluster

POOL: Final = TRAIN.model_copy(update={"max_size": 99})
CLUSTER: Final[ClusterDescription] = make_cluster(pools=(POOL,))
"""Cluster with enough nodes for every job in these tests."""
TRAIN_JOB: Final = ("spec", "template", "spec", "replicatedJobs", 0, "template", "spec", "template", "spec")


@dataclass(frozen=True)
class Rendered:
    """An imported job, as sent to the API server."""

    job: Mapping[str, Any]
    """Manifest of the MPIJob or Job."""

    @property
    def roles(self) -> Mapping[str, Any]:
        return self.job["spec"].get("mpiReplicaSpecs") or {"Worker": self.job["spec"]}

    def container(self, role: str) -> Mapping[str, Any]:
        roles = self.roles
        main_container: Mapping[str, Any] = roles.get(role, roles["Worker"])["template"]["spec"]["containers"][0]
        return main_container

    @property
    def command(self) -> list[str]:
        return list(self.container("Launcher")["command"])

    @property
    def workers(self) -> int:
        worker = self.roles["Worker"]
        return int(worker["replicas"] if "replicas" in worker else worker["completions"])

    @property
    def slots(self) -> int:
        own = self.job["spec"].get("slotsPerWorker")
        return int(own if own is not None else self.read_env("Worker")["NPROC_PER_NODE"]["value"])

    def read_env(self, role: str) -> dict[str, dict[str, Any]]:
        """Return a role's environment variables, keyed by name. As in Kubernetes, the last duplicate wins."""
        return {variable["name"]: variable for variable in self.container(role)["env"]}

    @property
    def limits(self) -> Mapping[str, str]:
        worker_limits: Mapping[str, str] = self.container("Worker")["resources"]["limits"]
        return worker_limits


def render_imported_job(imported: Imported) -> Rendered:
    """Render the job for CLUSTER. Discard examples with resources that no worker of CLUSTER can have."""
    values = {"namespace": "mpi-jobs", "name": "a", **imported.draft.values, "pool": "train"}
    values["resources"] = {"efa": 0, **imported.draft.values.get("resources", {})}
    try:
        placed = validate_job({"image": "registry.test/a:1", **values}, CLUSTER)
    except JobRefused as refused:
        assert {problem.path.partition(".")[0] for problem in refused.problems} <= {"resources", "gpusPerWorker"}, str(refused)
        reject()
    return Rendered(render_job(placed, lambda: KEYS)[0])


class Named:
    """Paths that an import's notes mention, including all paths below them."""

    def __init__(self, imported: Imported) -> None:
        self._paths = {note.path for note in imported.notes}

    def __contains__(self, path: Path) -> bool:
        return any(format_path(path[:length]) in self._paths for length in range(1, len(path) + 1))


def read_value_at(value: Any, path: Path) -> Any:
    """Return the value at a path, or None."""
    return Source(value).get_field(*path).value


# --- contents of a manifest --------------------------------------------------------------------------------------------


def find_main_containers(document: Mapping[str, Any]) -> dict[str, Path]:
    """Return the path of each role's main container. The imported job keeps this container."""
    replicas = {"MPIJob": "mpiReplicaSpecs", "PyTorchJob": "pytorchReplicaSpecs"}.get(document["kind"])
    if replicas:
        return {role: ("spec", replicas, role, "template", "spec", "containers", 0) for role in document["spec"][replicas]}
    if document["kind"] == "Job":
        return {"Worker": ("spec", "template", "spec", "containers", 0)}
    return {"Worker": ("spec", "trainer")} if document["kind"] == "TrainJob" else {"Worker": (*TRAIN_JOB, "containers", 0)}


def list_expected_commands(documents: Sequence[Mapping[str, Any]], named: Named) -> Iterator[list[str]]:
    """Yield the commands that the job must have: command and args of each container that the notes do not mention."""
    job, *runtime = documents
    for role, path in find_main_containers(job).items():
        if path in named or (job["kind"] == "MPIJob" and role == "Worker"):
            continue
        container = read_value_at(job, path)
        if runtime:
            usual = read_value_at(runtime[0], find_main_containers(runtime[0])["Worker"])
            container = {key: container.get(key) or usual.get(key) for key in ("command", "args")}
        yield [*(container.get("command") or []), *(container.get("args") or [])]


def check_variables(document: Mapping[str, Any], job: Rendered, named: Named) -> None:
    for role, path in find_main_containers(document).items():
        for number, variable in enumerate(read_value_at(document, path).get("env", [])):
            key = "value" if "value" in variable else "valueFrom"
            if (*path, "env", number, key) not in named:
                assert job.read_env(role).get(variable["name"], {}).get(key) == variable[key], (role, variable)


def check_resources(document: Mapping[str, Any], job: Rendered, named: Named) -> None:
    read: Mapping[str, Callable[[str], int]] = {
        GPU_RESOURCE: int,
        EFA_RESOURCE: int,
        "memory": parse_bytes,
        "cpu": parse_millicores,
        HUGEPAGES_RESOURCE: parse_bytes,
    }
    for path in find_main_containers(document).values():
        key = "resourcesPerNode" if path[-1] == "trainer" else "resources"
        for where in list_leaves(read_value_at(document, (*path, key)) or {}):
            name, amount = str(where[-1]), read_value_at(document, (*path, key, *where))
            if (*path, key, *where) not in named and amount != {}:
                assert read[name](job.limits.get(name, "0")) == read[name](str(amount)), where


def check_worker_counts(documents: Sequence[Mapping[str, Any]], job: Rendered, named: Named) -> None:
    spec, kind = documents[0]["spec"], documents[0]["kind"]
    if kind == "MPIJob":
        workers, slots = spec["mpiReplicaSpecs"]["Worker"].get("replicas", 1), spec.get("slotsPerWorker", 1)
        launchers = ("spec", "mpiReplicaSpecs", "Launcher", "replicas")
        assert read_value_at(documents[0], launchers) in (None, 1) or launchers in named
    elif kind == "PyTorchJob":
        workers = sum(role.get("replicas", 1) for role in spec["pytorchReplicaSpecs"].values())
        slots = spec.get("nprocPerNode")
        assert slots != "auto" or ("spec", "nprocPerNode") in named
    elif kind == "Job":
        workers, slots = spec.get("completions"), None
        parallelism = spec.get("parallelism")
        workers = workers or parallelism or 1
        assert parallelism in (None, workers) or ("spec", "parallelism") in named
    else:
        policy = documents[1]["spec"]["mlPolicy"]
        elastic = policy["torch"].get("elasticPolicy", {})
        workers = spec["trainer"].get("numNodes") or policy.get("numNodes") or elastic.get("minNodes") or 1
        slots = spec["trainer"].get("numProcPerNode") or policy["torch"].get("numProcPerNode")
        assert slots != "auto" or ("spec", "mlPolicy", "torch", "numProcPerNode") in named
    assert job.workers == workers
    if str(slots).isdigit():
        assert job.slots == int(slots)


CHECKED: Final = ("command", "args", "env", "resources", "resourcesPerNode")
NUMBERS: Final = (
    "replicas",
    "completions",
    "parallelism",
    "slotsPerWorker",
    "nprocPerNode",
    "numNodes",
    "numProcPerNode",
    "minNodes",
)


def list_other_values(document: Mapping[str, Any], named: Named) -> Iterator[tuple[Path, Any]]:
    """Yield each value that no note mentions and no other check compares."""
    for path in list_leaves(document):
        is_name = path[0] in ("apiVersion", "kind") or path[-1] == "name" or "runtimeRef" in path
        is_checked = any(key in CHECKED for key in path) or path[-1] in NUMBERS
        value = read_value_at(document, path)
        if not is_name and not is_checked and path not in named and value not in ([], {}):
            yield path, value


@settings(deadline=None, max_examples=200)
@given(foreign_jobs.JOBS)
def test_every_manifest_field_is_imported_or_reported(documents: list[dict[str, Any]]) -> None:
    imported = formats.import_job(yaml.safe_dump_all(documents), {})
    named, job = Named(imported), render_imported_job(imported)
    for words in list_expected_commands(documents, named):
        assert not words or job.command[-len(words) :] == words
    imported_values = {str(read_value_at(imported.draft.values, path)) for path in list_leaves(imported.draft.values)}
    for document in documents:
        check_variables(document, job, named)
        check_resources(document, job, named)
        lost = [path for path, value in list_other_values(document, named) if str(value) not in imported_values]
        assert lost == []
    check_worker_counts(documents, job, named)


@settings(deadline=None, max_examples=200)
@given(foreign_jobs.DIRECTIVES, foreign_jobs.SRUN_OPTIONS, foreign_jobs.PROGRAMS_OF_SCRIPTS)
def test_every_batch_script_setting_is_imported_or_reported(options: dict[str, Any], of_srun: list[str], program: str) -> None:
    lines = ["export STEPS=4", f"srun {' '.join([*of_srun, program])}", "echo done"]
    imported = formats.import_job(foreign_jobs.make_script(options, lines), {})
    job, named = render_imported_job(imported), {(note.path, note.text.partition(": ")[0]) for note in imported.notes}
    assert job.command[-1].endswith("\n".join(["", *lines, ""]))
    where = f"line {len(options) + 3}"
    assert {text for path, text in named if path == where} == {f"srun {option}" for option in of_srun}
    numbers = {name: int(str(value).rpartition(":")[2]) for name, value in options.items() if name in SIZES}
    tasks = job.slots if "slots" in imported.draft.values else 1
    imported_sizes = {
        "nodes": job.workers,
        "ntasks": job.workers * tasks,
        "ntasks-per-node": tasks,
        "gpus": job.workers * int(job.limits[GPU_RESOURCE]),
        "gpus-per-node": int(job.limits[GPU_RESOURCE]),
        "gpus-per-task": int(job.limits[GPU_RESOURCE]) // tasks,
    }
    for number, (name, value) in enumerate(options.items(), 2):
        text = f"--{name}={value}" if value != "" else f"--{name}"
        is_named = any(path == f"line {number}" and said.startswith(f"--{name}") for path, said in named)
        if is_named:
            continue
        is_imported = imported_sizes.get(name) == numbers.get(name, -1) or OTHERS.get(name, lambda *_: False)(
            imported.draft.values, value
        )
        assert is_imported, text


SIZES: Final = ("nodes", "ntasks", "ntasks-per-node", "gpus", "gpus-per-node", "gpus-per-task")
OTHERS: Final[Mapping[str, Any]] = {
    "job-name": lambda job, value: job["name"] == value,
    "partition": lambda job, value: job["pool"] == value,
    "exclusive": lambda job, _: job["onePerNode"] is True,
    "time": lambda job, value: job["activeDeadlineSeconds"] == {"60": 3600, "01:00:00": 3600, "1-0": 86400}[value],
    "gres": lambda job, value: f"gpu:{job['gpusPerWorker']}" in value.split(","),
}
