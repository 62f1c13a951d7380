"""`scripts/cluster local preview | up | refresh | destroy | outputs | grant`."""

import json
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from localcloud.instance import LocalCloud
from testkit.waiting import wait_until
from tests.cli.checkout import FOREIGN_SHELL, Checkout, hear_interrupts

pytestmark = pytest.mark.xdist_group("cli-stacks")

SMALL = """
config:
  aws:region: us-west-2
  gpumpi:target: {kind: eks}
  gpumpi:network: {zones: 2}
  gpumpi:storage: {efs: none}
"""
BAD = f"""{SMALL}
  gpumpi:pools:
    - {{name: train, instanceType: g5.xlarg, maxSize: 4}}
    - {{name: other, instanceType: g5.xlarge, maxSise: 4}}
"""
TWICE = f"""{SMALL}
  gpumpi:pools:
    - {{name: train, instanceType: g5.xlarg, maxSize: 4}}
  gpumpi:storage: {{efs: none}}
"""
BROKEN = SMALL.replace("eks}", "eks")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in {"small": SMALL, "bad": BAD, "twice": TWICE, "broken": BROKEN}.items():
        (tmp_path / f"Pulumi.{name}.yaml").write_text(text)
    return tmp_path


def test_a_stacks_lifecycle_in_single_verbs(checkout: Checkout, cloud_home: Path, folder: Path) -> None:
    """The shell's environment variables select another AWS account and another Pulumi account. They must have no
    effect."""
    stack = ("-s", "small", "--config-dir", folder)
    control = LocalCloud(cloud_home).control()

    preview = checkout.local("preview", cloud_home, *stack, "--json", shell=FOREIGN_SHELL).succeeded().json
    assert preview["ok"] and preview["verb"] == "preview" and preview["changes"]["create"] > 50
    assert control.leftovers() == []

    up = checkout.local("up", cloud_home, *stack, shell=FOREIGN_SHELL).succeeded()
    assert f"+ {preview['changes']['create']} created" in up.out
    assert "gpumpi-small-cluster created" in up.out, "progress is printed during the operation"

    outputs = checkout.local("outputs", cloud_home, "-s", "small", "--json").succeeded().json
    assert outputs["clusterName"] == "gpumpi-small"
    assert outputs["kubeconfig"] == "[secret]"
    shown = checkout.local("outputs", cloud_home, *stack, "--show-secrets").succeeded().out
    assert "clusterName: gpumpi-small\n" in shown
    assert "current-context" in shown

    again = checkout.local("up", cloud_home, *stack, "--json").succeeded().json
    assert again["changes"] == {"same": preview["changes"]["create"]}

    refresh = checkout.local("refresh", cloud_home, *stack, "--json").succeeded()
    assert set(refresh.json["changes"]) == {"same"}

    (folder / "Pulumi.small.yaml").unlink()
    destroy = checkout.local("destroy", cloud_home, "-s", "small", "--json").succeeded().json
    assert destroy["changes"] == {"delete": preview["changes"]["create"]}
    assert all(step["type"].startswith("aws:") and step["seconds"] >= 0 for step in destroy["slowest"])
    assert control.leftovers() == []
    assert not (folder / "Pulumi.small.yaml").exists()


def test_with_json_progress_is_printed_to_stderr(checkout: Checkout, cloud_home: Path, folder: Path) -> None:
    checkout.local("start", cloud_home, "--delay-factor", "0.015").succeeded()
    try:
        up = checkout.local("up", cloud_home, "-s", "small", "--config-dir", folder, "--json").succeeded()
    finally:
        LocalCloud(cloud_home).control().set_delays(0)
    assert up.json["ok"]
    assert "working on gpumpi-small-cluster" in up.err


@pytest.mark.checkpoints
def test_an_interrupted_up_ends_cleanly_and_the_next_one_completes(checkout: Checkout, cloud_home: Path, folder: Path) -> None:
    control = LocalCloud(cloud_home).control()
    control.set_delays(0.01)
    command = [sys.executable, "scripts/cluster", "local", "up", "--home", str(cloud_home), "-s", "small"]
    with subprocess.Popen(
        [*command, "--config-dir", str(folder)],
        cwd=checkout.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=hear_interrupts,
    ) as process:
        wait_until(lambda: "eks.CreateCluster" in control.writes())
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=120)
    control.set_delays(0)
    assert process.returncode == 1
    assert "update canceled" in output, "the engine's last messages are shown"
    assert "Traceback" not in output
    rest = checkout.local("up", cloud_home, "-s", "small", "--config-dir", folder, "--json").succeeded().json
    assert set(rest["changes"]) == {"create", "same"}
    assert control.calls()["operations"]["eks.CreateCluster"]["calls"] == 1, "nothing is created twice"


def test_a_failed_run_names_resource_and_cause(checkout: Checkout, cloud_home: Path, folder: Path) -> None:
    control = LocalCloud(cloud_home).control()
    control.plan_fault(service="ec2", operation="CreateVpc", code="VpcLimitExceeded", message="The maximum is reached.", times=9)
    up = checkout.local("up", cloud_home, "-s", "small", "--config-dir", folder, "--json")
    assert up.code == 1
    assert not up.json["ok"]
    assert any("VPC" in error and "VpcLimitExceeded" in error for error in up.json["errors"]), up.json["errors"]


@pytest.mark.parametrize("name", ["small", "local"], ids=["new stack", "known stack"])
def test_the_message_of_a_locked_stack_names_recover(checkout: Checkout, cloud_home: Path, folder: Path, name: str) -> None:
    lock = cloud_home / "backend" / ".pulumi" / "locks" / "organization" / "gpumpi" / name / "of-a-killed-engine.json"
    lock.parent.mkdir(parents=True, exist_ok=True)
    holder = {"pid": 1, "username": "root", "hostname": "here", "timestamp": "2026-11-01T00:00:00Z"}
    lock.write_text(json.dumps(holder))
    try:
        up = checkout.local("up", cloud_home, "-s", name, *(["--config-dir", folder] if name == "small" else []))
    finally:
        lock.unlink(missing_ok=True)
    assert up.code == 1 and f"local recover -s {name} --home {shlex.quote(str(cloud_home))}" in up.err, up.out + up.err


@pytest.mark.parametrize("verb", ["preview", "up"])
@pytest.mark.parametrize("name", ["bad", "twice", "broken"])
def test_a_bad_file_is_reported_as_validate_reports_it(
    checkout: Checkout, cloud_home: Path, folder: Path, name: str, verb: str
) -> None:
    variables = LocalCloud(cloud_home).environment()
    validate = checkout.cluster("validate", "-s", name, "--config-dir", folder, shell=variables)
    problems = validate.stdout.splitlines()[:-1]
    assert validate.returncode == 3 and problems

    said = checkout.local(verb, cloud_home, "-s", name, "--config-dir", folder)
    assert said.code == 3
    told = [line.strip().removeprefix("error: ") for line in (said.out + said.err).splitlines()]
    assert [line for line in told if line in problems][-len(problems) :] == problems
    assert LocalCloud(cloud_home).control().leftovers() == []

    as_json = checkout.local(verb, cloud_home, "-s", name, "--config-dir", folder, "--json")
    assert as_json.code == 3
    lines = [f"{one['path']}: {one['message']}" for one in as_json.json["problems"] if one["severity"] == "error"]
    assert lines == [line for line in problems if not line.startswith("warning: ")]


@pytest.mark.parametrize("verb", ["preview", "up", "grant", "recover"])
def test_an_unknown_stack_is_reported_with_the_existing_ones(
    checkout: Checkout, cloud_home: Path, folder: Path, verb: str
) -> None:
    said = checkout.local(verb, cloud_home, "-s", "smal", "--config-dir", folder)
    assert said.code == 4
    reason = f'there is no stack "smal" in {folder}. Did you mean small? There are bad, broken, small, twice'
    assert said.err == f"cluster local {verb}: {reason}\n"
    assert said.out == ""


@pytest.mark.parametrize("verb", ["refresh", "destroy", "outputs"])
@pytest.mark.parametrize("name", ["local", "small"])
def test_a_stack_that_was_never_created_has_nothing_to_show(checkout: Checkout, cloud_home: Path, name: str, verb: str) -> None:
    said = checkout.local(verb, cloud_home, "-s", name)
    assert said.code == 4
    reason = f'there is no stack "{name}" in this local cloud; create it with: scripts/cluster local up -s {name}'
    assert said.err == f"cluster local {verb}: {reason}\n"


@pytest.mark.parametrize("verb", ["preview", "up", "refresh", "destroy", "outputs", "grant", "recover"])
def test_without_a_local_cloud_every_verb_says_how_to_start_one(checkout: Checkout, home: Path, verb: str) -> None:
    said = checkout.local(verb, home, "-s", "local")
    assert said.code == 4
    assert said.err == f"cluster local {verb}: no local cloud is running in {home}; start it with: scripts/cluster local start\n"


def test_recover_removes_what_a_killed_engine_left(checkout: Checkout, cloud_home: Path) -> None:
    """tests/stacks/test_killed.py tests that the next `up` then completes the stack."""
    backend = LocalCloud(cloud_home).state_file("local").parents[2]
    lock = backend / "locks" / "organization" / "gpumpi" / "local" / "5f2b7c1e-0f0c-4c5e-9a55-3f1a6c1d2e3f.json"
    lock.parent.mkdir(parents=True)
    lock.write_text(json.dumps({"pid": 1, "username": "ada", "hostname": "here", "timestamp": "2026-11-21T10:00:00Z"}))
    state = LocalCloud(cloud_home).state_file("local")
    state.with_name("local.json.bak").write_text(state.read_text())
    state.write_text(state.read_text()[:20])

    assert checkout.local("up", cloud_home, "-s", "local").code == 1
    assert (
        checkout.local("recover", cloud_home, "-s", "local").succeeded().err == "nothing was interrupted\nready for the next up\n"
    )
    assert not lock.exists()
    assert checkout.local("outputs", cloud_home, "-s", "local").err.startswith(
        'cluster local outputs: there is no stack "local"'
    ), "the state is readable again"


def test_grant_creates_the_resources_that_a_stack_names(checkout: Checkout, cloud_home: Path) -> None:
    stack = ("-s", "05-existing-vpc-and-efs")
    refused = checkout.local("preview", cloud_home, *stack)
    assert refused.code == 3 and "vpc-0123456789abcdef0" in refused.err
    granted = checkout.local("grant", cloud_home, *stack).succeeded()
    assert granted.err.startswith("created: ") and "vpc-0123456789abcdef0" in granted.err
    assert checkout.local("grant", cloud_home, *stack).succeeded().err == "nothing was missing\n"
    checkout.local("preview", cloud_home, *stack).succeeded()


def test_a_stack_for_an_existing_cluster_needs_no_grant(checkout: Checkout, cloud_home: Path) -> None:
    assert checkout.local("grant", cloud_home, "-s", "09-on-premises").succeeded().err == "nothing was missing\n"


def test_a_bad_file_is_granted_nothing(checkout: Checkout, cloud_home: Path, folder: Path) -> None:
    said = checkout.local("grant", cloud_home, "-s", "bad", "--config-dir", folder)
    assert said.code == 3
    assert "pools[1].maxSise: is not a setting. Did you mean maxSize?" in said.err
    assert LocalCloud(cloud_home).control().leftovers() == []


def test_reset_empties_account_and_stacks(checkout: Checkout, cloud_home: Path) -> None:
    cloud = LocalCloud(cloud_home)
    servers = cloud.servers()
    checkout.local("grant", cloud_home, "-s", "05-existing-vpc-and-efs").succeeded()
    cloud.control().plan_fault(service="ec2", operation="CreateVpc", code="VpcLimitExceeded", message="")
    assert cloud.control().leftovers()
    assert checkout.local("reset", cloud_home).succeeded().err == "local cloud is empty\n"
    assert cloud.control().leftovers() == []
    assert cloud.control().faults() == []
    assert cloud.servers() == servers
    checkpoint = json.loads(cloud.state_file("local").read_text())["checkpoint"]
    assert checkpoint == {"stack": "organization/gpumpi/local"}
