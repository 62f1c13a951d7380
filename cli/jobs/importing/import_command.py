"""`import`: turn a job of another system into a job file, and submit it on request."""

import re
import sys
from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from cli import options
from cli.clusters.kubernetes_access import Access
from cli.console import print_json, to_json
from cli.errors import CommandError, NotFound, serialize_problem, summarize_problems
from cli.exit_codes import OK, REFUSED, USAGE
from cli.jobs import assignments, submit
from cli.jobs.importing import formats, variables
from cli.jobs.importing.draft import Draft
from cli.jobs.importing.formats import Imported
from cli.jobs.importing.source import NotImportable
from cli.jobs.workdir import places
from cli.jobs.workdir.selection import LIMIT_MIB
from infra.config.problems import Problem, remove_redundant_problems
from infra.jobs.cluster import ClusterDescription
from infra.jobs.model import Job
from infra.jobs.reading import JobRefused, check_job_values, validate_job
from infra.jobs.render import render_job

POOL: Final = "train"
FIELDS: Final = {field.alias or name for name, field in Job.model_fields.items()}


def command(
    file: Annotated[Path, typer.Argument(help="MPIJob, PyTorchJob, TrainJob with its runtime, batch Job, or sbatch script.")],
    values: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Value of a template variable (`$NAME`, `<NAME>`) or of a field of the job (`pool=train`, `resources.cpu=8`). "
            "`NAME=secret:SECRET/KEY` reads an environment variable from a Secret.",
            show_default=False,
        ),
    ] = None,
    submit_it: Annotated[bool, typer.Option("--submit", help="Submit the job instead of printing its file.")] = False,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="With --submit: print the log until the job ends.")] = False,
    *,
    access: Access,
    as_json: options.Json = False,
) -> int:
    """Prints a job file and, on stderr, each field that was dropped or changed. Needs a cluster only with --submit."""
    assigned = dict(assignments.split_pairs("--set", values or ()))
    imported, fields = _read_file(file, assigned)
    if not {"name", "generateName"} & imported.draft.values.keys():
        imported.draft.set("name", re.sub(r"[^a-z0-9]+", "-", file.stem.lower()).strip("-"), "from the file's name")
    _apply_assignments(imported.draft, [(path, text) for path, text in assigned.items() if _get_root_key(path) in fields])
    if submit_it:
        return _submit_job(file, imported, access, follow=follow, as_json=as_json)
    _choose_pool(imported.draft)
    problems = find_problems(imported.draft)
    if as_json:
        print_json(_build_document(file, imported, problems))
    else:
        _print_notes(imported)
        print(imported.draft.as_yaml(f"Imported from {file.name}. Check the comments; run it with `submit`."), end="")
    if problems and not as_json:
        raise CommandError(summarize_problems(file.name, len(problems), "submitted"), REFUSED, problems=problems)
    return REFUSED if problems else OK


def _read_file(file: Path, assigned: Mapping[str, str]) -> tuple[Imported, Set[str]]:
    """Return the job, and the fields whose names are not those of template variables of the file."""
    if not file.is_file():
        raise NotFound(f"there is no file {file}")
    try:
        text = formats.read_text(file)
        names = FIELDS | variables.find_variable_names(text)
        if unknown := sorted(path for path in assigned if path not in names and _get_root_key(path) not in names):
            message = f"--set {unknown[0]}: is neither a variable in the file nor a field of a job. Correct the name"
            raise CommandError(message, USAGE)
        return formats.import_job(text, assigned), FIELDS - variables.find_variable_names(text)
    except NotImportable as error:
        raise CommandError(f"{file.name}: {error}", REFUSED) from None


def _get_root_key(path: str) -> str:
    return str(assignments.parse_path(path)[0])


def _apply_assignments(draft: Draft, assigned: Sequence[tuple[str, str]]) -> None:
    draft.values = assignments.apply_assignments(draft.values, assigned)
    draft.comments |= {_get_root_key(path): "from --set" for path, _ in assigned}


def _choose_pool(draft: Draft, cluster: ClusterDescription | None = None) -> None:
    """Set the pool to the first one that runs ranks and has enough GPUs per node. Default to `train`."""
    if "pool" in draft.values:
        return
    gpus = draft.values.get("gpusPerWorker") or 0
    fits = [pool.name for pool in cluster.pools if pool.gpus >= gpus and pool.name != cluster.launcher_pool] if cluster else []
    chosen = f"the first pool with {gpus} GPUs per node" if gpus else "the first pool"
    without = "the source sets no pool; `status` lists the pools of a cluster"
    draft.set("pool", *((fits[0], chosen) if fits else (POOL, without)))


def find_problems(draft: Draft) -> list[Problem]:
    """Return the errors in the job that can be found without a cluster."""
    problems = remove_redundant_problems(check_job_values(draft.values))
    return [problem for problem in dict.fromkeys(problems) if problem.is_error]


def _submit_job(file: Path, imported: Imported, access: Access, *, follow: bool, as_json: bool) -> int:
    cluster = access.connect()
    described = cluster.description()
    _choose_pool(imported.draft, described)
    _print_notes(imported)
    values = {"namespace": access.namespace or cluster.namespace, **imported.draft.values}
    try:
        placed = validate_job(values, described, on_warning=submit.print_warning)
    except JobRefused as error:
        raise submit.make_refusal_error(file.name, error.problems) from None
    files = places.choose_storage(placed, submit.resolve_workdir(file, placed.job), LIMIT_MIB)
    manifests = render_job(replace(placed, storage=files.storage))
    return submit.create_job(cluster, placed.job, manifests, files, follow=follow, as_json=as_json)


def _print_notes(imported: Imported) -> None:
    for note in imported.notes:
        print(note, file=sys.stderr)


def _build_document(file: Path, imported: Imported, problems: Sequence[Problem]) -> dict[str, Any]:
    return {
        "file": str(file),
        "ok": not problems,
        "job": imported.draft.values,
        "notes": to_json(list(imported.notes)),
        "problems": [serialize_problem(problem) for problem in problems],
    }
