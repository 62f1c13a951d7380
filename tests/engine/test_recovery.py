"""`scripts/cluster recover` with a real stack."""

import os

import pytest

from cli.stacks import pulumi_program, recover
from testkit.projects import Project

SECRET = "import pulumi\npulumi.export('token', pulumi.Output.secret('hush'))\n"


@pytest.mark.parametrize(("passphrase", "problem"), [("wrong", "is wrong"), (None, "is not set")])
def test_recover_reports_a_wrong_passphrase_in_one_sentence(
    project: Project, monkeypatch: pytest.MonkeyPatch, passphrase: str | None, problem: str
) -> None:
    project.create(SECRET)
    assert project.run("up").ok
    project.write(SECRET + "raise pulumi.RunError('no')\n")
    assert not project.run("up").ok, "there is something to recover from"
    for name, value in project.cloud.process_environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("PULUMI_CONFIG_PASSPHRASE")
    if passphrase:
        monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE", passphrase)
    monkeypatch.setattr(pulumi_program, "CLONE", project.folder)
    assert os.environ["PULUMI_BACKEND_URL"].startswith("file://"), "the test must not touch the user's own stacks"
    with pytest.raises(pulumi_program.CommandError) as refused:
        recover.command(project.stack)
    fix = "set PULUMI_CONFIG_PASSPHRASE to the passphrase with which the stack was created"
    assert str(refused.value) == f"the passphrase of the stack {problem}; {fix}"
