"""`recover` repairs state files that a killed engine has truncated, and changes nothing else."""

from pathlib import Path

import pytest

from infra.recovery.recover_stack import repair_backend

WHOLE = '{"version": 3}'


def write_backend(folder: Path, state: str | None) -> tuple[str, Path]:
    """Return the URL of a backend whose stack has a backup, and the path of the stack's state file."""
    file = folder / ".pulumi" / "stacks" / "gpumpi" / "dev.json"
    file.parent.mkdir(parents=True)
    file.with_name("dev.json.bak").write_text(WHOLE)
    if state is not None:
        file.write_text(state)
    return f"file://{folder}", file


@pytest.mark.parametrize("state", ["", '{"version": ', WHOLE])
def test_truncated_state_is_restored_from_its_backup(tmp_path: Path, state: str) -> None:
    url, file = write_backend(tmp_path, state)
    repair_backend(url, "gpumpi", "organization/gpumpi/dev")
    assert file.read_text() == WHOLE


def test_removed_stack_is_not_restored(tmp_path: Path) -> None:
    """`pulumi stack rm` renames the state file to the backup."""
    url, file = write_backend(tmp_path, None)
    repair_backend(url, "gpumpi", "dev")
    assert not file.exists()


def test_remote_backends_are_not_repaired(tmp_path: Path) -> None:
    _, file = write_backend(tmp_path, "")
    repair_backend(f"s3://{tmp_path}", "gpumpi", "dev")
    assert file.read_text() == ""
