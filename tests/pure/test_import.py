"""Output of `import` for each case in tests/corpus."""

import os
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from typer.testing import CliRunner

from cli.exit_codes import REFUSED
from cli.jobs.importing import formats, variables
from cli.jobs.importing.draft import Draft
from cli.jobs.importing.import_command import _choose_pool, find_problems
from cli.jobs.importing.source import NotImportable
from cli.main import app
from infra.jobs.model import Job
from infra.jobs.reading import validate_job
from infra.jobs.render import render_job
from tests.pure.job_world import KEYS, make_cluster

CORPUS: Final = Path(__file__).parents[1] / "corpus"
CASES: Final = sorted(path.name for path in CORPUS.iterdir() if path.suffix in (".yaml", ".sbatch"))
GIVEN: Final = {
    "account": "123456789012",
    "region": "us-west-2",
    "NUM_NODES": "2",
    "IMAGE_URI": "registry.test/fsdp:1",
    "GPU_PER_NODE": "8",
    "EFA_PER_NODE": "4",
    "HF_TOKEN": "secret:hf/token",
    "GPU_RESOURCE": "nvidia.com/gpu",
    "REPO_URI": "registry.test/data:1",
    "DOMAINS": "behavior",
}


def run_import(text: str) -> str:
    """Return the output of `import`: notes, then the job file and its problems, or the reason for rejecting the file."""
    try:
        imported = formats.import_job(
            text, {name: value for name, value in GIVEN.items() if name in variables.find_variable_names(text)}
        )
    except NotImportable as error:
        return f"refused: {error}\n"
    imported.draft.set("pool", imported.draft.values.get("pool", "train"))
    notes = "".join(f"{note}\n" for note in imported.notes)
    problems = "".join(f"problem: {problem}\n" for problem in find_problems(imported.draft))
    return f"{notes}---\n{imported.draft.as_yaml('Imported.')}---\n{problems}"


def _read_expected_parts(case: str) -> list[str]:
    return (CORPUS / f"{case}.out").read_text(encoding="utf-8").split("---\n")


def _is_job(case: str) -> bool:
    parts = _read_expected_parts(case)
    return len(parts) == 3 and not parts[2]


@pytest.mark.parametrize("case", CASES)
def test_imported_case_matches_golden_file(case: str) -> None:
    golden = CORPUS / f"{case}.out"
    output = run_import((CORPUS / case).read_text(encoding="utf-8"))
    if os.environ.get("UPDATE_GOLDEN"):
        golden.write_text(output, encoding="utf-8")
    assert output == golden.read_text(encoding="utf-8")


def test_every_import_case_has_a_source() -> None:
    listed = [line.split("|")[1].strip() for line in (CORPUS / "SOURCES.md").read_text().splitlines() if line.startswith("| ")][
        1:
    ]
    assert sorted(listed) == sorted(Path(case).stem for case in CASES)
    assert len(listed) >= 25


@pytest.mark.parametrize("case", [case for case in CASES if _is_job(case)])
def test_submit_accepts_the_output_of_import(case: str) -> None:
    content = {"namespace": "mpi-jobs", **yaml.safe_load(_read_expected_parts(case)[1])}
    content |= {"pool": "train", "workers": min(content["workers"], 2), "volumes": []}
    content["resources"] = {"efa": 1}  # by default, a worker with one of eight GPUs gets no EFA interface
    assert render_job(validate_job(content, make_cluster()), lambda: KEYS)


def test_args_without_command_get_a_note_about_the_lost_entrypoint() -> None:
    notes = {note.path: note.text for note in formats.import_job((CORPUS / "mpijob-entrypoint.yaml").read_text(), {}).notes}
    path = "spec.mpiReplicaSpecs.Launcher.template.spec.containers[0].args"
    assert notes[path] == "command, because the image's ENTRYPOINT is not in this file. Put the ENTRYPOINT before the arguments"


@pytest.mark.parametrize(
    ("trainer", "expected"),
    [
        ({}, ["python", "tune.py", "--lr", "0.1"]),
        ({"args": ["--lr", "1"]}, ["python", "tune.py", "--lr", "1"]),
        ({"command": ["torchrun", "a.py"]}, ["torchrun", "a.py", "--lr", "0.1"]),
        ({"command": ["torchrun", "a.py"], "args": ["--lr", "1"]}, ["torchrun", "a.py", "--lr", "1"]),
    ],
)
def test_trainjob_overrides_command_and_args_of_its_runtime_separately(trainer: dict[str, Any], expected: list[str]) -> None:
    runtime, job = yaml.safe_load_all((CORPUS / "trainjob-args.yaml").read_text())
    imported = formats.import_job(yaml.safe_dump_all([runtime, {**job, "spec": {**job["spec"], "trainer": trainer}}]), {})
    assert imported.draft.values["command"] == expected
    replaced = {note.path.rpartition(".")[2] for note in imported.notes if note.action == "changed"}
    assert replaced == trainer.keys(), "the notes list only the fields that the TrainJob replaces"


def test_draft_keeps_field_order_of_the_model_and_can_be_parsed() -> None:
    draft = Draft()
    draft.set("command", ["sh", "-c", "a\nb\n"], "a reason")
    draft.set("name", "train")
    text = draft.as_yaml("title")
    assert text == "# title\nname: train\n# a reason\ncommand:\n- sh\n- -c\n- |\n  a\n  b\n"
    assert list(yaml.safe_load(text)) == [name for name in Job.model_fields if name in ("name", "command")]


@pytest.mark.parametrize("gpus", [None, 4, 8])
def test_import_never_chooses_the_launcher_pool(gpus: int | None) -> None:
    draft = Draft()
    draft.set("gpusPerWorker", gpus)
    _choose_pool(draft, make_cluster())
    assert make_cluster().pools[0].name == make_cluster().launcher_pool
    assert draft.values["pool"] == "train"


def test_a_manifest_that_contains_itself_is_refused() -> None:
    with pytest.raises(NotImportable, match="has an alias that contains itself, line 3"):
        formats.parse_documents("apiVersion: v1\nkind: Pod\nspec: &a\n  template: *a\n")


def test_set_option_with_invalid_yaml_is_refused() -> None:
    done = CliRunner().invoke(app, ["import", str(CORPUS / "mpijob-args.yaml"), "--set", "env=a: b: c"])
    assert done.exit_code == REFUSED
    assert "--set env: the value is not YAML: mapping values are not allowed here" in done.output
