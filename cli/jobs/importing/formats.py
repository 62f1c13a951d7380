"""Recognize the format of a foreign job, and convert the job into a job file."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from cli.jobs.importing import batch_job, form, mpijob, pytorchjob, sbatch, trainjob, variables
from cli.jobs.importing.draft import Draft
from cli.jobs.importing.source import Note, NotImportable, Source
from infra.config import yaml_text
from infra.config.secrets import is_secret_key
from infra.jobs.images import is_short_image_name

READERS: Final = {
    ("kubeflow.org", "MPIJob"): mpijob.read_job,
    ("kubeflow.org", "PyTorchJob"): pytorchjob.read,
    ("batch", "Job"): batch_job.read_job,
}
TRAIN_JOB: Final = ("trainer.kubeflow.org", "TrainJob")
UNDERSTOOD: Final = "MPIJob, PyTorchJob, TrainJob, batch Job and sbatch"


@dataclass(frozen=True)
class Imported:
    """A draft of a job file, and notes on its differences from the source."""

    draft: Draft
    notes: Sequence[Note]


def parse_documents(text: str) -> list[Mapping[str, Any]]:
    """Return the Kubernetes objects in a text, with Lists expanded; an empty list if the text contains no such objects."""
    try:
        loaded = [document for document in yaml_text.load_documents(text) if document is not None]
    except yaml_text.NotYaml as error:
        raise NotImportable(str(error)) from None
    loaded = [item for document in loaded for item in _expand_list(document)]
    return [item for item in loaded if isinstance(item, dict) and "kind" in item and "apiVersion" in item]


def _expand_list(document: Any) -> list[Any]:
    """Return the objects in a List, or the document itself."""
    items = document.get("items") if isinstance(document, dict) else None
    return items if isinstance(items, list) else [document]


def get_group_and_kind(document: Mapping[str, Any]) -> tuple[str, str]:
    return str(document["apiVersion"]).rpartition("/")[0], str(document["kind"])


def import_job(text: str, values: Mapping[str, str]) -> Imported:
    """Convert the job in a text. `values`: maps template variables to their values. Raises NotImportable."""
    draft = Draft()
    if text.startswith("#!") or f"\n{sbatch.DIRECTIVE}" in f"\n{text}":
        return Imported(draft, sbatch.read_script(draft, text))
    objects = [variables.replace_variables(document, values) for document in parse_documents(text)]
    jobs = [
        manifest for manifest in objects if get_group_and_kind(manifest) in READERS or get_group_and_kind(manifest) == TRAIN_JOB
    ]
    if len(jobs) != 1:
        kinds = ", ".join(str(manifest["kind"]) for manifest in objects) or "no Kubernetes object"
        raise NotImportable(
            f"has {len(jobs)} jobs of a supported kind ({kinds}). Give a file with exactly one; supported: {UNDERSTOOD}"
        )
    for manifest in objects:
        if manifest is jobs[0] or manifest["kind"] in trainjob.RUNTIMES:
            form.check_types(manifest)
    source = Source(jobs[0])
    used = [source]
    _require_variable_values(jobs[0])
    if get_group_and_kind(jobs[0]) == TRAIN_JOB:
        runtimes = [Source(manifest) for manifest in objects if manifest["kind"] in trainjob.RUNTIMES]
        trainjob.read(draft, source, runtimes)
        used += runtimes
    else:
        READERS[get_group_and_kind(jobs[0])](draft, source)
    notes_of_shell = _note_shell_variables(draft)
    unused = [manifest for manifest in objects if manifest is not jobs[0] and manifest["kind"] not in trainjob.RUNTIMES]
    notes = [note for source in used for note in source.notes()]
    notes += [
        Note(f"{manifest['kind']} {Source(manifest).get_field('metadata', 'name').value or ''}".strip(), "dropped", OTHER)
        for manifest in unused
    ]
    _complete_image_name(draft)
    return Imported(draft, [*notes, *notes_of_shell])


def _complete_image_name(draft: Draft) -> None:
    """Add the registry that Kubernetes assumes, docker.io, because a short image name in a job file refers to the
    cluster's image repository.
    """
    image = str(draft.values.get("image", ""))
    if image and is_short_image_name(image):
        folder = "" if "/" in image else "library/"
        why = "in the source, a name without a registry means Docker Hub; for the cluster's repository, remove docker.io"
        draft.set("image", f"docker.io/{folder}{image}", why)


def _note_shell_variables(draft: Draft) -> list[Note]:
    defined = {*draft.values.get("env", {}), *draft.values.get("secretEnv", {}), *_OF_RANKS}
    names = variables.find_shell_variables(draft.values.get("command", ()), defined)
    text = "the shell in the pod expands variables that nothing sets: {}. For a template variable, add --set"
    return [Note("command", "kept", text.format(", ".join(names)))] if names else []


_OF_RANKS: Final = frozenset(
    {
        *("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"),
        *("NNODES", "NODE_RANK", "NPROC_PER_NODE", "JOB_COMPLETION_INDEX"),
    }
)
"""Variables that every launcher sets; see docs/concepts/how-jobs-run.md, "Environment"."""
OTHER: Final = "a job file contains only the job; create it with kubectl"


def find_unset_variables(manifest: Mapping[str, Any]) -> list[variables.Unset]:
    """Return template variables that nothing expands, each with its first path."""
    missing_names: dict[str, variables.Unset] = {}
    for variable in variables.find_unset(manifest):
        missing_names.setdefault(variable.name, variable)
    return list(missing_names.values())


def _require_variable_values(job: Mapping[str, Any]) -> None:
    """Raise NotImportable if a template variable has no value and nothing would expand it."""
    if missing := find_unset_variables(job):
        listed = ", ".join(f"{variable.name} ({variable.path})" for variable in missing)
        options = " ".join(
            f"--set {variable.name}={'secret:NAME/KEY' if is_secret_key(variable.name, '') else '...'}" for variable in missing
        )
        raise NotImportable(f"has template variables without a value: {listed}. Add {options}")


def read_text(path: Path) -> str:
    """Return the text of a file. Raises NotImportable."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise NotImportable("is not UTF-8 text") from None
