"""Output and exit code of `scripts/cluster validate`."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli.exit_codes import REFUSED
from cli.main import app
from cli.stacks.validate import validate_command
from infra import preflight
from infra.facts import Existing, ExistingPool, Facts, FactsError
from infra.facts.queries import Query
from infra.settings.stack import Settings
from infra.versions import MONITORING_NOT_VERIFIED
from localcloud.instance import LocalCloud
from tests.pure.world import facts

ROOT = Path(__file__).parents[2]
FINE = """
config:
  aws:region: us-west-2
  gpumpi:target: {kind: eks, endpointAccess: {privateCidrs: [10.8.0.0/16]}}
  gpumpi:platform: {install: false}
  gpumpi:pools:
    - {name: train, instanceType: p4d.24xlarge, desiredSize: 2, maxSize: 4}
    - {name: cheap, instanceType: g5.xlarge, maxSize: 3, capacity: {kind: spot}}
"""
TWO_PROBLEMS = FINE.replace("maxSize: 4", "maxSize: 1").replace("kind: eks", "kind: eks, logRetentionDays: 91")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "Pulumi.fine.yaml").write_text(FINE)
    (tmp_path / "Pulumi.bad.yaml").write_text(TWO_PROBLEMS)
    return tmp_path


@pytest.fixture(autouse=True)
def no_aws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "gather", facts)


def unreachable(_: Settings) -> Facts:
    raise FactsError("AWS could not be queried: no credentials found")


def test_a_good_stack_is_shown_on_one_screen(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert validate_command.run("fine", folder, offline=False, as_json=False) == 0
    assert [line.rstrip() for line in capsys.readouterr().out.splitlines()] == [
        "gpumpi-fine: Kubernetes 1.35 in us-west-2",
        "  account 123456789012, as arn:aws:iam::123456789012:user/ada",
        "  network new, 10.0.0.0/16, NAT gateways: one; zones us-west-2a, us-west-2b, us-west-2c",
        "  EFS new, at /shared",
        "pool    type          GPUs  EFA  nodes       zone        capacity   placement",
        "system  m7i.large        0    0  2 (1 to 3)  3 zones     on-demand  none",
        "train   p4d.24xlarge     8    4  2 (0 to 4)  us-west-2a  on-demand  new",
        "cheap   g5.xlarge        1    0  0 (0 to 3)  us-west-2a  spot       none",
        "at most 35 GPUs",
        "Pulumi.fine.yaml: no problems found",
    ]


def test_problems_are_printed_one_a_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert validate_command.run("bad", folder, offline=False, as_json=False) == 3
    assert capsys.readouterr().out.splitlines() == [
        "target.logRetentionDays: 91 is not a valid CloudWatch Logs retention period. Use 90 or 120.",
        "pools[0].desiredSize: 2 is not between minSize and maxSize. Use 0 to 1, or change minSize or maxSize.",
        "Pulumi.bad.yaml: 2 problems; nothing was created",
    ]


WARNS = FINE.replace("privateCidrs: [10.8.0.0/16]", "publicCidrs: [203.0.113.7/32]")
WARNING = '"203.0.113.7/32" is reserved for documentation (RFC 5737): EKS refuses it. Use your own (shown by https://checkip.amazonaws.com).'


def test_warnings_are_printed_and_stop_nothing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "Pulumi.warns.yaml").write_text(WARNS)
    assert validate_command.run("warns", folder, offline=False, as_json=False) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"warning: target.endpointAccess.publicCidrs[0]: {WARNING}"
    assert lines[-1] == "Pulumi.warns.yaml: no errors, 1 warning"
    assert validate_command.run("warns", folder, offline=False, as_json=True) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["problems"] == [
        {"path": "target.endpointAccess.publicCidrs[0]", "message": WARNING, "severity": "warning"},
    ]
    assert found["ok"] is True


def test_a_quota_below_the_maximum_size_is_a_warning_while_it_covers_what_is_created(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def quota(vcpus: float) -> None:
        known = {"L-417A185B": vcpus, "L-1216C47A": 64.0, "L-3819A6DF": 64.0}
        monkeypatch.setattr(preflight, "gather", lambda settings: facts(settings, quotas=known))

    quota(192.0)  # enough for two p4d.24xlarge, which is the pool's desiredSize
    assert validate_command.run("fine", folder, offline=False, as_json=False) == 0
    assert capsys.readouterr().out.startswith("warning: pools[0].maxSize: 4 p4d.24xlarge need 384 vCPUs")
    quota(96.0)
    assert validate_command.run("fine", folder, offline=False, as_json=False) == 3
    assert capsys.readouterr().out.startswith("pools[0].maxSize: 4 p4d.24xlarge need 384 vCPUs")


@pytest.mark.parametrize("cidr", ["10.0.0.0/28", "10.0.0.0/32"])
def test_a_vpc_without_room_for_subnets_is_a_problem(folder: Path, capsys: pytest.CaptureFixture[str], cidr: str) -> None:
    jobs = "[{name: a, pool: cheap, workers: 1, image: 'i:1', command: [x]}]"
    (folder / "Pulumi.small.yaml").write_text(f"{FINE}  gpumpi:network: {{cidr: {cidr}}}\n  gpumpi:jobs: {jobs}\n")
    assert validate_command.run("small", folder, offline=False, as_json=False) == 3
    assert f'network.cidr: "{cidr}" is a /{cidr[-2:]}. Use a /16 to /20.' in capsys.readouterr().out.splitlines()


def test_a_file_that_cannot_be_read_as_text_is_a_problem(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for content in (b"", b"\xff\xfe", b"config: &a {b: *a}"):
        (folder / "Pulumi.broken.yaml").write_bytes(content)
        assert validate_command.run("broken", folder, offline=False, as_json=False) == 3
        assert capsys.readouterr().out.splitlines()[-1] == "Pulumi.broken.yaml: 1 problem; nothing was created"


def test_offline_says_what_was_not_checked(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preflight, "gather", unreachable)
    assert validate_command.run("fine", folder, offline=True, as_json=False) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "train   p4d.24xlarge     ?    ?  2 (0 to 4)  ?     on-demand  ?" in [line.rstrip() for line in lines]
    assert lines[-2:] == ["Pulumi.fine.yaml: no problems found", f"not checked: {validate_command.AWS_LEFT_OUT}"]


def test_without_aws_the_file_is_checked_and_the_reason_told(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preflight, "gather", unreachable)
    assert validate_command.run("fine", folder, offline=False, as_json=False) == 5
    reason = "AWS could not be queried: no credentials found"
    assert capsys.readouterr().out == f"the file looks fine, but only the file was checked: {reason}\n"
    assert validate_command.run("bad", folder, offline=False, as_json=False) == 3
    assert capsys.readouterr().out.splitlines()[-1] == f"only the file was checked: {reason}"


def test_what_could_not_be_read_is_reported(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        preflight, "gather", lambda settings: facts(settings, unchecked={Query.VCPU_QUOTAS: ("vCPU quotas: access denied",)})
    )
    assert validate_command.run("fine", folder, offline=False, as_json=False) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "not checked: vCPU quotas: access denied"


def test_a_running_stack_is_shown_as_it_will_be(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    up = Existing("1.34", ("us-west-2b", "us-west-2c"), {"train": ExistingPool("us-west-2c", 0, 3, 4)})
    monkeypatch.setattr(preflight, "gather", lambda settings: facts(settings, existing=up))
    assert validate_command.run("fine", folder, offline=False, as_json=False) == 0
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == "gpumpi-fine: Kubernetes 1.35 (now 1.34) in us-west-2"
    assert "train   p4d.24xlarge     8    4  3 (0 to 4)  us-west-2c  on-demand  new" in lines


def test_json_has_the_same(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert validate_command.run("bad", folder, offline=False, as_json=True) == 3
    bad = json.loads(capsys.readouterr().out)
    assert (bad["ok"], bad["pools"]) == (False, [])
    assert bad["problems"][0] == {
        "path": "target.logRetentionDays",
        "message": "91 is not a valid CloudWatch Logs retention period. Use 90 or 120.",
        "severity": "error",
    }
    assert validate_command.run("fine", folder, offline=False, as_json=True) == 0
    fine = json.loads(capsys.readouterr().out)
    assert (fine["ok"], fine["problems"], fine["notAsked"], fine["file"]) == (True, [], None, str(folder / "Pulumi.fine.yaml"))
    assert fine["pools"][1] == {
        "name": "train",
        "instanceType": "p4d.24xlarge",
        "gpus": 8,
        "efa": 4,
        "zones": ["us-west-2a"],
        "minSize": 0,
        "desiredSize": 2,
        "maxSize": 4,
        "capacity": "on-demand",
        "placementGroup": "new",
    }


def test_a_missing_stack_is_reported_with_similar_names(folder: Path) -> None:
    done = command("validate", "fin", "--config-dir", str(folder), cwd=folder)
    message = f'cluster validate: there is no stack "fin" in {folder}. Did you mean fine? There are bad, fine\n'
    assert (done.returncode, done.stderr) == (4, message)


def test_a_path_is_a_file_and_anything_else_is_a_stack(folder: Path) -> None:
    for name in ("./Pulumi.bad.yaml", "Pulumi.bad.yaml", str(folder / "Pulumi.bad.yaml")):
        assert command("validate", name, "--offline", cwd=folder).returncode == 3
    assert command("validate", "bad", "--config-dir", ".", "--offline", cwd=folder).returncode == 3
    assert command("validate", "no/such.yaml", cwd=folder).returncode == 4


def test_a_job_file_is_checked_without_a_cluster(folder: Path) -> None:
    (folder / "job.yaml").write_text("name: Train\npool: train\nworkers: 2\nimage: a/b:1\ncommand: [python3]\nsize: 3\n")
    done = command("validate", "job.yaml", "--json", cwd=folder)
    assert (done.returncode, [one["path"] for one in json.loads(done.stdout)["problems"]]) == (3, ["size", "name"])
    (folder / "job.yaml").write_text("name: train\npool: train\nworkers: 2\nimage: a/b:1\ncommand: [python3]\n")
    done = command("validate", "job.yaml", cwd=folder)
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "job.yaml: no problems found")
    (folder / "job.yaml").write_text("name: train\npool: train\nworkers: 2\nimage: a/b\ncommand: [python3]\n")
    done = command("validate", "job.yaml", cwd=folder)
    assert done.returncode == 0 and done.stdout.startswith("warning: image: "), "a warning must not fail the validation"


# --- the command itself ------------------------------------------------------------------------------------------------


def command(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "cluster"), *arguments],
        cwd=cwd,
        text=True,
        capture_output=True,
        env={**os.environ, "COLUMNS": "100", "NO_COLOR": "1"},
        check=False,
    )


def test_the_command_runs_from_any_folder(folder: Path) -> None:
    there = command("validate", "--stack", "bad", "--config-dir", ".", "--offline", cwd=folder)
    assert there.returncode == 3
    assert there.stdout.splitlines()[2] == "Pulumi.bad.yaml: 2 problems; nothing was created"
    own = command("validate", "-s", "local", "--offline", cwd=folder)
    assert (own.returncode, own.stderr) == (0, "")


@pytest.mark.parametrize("arguments", [("validate", "-s"), ("valdate",), ("validate", "-s", "x", "--ofline"), ("run",)])
def test_wrong_usage_is_reported(arguments: tuple[str, ...], folder: Path) -> None:
    done = command(*arguments, cwd=folder)
    assert done.returncode == 2
    assert "Error" in done.stderr
    assert done.stdout == ""


def test_help_names_the_verbs(folder: Path) -> None:
    done = command("--help", cwd=folder)
    assert done.returncode == 0
    assert all(f"│ {verb} " in done.stdout for verb in ("validate", "demo", "local"))


def test_the_local_verbs_are_reached(folder: Path) -> None:
    done = command("local", "--help", cwd=folder)
    assert done.returncode == 0
    assert "start" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "unwanted"),
    [
        ((), {"pulumi", "boto3", "botocore", "pydantic", "localcloud", "cli.local.local_commands"}),
        (("validate", "-s", "local", "--offline"), {"pulumi", "boto3", "botocore", "localcloud", "cli.local.local_commands"}),
    ],
)
def test_only_what_a_verb_needs_is_imported(arguments: tuple[str, ...], unwanted: set[str], folder: Path) -> None:
    """`--help` and `validate` must start quickly."""
    code = "import sys; from cli.main import app\ntry: app()\nexcept SystemExit: pass\nprint(*sys.modules, file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", code, *(arguments or ("--help",))],
        cwd=ROOT,
        text=True,
        capture_output=True,
        check=True,
    )
    assert unwanted & set(done.stderr.split()) == set()


def test_monitoring_images_that_nobody_ran_are_marked(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "Pulumi.watched.yaml").write_text(FINE.replace("install: false", "install: true, monitoring: true"))
    validate_command.run("watched", folder, offline=True, as_json=True)
    assert json.loads(capsys.readouterr().out)["notVerified"] == MONITORING_NOT_VERIFIED
    validate_command.run("watched", folder, offline=True, as_json=False)
    output = " ".join(capsys.readouterr().out.split())
    assert all(f"not verified: {image} ({reason})" in output for image, reason in MONITORING_NOT_VERIFIED.items())
    validate_command.run("fine", folder, offline=True, as_json=True)
    assert json.loads(capsys.readouterr().out)["notVerified"] == {}


@pytest.mark.parametrize("offline", [True, False])
@pytest.mark.parametrize(("day", "warned"), [("2026-10-02", False), ("2026-10-03", True), ("2026-12-02", True)])
def test_validate_warns_sixty_days_before_standard_support_ends(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, day: str, warned: bool, offline: bool
) -> None:
    (folder / "Pulumi.older.yaml").write_text(FINE.replace("kind: eks", 'kind: eks, kubernetesVersion: "1.34"'))
    monkeypatch.setenv("GPUMPI_TODAY", day)
    if not offline:
        monkeypatch.setattr(preflight, "gather", unreachable)
    validate_command.run("older", folder, offline=offline, as_json=True)
    shown = json.loads(capsys.readouterr().out)["problems"]
    ends = "EKS's standard support for 1.34 ends on 2026-12-02."
    assert [one["severity"] for one in shown if one["message"].startswith(ends)] == ["warning"] * warned


@pytest.mark.parametrize("offline", [True, False])
@pytest.mark.parametrize("day", ["yesterday", "2026-13-01", "28.11.2026"])
def test_a_value_that_is_no_date_ends_in_one_sentence(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, day: str, offline: bool
) -> None:
    monkeypatch.setenv("GPUMPI_TODAY", day)
    monkeypatch.setattr(preflight, "gather", unreachable)
    done = CliRunner().invoke(app, ["validate", "fine", "--config-dir", str(folder), *(["--offline"] if offline else [])])
    sentence = f'GPUMPI_TODAY: "{day}" is not a date. Use one such as 2026-11-28, or unset the variable.'
    assert (done.exit_code, done.stderr.splitlines()) == (REFUSED, [f"cluster validate: {sentence}"])


def test_local_ami_refuses_a_region_that_does_not_exist(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["local", "ami", "--region", "us-west-99", "--home", str(tmp_path)])
    sentence = 'cluster local ami: "us-west-99" is not a known Region. Use one such as us-west-2'
    assert (done.exit_code, done.stderr.splitlines()) == (REFUSED, [sentence])


def test_local_grant_refuses_a_region_that_does_not_exist(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LocalCloud, "server", lambda *_: None)
    (folder / "Pulumi.nowhere.yaml").write_text(FINE.replace("us-west-2", "us-west-99"))
    done = CliRunner().invoke(app, ["local", "grant", "-s", "nowhere", "--config-dir", str(folder), "--home", str(folder)])
    sentence = 'cluster local grant: "us-west-99" is not a known Region. Use one such as us-west-2'
    assert (done.exit_code, done.stderr.splitlines()) == (REFUSED, [sentence])
