"""The examples in docs/guides/coming-from.md are valid. tests/kubernetes/test_coming_from.py runs them."""

from pathlib import Path

import pytest

from cli.main import load_verb
from tests.docs.coming_from import SYSTEMS, Command, write_examples


@pytest.mark.parametrize("system", SYSTEMS)
def test_example_files_of_other_systems_can_be_imported_or_pass_validate(
    system: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    commands = write_examples(system, tmp_path)
    checked = {Path(run_offline(command, capsys)).name for command in commands if command.verb in ("import", "validate")}
    assert checked == {path.name for path in tmp_path.iterdir() if path.name != "job.yaml"}, "every file has a command"
    canceled = [command.arguments[1] for command in commands if command.verb == "cancel"]
    assert len(canceled) == sum("--follow" in command.arguments for command in commands), "nothing keeps running"


def run_offline(command: Command, capsys: pytest.CaptureFixture[str]) -> str:
    """Run a command without submitting a job. Return the command's first argument, which is a file."""
    name, *rest = [word for word in command.arguments if word not in ("--submit", "--follow")]
    code = load_verb(name).main(args=rest, prog_name=name, standalone_mode=False)
    said = capsys.readouterr()
    assert not code, said.out + said.err
    if command.output:
        command.output.write_text(said.out)
    return rest[0]
