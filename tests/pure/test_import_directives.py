"""`import` splits the options of a batch script as sbatch does: `_get_argument` in Slurm's src/sbatch/opt.c."""

from pathlib import Path

import pytest

from cli.jobs.importing import formats
from cli.jobs.importing.source import NotImportable


def read_notes(*lines: str) -> list[str]:
    """Return the notes on a script. Unknown options appear there with their values."""
    return [str(note) for note in formats.import_job("\n".join(["#!/bin/bash", *lines, "srun ./train", ""]), {}).notes]


OPTIONS = {
    '#SBATCH --x="a b"': "--x=a b",
    '#SBATCH "--x=a b"': "--x=a b",
    "#SBATCH --x='a b'c": "--x=a bc",
    "#SBATCH --x=it's 'us": "--x=its us",
    "#SBATCH --x='say \"hi\"'": '--x=say "hi"',
    r"#SBATCH --x=don\'t": "--x=don't",
    r"#SBATCH --x='don\'t stop'": "--x=don't stop",
    r"#SBATCH --x=a\ b": "--x=a b",
    r"#SBATCH --x=a\#b": "--x=a#b",
    "#SBATCH --x='a # b'": "--x=a # b",
    '#SBATCH --x="My Job #1"': "--x=My Job #1",
    "#SBATCH --x=a # --y=b": "--x=a",
    "#SBATCH --x=a ## don't": "--x=a",
    "#SBATCH --x=a#b": "--x=a",
    "#SBATCH --x a": "--x=a",
    '#SBATCH --x ""': "--x",
    "#SBATCH --x= --nodes=1": "--x",
    "#SBATCH\t--x=a": "--x=a",
    "#SBATCH--x=a": "--x=a",
    "#SBATCH --x=a\\": "--x=a",
    "#SBATCH --x=a\x0c--y=b": "--x=a",
    "#SBATCH --x=\u2028a": "--x=\u2028a",
}


@pytest.mark.parametrize("line", OPTIONS)
def test_directive_options_are_split_as_in_sbatch(line: str) -> None:
    first = read_notes(line)[0]
    assert first == f"line 2: dropped: {OPTIONS[line]}: job files have no such field"


@pytest.mark.parametrize("quote", ["'", '"'])
@pytest.mark.parametrize("before", ["--comment=don{}t preempt", "--comment={}", "-J {}My Job # {{}}", "--x='a' {}"])
def test_unclosed_quote_is_refused_with_its_line(before: str, quote: str) -> None:
    line = before.format(quote).replace("{}", "")
    with pytest.raises(NotImportable, match=f"^line 3: the quote {quote} is not closed, so sbatch refuses the script. Close it"):
        read_notes("# a comment", f"#SBATCH {line}")


def test_a_space_before_an_equals_sign_is_refused_with_its_line() -> None:
    with pytest.raises(NotImportable, match=r"^line 2: --nodes has a space before its `=`, which sbatch refuses\. Remove it$"):
        read_notes("#SBATCH --nodes = 2")


def test_quotes_in_comments_and_after_the_first_command_are_not_read() -> None:
    assert read_notes("# don't", "  # can't", "#SBATCH --nodes=1 # isn't", "echo", "#SBATCH --comment=don't") == []


def test_hash_in_enroot_image_name_is_not_a_comment() -> None:
    text = "#!/bin/bash\n#SBATCH --container-image=nvcr.io#nvidia/pytorch:1\nsrun ./train\n"
    assert formats.import_job(text, {}).draft.values["image"] == "nvcr.io/nvidia/pytorch:1"
    assert formats.import_job(text.replace("=nvcr", " nvcr"), {}).draft.values["image"] == "nvcr.io/nvidia/pytorch:1"


@pytest.mark.parametrize("separator", ["\x0c", "\x0b", "\x85", "\u2028", "\x1c"])
def test_only_a_line_feed_ends_a_line_of_a_script(separator: str) -> None:
    body = f"echo 'a{separator}#SBATCH b'"
    text = f"#!/bin/bash\n#SBATCH --nodes=2\n{body}\nsrun -c 8 ./train\n"
    imported = formats.import_job(text, {})
    assert imported.draft.values["command"][-1].endswith(f"{body}\nsrun -c 8 ./train\n")
    assert [str(note).partition(":")[0] for note in imported.notes] == ["line 4"]


MANIFESTS = {
    "command: python train.py": 'command: is "python train.py". Kubernetes requires a list, such as [python3, train.py] here',
    "args: [1, null]": "args[1]: is empty. Kubernetes requires text here",
    "env: {A: b}": "env: is a mapping. Kubernetes requires a list here",
    "env: [A=b]": 'env[0]: is "A=b". Kubernetes requires a mapping here',
    "resources: 8": "resources: is 8. Kubernetes requires a mapping here",
    "resources: {limits: [cpu]}": "resources.limits: is a list. Kubernetes requires a mapping here",
    "image: [a]": "image: is a list. Kubernetes requires text here",
    "ports: [{containerPort: many}]": 'ports[0].containerPort: is "many". Kubernetes requires a whole number here',
}


@pytest.mark.parametrize("line", MANIFESTS)
def test_malformed_value_is_refused_with_its_path(line: str) -> None:
    text = f"""
apiVersion: batch/v1
kind: Job
metadata: {{name: a}}
spec: {{template: {{spec: {{containers: [{{name: a, {line}}}]}}}}}}
"""
    with pytest.raises(NotImportable) as raised:
        formats.import_job(text, {})
    assert str(raised.value) == f"spec.template.spec.containers[0].{MANIFESTS[line]}"


@pytest.mark.parametrize(("script", "line"), [("srun a\0b\n", 3), ("srun a\n\n# \0", 5)])
def test_a_script_with_a_nul_character_is_refused_with_its_line(script: str, line: int) -> None:
    with pytest.raises(NotImportable, match=f"^line {line}: has a NUL character, so sbatch refuses the script. Remove it$"):
        formats.import_job(f"#!/bin/bash\n#SBATCH --nodes=2\n{script}", {})


def test_a_byte_order_mark_does_not_hide_the_directives(tmp_path: Path) -> None:
    (tmp_path / "job.sbatch").write_bytes(b"\xef\xbb\xbf#!/bin/bash\n#SBATCH --nodes=2\nsrun ./train\n")
    assert formats.import_job(formats.read_text(tmp_path / "job.sbatch"), {}).draft.values["workers"] == 2


@pytest.mark.parametrize("line", ["#SBATCH hetjob", "#SBATCH --nodes=1 packjob"])
def test_a_heterogeneous_job_is_refused_with_its_line(line: str) -> None:
    with pytest.raises(NotImportable, match=r"^line 3: (hetjob|packjob) adds workers of another kind, but a job has one kind"):
        read_notes("#SBATCH --nodes=1", line, "#SBATCH --nodes=7")
