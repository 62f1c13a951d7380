"""`import`: its output for each case in tests/corpus, and that nothing is lost silently."""

import os
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from cli.exit_codes import REFUSED
from cli.importing import formats, variables
from cli.importing.draft import Draft
from cli.importing.errors import NotImportable
from cli.importing.source import Source, leaves
from cli.importing.verb import _choose_pool, problems_of
from cli.main import app
from infra.config.problems import path_text
from infra.jobs.model import Job
from infra.jobs.reading import judged
from infra.jobs.render import render
from tests.pure.job_world import KEYS, cluster

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


def printed(text: str) -> str:
    """Return what `import` prints: notes, then the job file with its problems, or why there is none."""
    try:
        imported = formats.read(text, {name: value for name, value in GIVEN.items() if name in variables.names(text)})
    except NotImportable as error:
        return f"refused: {error}\n"
    imported.draft.set("pool", imported.draft.values.get("pool", "train"))
    notes = "".join(f"{note}\n" for note in imported.notes)
    problems = "".join(f"problem: {problem}\n" for problem in problems_of(imported.draft))
    return f"{notes}---\n{imported.draft.as_yaml('Imported.')}---\n{problems}"


@pytest.mark.parametrize("case", CASES)
def test_a_case_is_imported_as_recorded(case: str) -> None:
    golden = CORPUS / f"{case}.out"
    found = printed((CORPUS / case).read_text(encoding="utf-8"))
    if os.environ.get("UPDATE_GOLDEN"):
        golden.write_text(found, encoding="utf-8")
    assert found == golden.read_text(encoding="utf-8")


def test_every_case_has_a_source() -> None:
    listed = [line.split("|")[1].strip() for line in (CORPUS / "SOURCES.md").read_text().splitlines() if line.startswith("| ")][
        1:
    ]
    assert sorted(listed) == sorted(Path(case).stem for case in CASES)
    assert len(listed) >= 25


@pytest.mark.parametrize("case", CASES)
def test_what_import_writes_is_the_job_that_submit_reads(case: str) -> None:
    parts = (CORPUS / f"{case}.out").read_text(encoding="utf-8").split("---\n")
    if len(parts) < 3 or parts[-1]:
        pytest.skip("this case has no job")
    content = {"namespace": "mpi-jobs", **yaml.safe_load(parts[1])}
    content |= {"pool": "train", "workers": min(content["workers"], 2), "volumes": []}
    content["resources"] = {"efa": 1}  # the share of a worker with one of eight GPUs is none
    assert render(judged(content, cluster()), cluster(), KEYS)


def test_args_without_a_command_name_the_lost_entrypoint() -> None:
    notes = {note.path: note.text for note in formats.read((CORPUS / "mpijob-entrypoint.yaml").read_text(), {}).notes}
    path = "spec.mpiReplicaSpecs.Launcher.template.spec.containers[0].args"
    assert notes[path] == "command, because the image's ENTRYPOINT is not in this file. Put it before the arguments"


@pytest.mark.parametrize(
    ("trainer", "expected"),
    [
        ({}, ["python", "tune.py", "--lr", "0.1"]),
        ({"args": ["--lr", "1"]}, ["python", "tune.py", "--lr", "1"]),
        ({"command": ["torchrun", "a.py"]}, ["torchrun", "a.py", "--lr", "0.1"]),
        ({"command": ["torchrun", "a.py"], "args": ["--lr", "1"]}, ["torchrun", "a.py", "--lr", "1"]),
    ],
)
def test_a_trainjob_replaces_command_and_args_of_its_runtime_separately(trainer: dict[str, Any], expected: list[str]) -> None:
    runtime, job = yaml.safe_load_all((CORPUS / "trainjob-args.yaml").read_text())
    imported = formats.read(yaml.safe_dump_all([runtime, {**job, "spec": {**job["spec"], "trainer": trainer}}]), {})
    assert imported.draft.values["command"] == expected
    replaced = {note.path.rpartition(".")[2] for note in imported.notes if note.action == "changed"}
    assert replaced == trainer.keys(), "what the TrainJob replaces is named, and nothing else is"


# --- nothing is lost ----------------------------------------------------------------------------------------------------

WORDS = st.text("abcdefgh./=-", min_size=1, max_size=8)
NAMES = st.text("ABCDEFGH", min_size=4, max_size=8)
ENTRIES = st.dictionaries(NAMES, WORDS, max_size=4)
AMOUNTS = st.fixed_dictionaries(
    {},
    optional={
        "nvidia.com/gpu": st.integers(1, 8),
        "vpc.amazonaws.com/efa": st.integers(1, 4),
        "memory": st.just("64Gi"),
        "cpu": st.integers(1, 64),
        "example.test/fpga": st.just(1),
    },
)
CONTAINERS = st.fixed_dictionaries(
    {
        "name": st.just("pytorch"),
        "image": st.just("registry.test/a:1"),
        "command": st.lists(WORDS, min_size=1, max_size=4),
        "args": st.lists(WORDS, max_size=3),
        "env": ENTRIES.map(lambda entries: [{"name": name, "value": value} for name, value in entries.items()]),
        "resources": st.fixed_dictionaries({}, optional={"limits": AMOUNTS, "requests": AMOUNTS}),
    },
    optional={"tty": st.just(True), "unknownField": WORDS, "workingDir": st.just("/work")},
)
PODS = st.fixed_dictionaries(
    {"containers": st.lists(CONTAINERS, min_size=1, max_size=2)},
    optional={"hostNetwork": st.booleans(), "runtimeClassName": WORDS, "tolerations": st.just([{"key": "a"}])},
)
ROLES = st.fixed_dictionaries({"template": st.fixed_dictionaries({"spec": PODS})}, optional={"replicas": st.integers(1, 9)})


def _of(kind: str, version: str, spec: Any) -> Any:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "a"}, "spec": spec}


JOBS = st.one_of(
    st.fixed_dictionaries({"Launcher": ROLES, "Worker": ROLES}).map(
        lambda roles: _of("MPIJob", "kubeflow.org/v2beta1", {"mpiReplicaSpecs": roles})
    ),
    st.fixed_dictionaries({"Worker": ROLES}, optional={"Master": ROLES}).map(
        lambda roles: _of("PyTorchJob", "kubeflow.org/v1", {"pytorchReplicaSpecs": roles})
    ),
    st.builds(
        lambda role, pods: _of("Job", "batch/v1", {"template": role["template"], "completions": pods, "parallelism": pods}),
        ROLES,
        st.integers(1, 9),
    ),
)


@settings(deadline=None, max_examples=200)
@given(JOBS)
def test_every_value_of_a_manifest_is_in_the_job_or_named(document: dict[str, Any]) -> None:
    imported = formats.read(yaml.safe_dump(document), {})
    named = tuple(note.path for note in imported.notes)
    kept = yaml.safe_dump(imported.draft.values)
    values = {str(value) for path in leaves(imported.draft.values) for value in [_at(imported.draft.values, path)]}
    for path in leaves(document):
        text, value = Source(document).at(*path), str(_at(document, path))
        if path[0] in ("apiVersion", "kind") or path[-1] == "name" or text.value in (None, [], {}):
            continue
        is_named = any(path_text(path).startswith(name) for name in named)
        assert is_named or value in values or value in kept or path[-1] in ("replicas", "completions", "parallelism"), path
    replicas = [_at(document, path) for path in leaves(document) if path[-1] in ("replicas", "completions")]
    expected = {
        "MPIJob": _at(document, ("spec", "mpiReplicaSpecs", "Worker")).get("replicas", 1) if document["kind"] == "MPIJob" else 0
    }
    workers = imported.draft.values["workers"]
    if document["kind"] == "MPIJob":
        assert workers == expected["MPIJob"]
    elif document["kind"] == "PyTorchJob":
        roles = document["spec"]["pytorchReplicaSpecs"].values()
        assert workers == sum(role.get("replicas", 1) for role in roles)
    else:
        assert workers == replicas[0]


def _at(value: Any, path: tuple[str | int, ...]) -> Any:
    for key in path:
        value = value[key] if isinstance(value, list) else value.get(key, {})
    return value


def test_a_draft_keeps_the_model_s_order_and_can_be_read_back() -> None:
    draft = Draft()
    draft.set("command", ["sh", "-c", "a\nb\n"], "a reason")
    draft.set("name", "train")
    text = draft.as_yaml("title")
    assert text == "# title\nname: train\n# a reason\ncommand:\n- sh\n- -c\n- |\n  a\n  b\n"
    assert list(yaml.safe_load(text)) == [name for name in Job.model_fields if name in ("name", "command")]


@pytest.mark.parametrize("gpus", [None, 4, 8])
def test_submit_never_chooses_the_pool_of_the_launchers(gpus: int | None) -> None:
    draft = Draft()
    draft.set("gpusPerWorker", gpus)
    _choose_pool(draft, cluster())
    assert cluster().pools[0].name == cluster().launcher_pool
    assert draft.values["pool"] == "train"


def test_a_manifest_that_contains_itself_is_refused() -> None:
    with pytest.raises(NotImportable, match="has an alias that contains itself, line 3"):
        formats.documents("apiVersion: v1\nkind: Pod\nspec: &a\n  template: *a\n")


def test_a_value_of_set_that_is_not_yaml_is_refused() -> None:
    done = CliRunner().invoke(app, ["import", str(CORPUS / "mpijob-args.yaml"), "--set", "env=a: b: c"])
    assert done.exit_code == REFUSED
    assert "--set env: the value is not YAML: mapping values are not allowed here" in done.output
