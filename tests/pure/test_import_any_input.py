"""`import` turns any input into a job file or error messages, never into a traceback."""

from pathlib import Path
from typing import Any

import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner, Result

from cli.exit_codes import OK, REFUSED, USAGE
from cli.main import app

PLAIN = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def run_import(folder: Path, content: bytes, *options: str) -> Result:
    (folder / "job.txt").write_bytes(content)
    return CliRunner().invoke(app, ["import", str(folder / "job.txt"), *options])


def check_result(done: Result) -> None:
    assert done.exception is None or isinstance(done.exception, SystemExit), repr(done.exception)
    assert done.exit_code in (OK, REFUSED, USAGE), done.output
    assert "Traceback" not in done.output


WORDS = st.sampled_from(
    [
        *(
            "--nodes",
            "--nodes=",
            "-N",
            "-N2",
            "--time=",
            "1-",
            ":",
            "00:00",
            "--gres=gpu:",
            "--gpus",
            "²",
            "٣",
            "9" * 5000,
            "--",
            "-",
            "=",
        ),
        *(
            "'",
            '"',
            "\\",
            "#",
            " ",
            "\t",
            "\x0b",
            "\x0c",
            "\x00",
            "\x85",
            "\u2028",
            "é",
            "--job-name=",
            "--container-image",
            "--comment=don't",
        ),
        *("srun", "-n", "${", "$(", "`", "ARGS=(", ")", "<<EOF", "torchrun", "hostname", "--array", "docker://", "{{", "}}"),
    ]
)
LINES = st.lists(WORDS | st.text(max_size=6), max_size=6).map("".join)
SCRIPTS = st.lists(
    st.sampled_from(["#SBATCH ", "#SBATCH", "#SBATCH\t", " #SBATCH ", "#", "", "srun ", "#!"]).flatmap(
        lambda start: LINES.map(lambda line: start + line)
    ),
    max_size=6,
).map("\n".join)


@PLAIN
@given(text=SCRIPTS, shebang=st.sampled_from(["#!/bin/bash\n", "#!/usr/bin/env -S\n", "#!\n", "", "\ufeff#!/bin/sh\n"]))
@example(text="#SBATCH --comment=don't preempt", shebang="#!/bin/bash\n")
@example(text='#SBATCH --job-name="My Job #1"', shebang="#!/bin/bash\n")
@example(text="#SBATCH --nodes=²", shebang="#!/bin/bash\n")
@example(text=f"#SBATCH --nodes={'9' * 5000}", shebang="#!/bin/bash\n")
def test_arbitrary_batch_script_causes_no_traceback(tmp_path: Path, text: str, shebang: str) -> None:
    check_result(run_import(tmp_path, f"{shebang}{text}\n".encode("utf-8", errors="replace")))


@PLAIN
@given(
    content=st.binary(max_size=60)
    | st.text(max_size=60).map(str.encode)
    | st.binary(max_size=40).map(lambda content: b"#!/bin/sh\n" + content)
)
def test_arbitrary_bytes_cause_no_traceback(tmp_path: Path, content: bytes) -> None:
    check_result(run_import(tmp_path, content))


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=6)
    | st.sampled_from(["1Gi", "$A", "<a>", "8", "python3"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4) | st.integers(), inner, max_size=3),
    max_leaves=8,
)
SAMPLES: list[Any] = [
    [document for document in yaml.safe_load_all(path.read_text()) if document]
    for path in sorted((Path(__file__).parents[1] / "corpus").glob("*.y*ml"))
]


def list_paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(inner for key, child in items for inner in list_paths(child, (*path, key)))]


@st.composite
def mutated_documents(draw: Any) -> Any:
    """Return the documents of a real job with one or two values replaced."""
    documents = yaml.safe_load(yaml.safe_dump(draw(st.sampled_from(SAMPLES))))
    for _ in range(draw(st.integers(1, 2))):
        *parents, last = draw(st.sampled_from([path for path in list_paths(documents) if path]))
        whole = documents
        for key in parents:
            whole = whole[key]
        whole[last] = draw(VALUES)
    return documents


@PLAIN
@given(documents=mutated_documents())
def test_arbitrary_manifest_values_cause_no_traceback(tmp_path: Path, documents: Any) -> None:
    check_result(run_import(tmp_path, yaml.safe_dump_all(documents).encode()))
