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
from infra.facts.model import Existing, ExistingPool, Facts, FactsError
from infra.facts.queries import Query
from infra.settings.stack import Settings
from infra.versions import MONITORING_NOT_VERIFIED
from localcloud.instance import LocalCloud
from tests.pure.world import account_facts

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
def stacks_folder(tmp_path: Path) -> Path:
    (tmp_path / "Pulumi.fine.yaml").write_text(FINE)
    (tmp_path / "Pulumi.bad.yaml").write_text(TWO_PROBLEMS)
    return tmp_path


@pytest.fixture(autouse=True)
def fake_aws_facts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "gather_facts", account_facts)


def raise_unreachable(_: Settings) -> Facts:
    raise FactsError("AWS could not be queried: no credentials found")


def test_a_good_stack_is_shown_on_one_screen(stacks_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert validate_command.validate_stack("fine", stacks_folder, offline=False, as_json=False) == 0
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


def test_problems_are_printed_one_per_line(stacks_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert validate_command.validate_stack("bad", stacks_folder, offline=False, as_json=False) == 3
    assert capsys.readouterr().out.splitlines() == [
        "target.logRetentionDays: 91 is not a valid CloudWatch Logs retention period. Use 90 or 120.",
        "pools[0].desiredSize: 2 is not between minSize and maxSize. Use 0 to 1, or change minSize or maxSize.",
        "Pulumi.bad.yaml: 2 problems; nothing was created",
    ]


WARNS = FINE.replace("privateCidrs: [10.8.0.0/16]", "publicCidrs: [203.0.113.7/32]")
WARNING = (
    '"203.0.113.7/32" is reserved for documentation (RFC 5737): EKS refuses it. Use your own (shown by '
    "https://checkip.amazonaws.com)."
)


def test_warnings_are_printed_without_failing_validation(stacks_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (stacks_folder / "Pulumi.warns.yaml").write_text(WARNS)
    assert validate_command.validate_stack("warns", stacks_folder, offline=False, as_json=False) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"warning: target.endpointAccess.publicCidrs[0]: {WARNING}"
    assert lines[-1] == "Pulumi.warns.yaml: no errors, 1 warning"
    assert validate_command.validate_stack("warns", stacks_folder, offline=False, as_json=True) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["problems"] == [
        {"path": "target.endpointAccess.publicCidrs[0]", "message": WARNING, "severity": "warning"},
    ]
    assert document["ok"] is True


def test_quota_below_maximum_size_is_a_warning_if_it_covers_the_desired_size(
    stacks_folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def set_quota(vcpus: float) -> None:
        quotas = {"L-417A185B": vcpus, "L-1216C47A": 64.0, "L-3819A6DF": 64.0}
        monkeypatch.setattr(preflight, "gather_facts", lambda settings: account_facts(settings, quotas=quotas))

    set_quota(192.0)  # this is enough for two p4d.24xlarge instances, which is the pool's desiredSize
    assert validate_command.validate_stack("fine", stacks_folder, offline=False, as_json=False) == 0
    assert capsys.readouterr().out.startswith("warning: pools[0].maxSize: 4 p4d.24xlarge need 384 vCPUs")
    set_quota(96.0)
    assert validate_command.validate_stack("fine", stacks_folder, offline=False, as_json=False) == 3
    assert capsys.readouterr().out.startswith("pools[0].maxSize: 4 p4d.24xlarge need 384 vCPUs")


@pytest.mark.parametrize("cidr", ["10.0.0.0/28", "10.0.0.0/32"])
def test_a_vpc_without_room_for_subnets_is_a_problem(stacks_folder: Path, capsys: pytest.CaptureFixture[str], cidr: str) -> None:
    jobs = "[{name: a, pool: cheap, workers: 1, image: 'i:1', command: [x]}]"
    (stacks_folder / "Pulumi.small.yaml").write_text(f"{FINE}  gpumpi:network: {{cidr: {cidr}}}\n  gpumpi:jobs: {jobs}\n")
    assert validate_command.validate_stack("small", stacks_folder, offline=False, as_json=False) == 3
    assert f'network.cidr: "{cidr}" is a /{cidr[-2:]}. Use a /16 to /20.' in capsys.readouterr().out.splitlines()


def test_file_with_invalid_text_encoding_is_a_problem(stacks_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for content in (b"", b"\xff\xfe", b"config: &a {b: *a}"):
        (stacks_folder / "Pulumi.broken.yaml").write_bytes(content)
        assert validate_command.validate_stack("broken", stacks_folder, offline=False, as_json=False) == 3
        assert capsys.readouterr().out.splitlines()[-1] == "Pulumi.broken.yaml: 1 problem; nothing was created"


def test_offline_validation_lists_unchecked_items(
    stacks_folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preflight, "gather_facts", raise_unreachable)
    assert validate_command.validate_stack("fine", stacks_folder, offline=True, as_json=False) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "train   p4d.24xlarge     ?    ?  2 (0 to 4)  ?     on-demand  ?" in [line.rstrip() for line in lines]
    assert lines[-2:] == ["Pulumi.fine.yaml: no problems found", f"not checked: {validate_command.AWS_LEFT_OUT}"]


def test_without_aws_only_the_file_is_checked_and_the_reason_printed(
    stacks_folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preflight, "gather_facts", raise_unreachable)
    assert validate_command.validate_stack("fine", stacks_folder, offline=False, as_json=False) == 5
    reason = "AWS could not be queried: no credentials found"
    assert capsys.readouterr().out == f"the file looks fine, but only the file was checked: {reason}\n"
    assert validate_command.validate_stack("bad", stacks_folder, offline=False, as_json=False) == 3
    assert capsys.readouterr().out.splitlines()[-1] == f"only the file was checked: {reason}"


def test_unreadable_aws_data_is_reported(
    stacks_folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        preflight,
        "gather_facts",
        lambda settings: account_facts(settings, unchecked={Query.VCPU_QUOTAS: ("vCPU quotas: access denied",)}),
    )
    assert validate_command.validate_stack("fine", stacks_folder, offline=False, as_json=False) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "not checked: vCPU quotas: access denied"


def test_running_stack_is_shown_as_after_the_next_update(
    stacks_folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    up = Existing("1.34", ("us-west-2b", "us-west-2c"), {"train": ExistingPool("us-west-2c", 0, 3, 4)})
    monkeypatch.setattr(preflight, "gather_facts", lambda settings: account_facts(settings, existing=up))
    assert validate_command.validate_stack("fine", stacks_folder, offline=False, as_json=False) == 0
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == "gpumpi-fine: Kubernetes 1.35 (now 1.34) in us-west-2"
    assert "train   p4d.24xlarge     8    4  3 (0 to 4)  us-west-2c  on-demand  new" in lines


def test_json_output_matches_the_text_output(stacks_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert validate_command.validate_stack("bad", stacks_folder, offline=False, as_json=True) == 3
    bad = json.loads(capsys.readouterr().out)
    assert (bad["ok"], bad["pools"]) == (False, [])
    assert bad["problems"][0] == {
        "path": "target.logRetentionDays",
        "message": "91 is not a valid CloudWatch Logs retention period. Use 90 or 120.",
        "severity": "error",
    }
    assert validate_command.validate_stack("fine", stacks_folder, offline=False, as_json=True) == 0
    fine = json.loads(capsys.readouterr().out)
    assert (fine["ok"], fine["problems"], fine["notAsked"], fine["file"]) == (
        True,
        [],
        None,
        str(stacks_folder / "Pulumi.fine.yaml"),
    )
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


def test_a_missing_stack_is_reported_with_similar_names(stacks_folder: Path) -> None:
    done = run_cluster("validate", "fin", "--config-dir", str(stacks_folder), cwd=stacks_folder)
    message = f'cluster validate: there is no stack "fin" in {stacks_folder}. Did you mean fine? There are bad, fine\n'
    assert (done.returncode, done.stderr) == (4, message)


def test_path_argument_is_a_file_and_any_other_argument_a_stack(stacks_folder: Path) -> None:
    for name in ("./Pulumi.bad.yaml", "Pulumi.bad.yaml", str(stacks_folder / "Pulumi.bad.yaml")):
        assert run_cluster("validate", name, "--offline", cwd=stacks_folder).returncode == 3
    assert run_cluster("validate", "bad", "--config-dir", ".", "--offline", cwd=stacks_folder).returncode == 3
    assert run_cluster("validate", "no/such.yaml", cwd=stacks_folder).returncode == 4


def test_a_job_file_is_checked_without_a_cluster(stacks_folder: Path) -> None:
    (stacks_folder / "job.yaml").write_text("name: Train\npool: train\nworkers: 2\nimage: a/b:1\ncommand: [python3]\nsize: 3\n")
    done = run_cluster("validate", "job.yaml", "--json", cwd=stacks_folder)
    assert (done.returncode, [problem["path"] for problem in json.loads(done.stdout)["problems"]]) == (3, ["size", "name"])
    (stacks_folder / "job.yaml").write_text("name: train\npool: train\nworkers: 2\nimage: a/b:1\ncommand: [python3]\n")
    done = run_cluster("validate", "job.yaml", cwd=stacks_folder)
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "job.yaml: no problems found")
    (stacks_folder / "job.yaml").write_text("name: train\npool: train\nworkers: 2\nimage: a/b\ncommand: [python3]\n")
    done = run_cluster("validate", "job.yaml", cwd=stacks_folder)
    assert done.returncode == 0 and done.stdout.startswith("warning: image: "), "a warning must not fail the validation"


# --- the command itself ------------------------------------------------------------------------------------------------


def run_cluster(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "cluster"), *arguments],
        cwd=cwd,
        text=True,
        capture_output=True,
        env={**os.environ, "COLUMNS": "100", "NO_COLOR": "1"},
        check=False,
    )


def test_the_command_runs_from_any_folder(stacks_folder: Path) -> None:
    there = run_cluster("validate", "--stack", "bad", "--config-dir", ".", "--offline", cwd=stacks_folder)
    assert there.returncode == 3
    assert there.stdout.splitlines()[2] == "Pulumi.bad.yaml: 2 problems; nothing was created"
    own = run_cluster("validate", "-s", "local", "--offline", cwd=stacks_folder)
    assert (own.returncode, own.stderr) == (0, "")


@pytest.mark.parametrize("arguments", [("validate", "-s"), ("valdate",), ("validate", "-s", "x", "--ofline"), ("run",)])
def test_invalid_usage_is_reported_on_stderr(arguments: tuple[str, ...], stacks_folder: Path) -> None:
    done = run_cluster(*arguments, cwd=stacks_folder)
    assert done.returncode == 2
    assert "Error" in done.stderr
    assert done.stdout == ""


def test_help_lists_the_commands(stacks_folder: Path) -> None:
    done = run_cluster("--help", cwd=stacks_folder)
    assert done.returncode == 0
    assert all(f"│ {verb} " in done.stdout for verb in ("validate", "demo", "local"))


def test_local_subcommands_are_available(stacks_folder: Path) -> None:
    done = run_cluster("local", "--help", cwd=stacks_folder)
    assert done.returncode == 0
    assert "start" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "unwanted"),
    [
        ((), {"pulumi", "boto3", "botocore", "pydantic", "localcloud", "cli.local.local_commands"}),
        (("validate", "-s", "local", "--offline"), {"pulumi", "boto3", "botocore", "localcloud", "cli.local.local_commands"}),
    ],
)
def test_only_modules_needed_by_a_command_are_imported(
    arguments: tuple[str, ...], unwanted: set[str], stacks_folder: Path
) -> None:
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


def test_untested_monitoring_images_are_marked_as_not_verified(stacks_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (stacks_folder / "Pulumi.watched.yaml").write_text(FINE.replace("install: false", "install: true, monitoring: true"))
    validate_command.validate_stack("watched", stacks_folder, offline=True, as_json=True)
    assert json.loads(capsys.readouterr().out)["notVerified"] == MONITORING_NOT_VERIFIED
    validate_command.validate_stack("watched", stacks_folder, offline=True, as_json=False)
    output = " ".join(capsys.readouterr().out.split())
    assert all(f"not verified: {image} ({reason})" in output for image, reason in MONITORING_NOT_VERIFIED.items())
    validate_command.validate_stack("fine", stacks_folder, offline=True, as_json=True)
    assert json.loads(capsys.readouterr().out)["notVerified"] == {}


@pytest.mark.parametrize("offline", [True, False])
@pytest.mark.parametrize(("day", "warned"), [("2026-10-02", False), ("2026-10-03", True), ("2026-12-02", True)])
def test_validate_warns_sixty_days_before_standard_support_ends(
    stacks_folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    day: str,
    warned: bool,
    offline: bool,
) -> None:
    (stacks_folder / "Pulumi.older.yaml").write_text(FINE.replace("kind: eks", 'kind: eks, kubernetesVersion: "1.34"'))
    monkeypatch.setenv("GPUMPI_TODAY", day)
    if not offline:
        monkeypatch.setattr(preflight, "gather_facts", raise_unreachable)
    validate_command.validate_stack("older", stacks_folder, offline=offline, as_json=True)
    shown = json.loads(capsys.readouterr().out)["problems"]
    ends = "EKS's standard support for 1.34 ends on 2026-12-02."
    assert [problem["severity"] for problem in shown if problem["message"].startswith(ends)] == ["warning"] * warned


@pytest.mark.parametrize("offline", [True, False])
@pytest.mark.parametrize("day", ["yesterday", "2026-13-01", "28.11.2026"])
def test_invalid_date_gets_one_line_error(
    stacks_folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, day: str, offline: bool
) -> None:
    monkeypatch.setenv("GPUMPI_TODAY", day)
    monkeypatch.setattr(preflight, "gather_facts", raise_unreachable)
    done = CliRunner().invoke(app, ["validate", "fine", "--config-dir", str(stacks_folder), *(["--offline"] if offline else [])])
    sentence = f'GPUMPI_TODAY: "{day}" is not a date. Use one such as 2026-11-28, or unset the variable.'
    assert (done.exit_code, done.stderr.splitlines()) == (REFUSED, [f"cluster validate: {sentence}"])


def test_local_ami_refuses_an_unknown_region(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["local", "ami", "--region", "us-west-99", "--home", str(tmp_path)])
    sentence = 'cluster local ami: "us-west-99" is not a known Region. Use one such as us-west-2'
    assert (done.exit_code, done.stderr.splitlines()) == (REFUSED, [sentence])


def test_local_grant_refuses_an_unknown_region(stacks_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LocalCloud, "server", lambda *_: None)
    (stacks_folder / "Pulumi.nowhere.yaml").write_text(FINE.replace("us-west-2", "us-west-99"))
    done = CliRunner().invoke(
        app, ["local", "grant", "-s", "nowhere", "--config-dir", str(stacks_folder), "--home", str(stacks_folder)]
    )
    sentence = 'cluster local grant: "us-west-99" is not a known Region. Use one such as us-west-2'
    assert (done.exit_code, done.stderr.splitlines()) == (REFUSED, [sentence])
