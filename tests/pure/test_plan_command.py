"""`plan` without AWS: exit codes with and without --strict, and its output after a failed preview."""

import json
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from cli import main
from cli.exit_codes import NOT_RUN, OK, REFUSED
from cli.stacks import pulumi_program
from cli.stacks.plan import changes, plan_command
from cli.stacks.plan.changes import Changes
from infra import preflight
from infra.cost.prices import Prices, read_snapshot
from infra.facts import price_list
from tests.pure.world import account_facts

FILE = {
    "aws:region": "us-west-2",
    "gpumpi:target": {"kind": "eks"},
    "gpumpi:pools": [{"name": "train", "instanceType": "p4d.24xlarge", "maxSize": 2}],
}


def run_plan(folder: Path, *options: str, **changes: object) -> Result:
    (folder / "Pulumi.mine.yaml").write_text(json.dumps({"config": {**FILE, **changes}}))
    return CliRunner().invoke(main.app, ["plan", "-s", "mine", "--config-dir", str(folder), *options])


def test_unknown_checks_fail_only_with_strict(tmp_path: Path) -> None:
    assert run_plan(tmp_path, "--offline").exit_code == OK
    done = run_plan(tmp_path, "--offline", "--strict")
    assert done.exit_code == NOT_RUN
    assert "unknown: with --strict, every check, price and change must be known" in " ".join(done.stdout.split())


def test_failed_check_exits_with_3_even_with_strict(tmp_path: Path) -> None:
    assert run_plan(tmp_path, "--offline", "--strict", **{"gpumpi:poools": []}).exit_code == REFUSED


def test_a_preview_that_failed_is_unknown_on_the_screen_and_in_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail_preview(*_: object, **__: object) -> object:
        return lambda: changes.make_failed_preview("the passphrase of the stack is wrong")

    monkeypatch.setattr(plan_command, "_make_preview", fail_preview)
    screen = " ".join(run_plan(tmp_path, "--offline").stdout.split())
    assert "changes unknown: the passphrase of the stack is wrong" in screen
    assert "no check failed; the changes are unknown" in screen
    document = json.loads(run_plan(tmp_path, "--offline", "--strict", "--json").stdout)
    assert (document["exitCode"], document["unknown"][0]) == (NOT_RUN, "pulumi preview")
    assert document["changes"]["notPreviewed"] == "the passphrase of the stack is wrong"


def test_preview_without_a_git_clone_fails_instead_of_being_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_command, "CLONE", None)
    assert plan_command._make_preview("mine", None, no_preview=False, offline=False)().failed
    assert plan_command._make_preview("mine", None, no_preview=True, offline=False)() == Changes({}, not_previewed="--no-preview")


def test_preview_uses_a_stack_file_outside_of_the_stacks_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[str] = []

    def run(*arguments: str) -> str:
        commands.extend(arguments)
        return '{"steps": []}'

    monkeypatch.setattr(pulumi_program, "run_pulumi", run)
    monkeypatch.setattr(
        plan_command, "build_report", lambda raw, *, look_ahead, **_: plan_command.Report("", "mine", "", (), None, look_ahead())
    )
    assert run_plan(tmp_path).exit_code == OK
    assert commands == ["preview", "--json", "--stack", "mine", "--config-file", str(tmp_path / "Pulumi.mine.yaml")]


def test_plan_reads_prices_only_once_for_a_stack_with_a_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    requests = []

    def read_prices(request: price_list.Wanted) -> Prices:
        requests.append(request.region)
        return read_snapshot(request.region)

    monkeypatch.setattr(price_list, "read", read_prices)
    monkeypatch.setattr(
        preflight,
        "gather_facts",
        lambda settings: account_facts(settings, prices=price_list.read(price_list.Wanted.from_settings(settings))),
    )
    monkeypatch.setattr(plan_command, "_check_account", lambda *_: ())
    done = run_plan(tmp_path, "--no-preview", "--json", **{"gpumpi:budget": {"maxHourly": 1000}})
    assert json.loads(done.stdout)["cost"]["totals"]["maximum"]["usdPerHour"] > 0
    assert requests == ["us-west-2"]
