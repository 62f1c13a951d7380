"""`init` writes only files that pass `validate`. If `init` rejects an answer, it explains why and writes nothing."""

import os
import pty
import re
import shlex
import string
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from cli.errors import CommandError
from cli.exit_codes import REFUSED as REFUSED_CODE
from cli.exit_codes import USAGE
from cli.main import app
from cli.stacks.init import dialog, existing_form
from cli.stacks.init.caller_address import URL_VARIABLE
from cli.stacks.init.forms import FORMS
from cli.stacks.validate import validate_command
from infra.config import stack_file
from localcloud.aws import prerequisites
from localcloud.engine.mocks import MotoMocks
from tests.program.existing_world import make_node

ROOT = Path(__file__).parents[2]
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl ada: #1 'x'"
NOWHERE = "https://127.0.0.1:9"
KUBECONFIG = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "admin@rack",
    "clusters": [{"name": "rack", "cluster": {"server": NOWHERE}}],
    "contexts": [{"name": name, "context": {"cluster": "rack", "user": "admin"}} for name in ("admin@rack", "other")],
    "users": [{"name": "admin", "user": {"token": "x"}}],
}
RACK = {"target": "existing", "node_selector": "example.com/rack=1,b=", "gpus": "8", "size": "2"}
COST = r"cost in USD per hour: .* idle, .* configured, .* maximum \(AWS Price List, .*\)"
FOR_AWS = {"region": "us-west-2", "allow": "none"}


@pytest.fixture(autouse=True)
def disable_checkip(monkeypatch: pytest.MonkeyPatch) -> None:
    """Disable public address detection, which tests/cli/test_init_address.py tests with an emulated service."""
    monkeypatch.setenv(URL_VARIABLE, NOWHERE)


@pytest.fixture
def stacks_folder(tmp_path: Path) -> Path:
    (tmp_path / "stacks").mkdir()
    return tmp_path / "stacks"


@pytest.fixture
def public_key_path(tmp_path: Path) -> str:
    (tmp_path / "id.pub").write_text(f"{KEY}\n")
    return str(tmp_path / "id.pub")


@pytest.fixture
def kubeconfig_path(tmp_path: Path) -> str:
    (tmp_path / "config").write_text(yaml.safe_dump(KUBECONFIG))
    return str(tmp_path / "config")


@pytest.fixture(scope="module")
def account() -> Iterator[None]:
    """A local AWS with quotas and the AMI that EC2 clusters use."""
    with MotoMocks("us-west-2"):
        prerequisites.create_prerequisites("us-west-2", {"target": {"kind": "ec2"}})
        yield


def write_stack_file(folder: Path, stack: str = "mine", *, offline: bool = False, **answers: str) -> Path:
    assert dialog.run_dialog(stack, folder, make_flags(**answers), yes=True, offline=offline) == 0
    return folder / f"Pulumi.{stack}.yaml"


def make_flags(**answers: str) -> dict[str, str]:
    """Return flags in the form in which the command line passes them to `init`. For AWS targets, add a Region and set
    `allow` to `none`, unless the test sets these flags.
    """
    aws = {} if answers.get("target") == "existing" else dict(FOR_AWS)
    if answers.get("ssh_key") == "":
        aws.pop("allow")
    return {name.replace("_", "-"): value for name, value in (aws | answers).items()}


CHOICES = [
    {"target": "eks"},
    {"target": "eks", "storage": "none", "size": "1"},
    {"target": "eks", "instance_type": "p4d.24xlarge", "size": "4", "allow": "203.0.113.0/24, 198.51.100.7/32"},
    {"target": "ec2", "ssh_key": ""},
    {"target": "ec2", "ssh_key": "KEY", "allow": "203.0.113.0/24", "storage": "none"},
    {"target": "ec2", "ssh_key": "KEY", "instance_type": "g6.48xlarge", "size": "4"},
]
RACKS = [
    RACK,
    {**RACK, "gpus": "0", "pool": "rack1", "context": "other"},
    {**RACK, "storage": "nfs", "nfs": "10.0.0.5:/export/jobs"},
    {**RACK, "storage": "storage-class", "storage_class": "cephfs", "volume_size": "1Ti", "mount_path": "/data"},
]


@pytest.mark.parametrize("answers", CHOICES, ids=lambda answers: " ".join(answers.values()))
def test_the_written_stack_file_passes_validate(
    account: None, stacks_folder: Path, public_key_path: str, answers: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_stack_file(
        stacks_folder, **{name: public_key_path if value == "KEY" else value for name, value in answers.items()}
    )
    printed = capsys.readouterr().out
    assert f"wrote {path}" in printed and "scripts/cluster validate -s mine" in printed and "before" not in printed
    assert re.fullmatch(COST, printed.splitlines()[-1]), "the last line is the cost"
    assert validate_command.validate_stack("mine", stacks_folder, offline=False, as_json=False) == 0, capsys.readouterr()


def test_every_target_is_covered_by_the_tested_choices() -> None:
    assert {answers["target"] for answers in (*CHOICES, *RACKS)} == set(FORMS)


@pytest.mark.parametrize("answers", RACKS, ids=lambda answers: " ".join(answers.values()))
def test_the_stack_file_for_an_existing_cluster_passes_validate(
    stacks_folder: Path, kubeconfig_path: str, answers: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    write_stack_file(stacks_folder, kubeconfig=kubeconfig_path, **answers)
    printed = capsys.readouterr().out
    assert "the cluster was not queried: target.kubeconfig: https://127.0.0.1:9 does not respond" in printed
    assert validate_command.validate_stack("mine", stacks_folder, offline=True, as_json=False) == 0, capsys.readouterr()


def test_the_stack_file_for_an_existing_cluster_contains_the_answers(stacks_folder: Path, kubeconfig_path: str) -> None:
    answers = {**RACK, "storage": "nfs", "nfs": "[fd00::1]:/export/jobs"}
    raw = stack_file.read_stack_file(write_stack_file(stacks_folder, offline=True, kubeconfig=kubeconfig_path, **answers))
    assert raw.values == {
        "target": {"kind": "existing", "kubeconfig": {"path": kubeconfig_path, "context": "admin@rack"}},
        "storage": {"kind": "nfs", "server": "fd00::1", "path": "/export/jobs", "mountPath": "/shared"},
        "pools": [{"name": "gpu", "nodeSelector": {"example.com/rack": "1", "b": ""}, "gpusPerNode": 8, "nodes": 2}],
    }


def test_the_stack_file_for_a_new_eks_cluster_enables_image_repositories(account: None, stacks_folder: Path) -> None:
    assert stack_file.read_stack_file(write_stack_file(stacks_folder, target="eks")).values["platform"] == {
        "imageRepositories": True
    }


def test_a_kubeconfig_variable_with_several_files_is_not_written_into_the_stack_file(
    stacks_folder: Path, kubeconfig_path: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KUBECONFIG", f"/nonexistent{os.pathsep}{kubeconfig_path}")
    raw = stack_file.read_stack_file(write_stack_file(stacks_folder, offline=True, **RACK))
    assert raw.values["target"] == {"kind": "existing", "kubeconfig": {"context": "admin@rack"}}
    assert "scripts/cluster smoke --pool gpu --workers 2 --context admin@rack" in capsys.readouterr().out


def test_init_suggests_labels_gpus_and_nodes_from_the_cluster(
    stacks_folder: Path, kubeconfig_path: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rack = {"example.com/rack": "1", "arch": "amd64"}
    nodes = (make_node("cpu", {"arch": "amd64"}), make_node("gpu1", rack, gpus=8), make_node("gpu2", rack, gpus=4))
    monkeypatch.setattr(existing_form, "_list_nodes", lambda kubeconfig, context: nodes)
    assert (
        dialog.run_dialog("mine", stacks_folder, {"target": "existing", "kubeconfig": kubeconfig_path}, yes=True, offline=False)
        == 0
    )
    raw = stack_file.read_stack_file(stacks_folder / "Pulumi.mine.yaml")
    assert raw.values["pools"] == [{"name": "gpu", "nodeSelector": {"example.com/rack": "1"}, "gpusPerNode": 4, "nodes": 2}]
    assert "Nodes with GPUs: gpu1 and gpu2." in capsys.readouterr().out


PUBLIC_ADDRESSES = st.ip_addresses(v=4).filter(
    lambda address: address.is_global and not address.is_multicast and address not in IPv4Network("192.0.0.0/24")
)
"""Addresses that EKS accepts: they are not in a block that IANA has reserved, even if Python calls the block global."""


@settings(max_examples=40)
@given(
    kind=st.sampled_from(["eks", "ec2"]),
    size=st.integers(1, 1000),
    storage=st.sampled_from(["efs", "none"]),
    networks=st.lists(PUBLIC_ADDRESSES.map(lambda address: f"{address}/32"), max_size=3, unique=True),
    comment=st.text(string.ascii_letters + string.digits + "@:#'\"{}[], ", max_size=30),
)
def test_any_accepted_answers_produce_a_valid_file(kind: str, size: int, storage: str, networks: list[str], comment: str) -> None:
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        (folder / "id.pub").write_text(
            f"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl {comment}\n"
        )
        answers = {"target": kind, "size": str(size), "storage": storage, "allow": ",".join(networks) or "none"}
        more = {"ssh-key": str(folder / "id.pub")} if kind == "ec2" else {}
        path = write_stack_file(folder, offline=True, **answers, **more)
        examined = FORMS[kind].examine(stack_file.read_stack_file(path), offline=True)
        assert examined.problems == () and examined.settings is not None
        assert examined.settings.pools[0].max_size == size
        assert (examined.settings.storage.efs == "none") == (storage == "none")


def test_a_question_is_repeated_until_its_answer_is_accepted(stacks_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answers = iter(["eck", "eks", "Oregon", "us-east-1", "g5.xlarge", "none", "0", "3", "efs", "10.0.0.1/8", ""])
    asked: list[str] = []

    def ask(words: str, usual: str) -> str:
        asked.append(words)
        return next(answers)

    assert dialog.run_dialog("mine", stacks_folder, {}, yes=False, offline=True, ask=ask) == 0
    printed = capsys.readouterr().out
    assert '--target: "eck" is not eks, ec2 or existing. Did you mean' in printed
    assert '--region: "Oregon" is not accepted: write one like us-west-2' in printed
    assert "10.0.0.1/8 is not an IPv4 CIDR" in printed
    raw = stack_file.read_stack_file(stacks_folder / "Pulumi.mine.yaml")
    assert raw.region == "us-east-1"
    assert raw.values["pools"] == [{"name": "train", "instanceType": "g5.xlarge", "maxSize": 3}]
    assert (asked[:2], len(asked)) == (["target", "target"], 11)


def test_a_value_given_by_a_flag_is_not_prompted_for(stacks_folder: Path) -> None:
    asked: list[str] = []

    def ask(words: str, usual: str) -> str:
        asked.append(words)
        return usual

    flags = {"target": "eks", "region": "us-west-2", "instance-type": "g5.xlarge", "size": "2", "storage": "efs"}
    assert dialog.run_dialog("mine", stacks_folder, flags, yes=False, offline=True, ask=ask) == 0
    assert asked == ["addresses (CIDRs) allowed to reach the Kubernetes API, or `none`"]


REFUSED = [
    ({"target": "ekz"}, 2, '--target: "ekz" is not eks, ec2 or existing. Did you mean'),
    ({"target": "eks", "ssh_key": "a.pub"}, 2, "--ssh-key: does not apply to target eks"),
    ({"target": "ec2", "ssh_key": "nowhere.pub"}, 2, '--ssh-key: "nowhere.pub" is not accepted: nowhere.pub is not a file'),
    ({"target": "ec2", "ssh_key": "", "allow": "8.8.8.8/32"}, 2, "--allow: only with --ssh-key"),
    ({"size": "many"}, 2, '--size: "many" is not accepted: write a number from 1 to 1000'),
    ({"storage": "fs-1"}, 2, '--storage: "fs-1" is not accepted: write efs or none'),
    ({"instance_type": "p5"}, 2, '--instance-type: "p5" is not accepted: write one like g6.8xlarge'),
    ({"allow": "0.0.0.0/0"}, 3, "target.endpointAccess.publicCidrs"),
    ({"instance_type": "g5.8xlrage"}, 3, "pools[0].instanceType: "),
    ({"target": "existing", "kubeconfig": "/nowhere"}, 2, '--kubeconfig: "/nowhere" is not accepted: the file does not exist'),
    ({**RACK, "kubeconfig": "FILE", "context": "othr"}, 2, "no such context. Did you mean other? Write admin@rack or other"),
    ({**RACK, "kubeconfig": "FILE", "node_selector": "rack1"}, 2, "write KEY=VALUE, like example.com/rack=1"),
    ({**RACK, "kubeconfig": "FILE", "storage": "nfs"}, 2, "--nfs: required with --yes, like 10.0.0.5:/export/jobs"),
    ({**RACK, "kubeconfig": "FILE", "nfs": "10.0.0.5:/x"}, 2, "--nfs: only with --storage nfs"),
    ({**RACK, "kubeconfig": "FILE", "pool": "Rack1"}, 3, "pools[0].name: "),
    ({"target": "existing", "kubeconfig": "FILE"}, 2, "--node-selector: required with --yes, like example.com/rack=1"),
]


@pytest.mark.parametrize(("answers", "code", "message"), REFUSED, ids=[str(sorted(case[0].items())) for case in REFUSED])
def test_an_invalid_answer_is_explained_and_nothing_is_written(
    account: None,
    stacks_folder: Path,
    kubeconfig_path: str,
    answers: dict[str, str],
    code: int,
    message: str,
) -> None:
    flags = {name: kubeconfig_path if value == "FILE" else value for name, value in make_flags(**answers).items()}
    with pytest.raises(CommandError) as refusal:
        dialog.run_dialog("mine", stacks_folder, flags, yes=True, offline=False)
    assert (refusal.value.code, message in str(refusal.value)) == (code, True)
    assert list(stacks_folder.iterdir()) == []


@pytest.mark.parametrize("stack", ["a" * 25, "UPPER", "a/b", "a b"])
def test_an_invalid_stack_name_is_refused_before_the_first_question(stacks_folder: Path, stack: str) -> None:
    with pytest.raises(CommandError, match="stack") as refusal:
        dialog.run_dialog(stack, stacks_folder, {}, yes=False, offline=True, ask=lambda prompt, default: pytest.fail(prompt))
    assert refusal.value.code == USAGE
    assert list(stacks_folder.iterdir()) == []


@pytest.mark.parametrize("ending", ["yaml", "yml"])
def test_an_existing_stack_file_is_not_changed(stacks_folder: Path, ending: str) -> None:
    file = stacks_folder / f"Pulumi.mine.{ending}"
    file.write_text("mine")
    with pytest.raises(CommandError, match="exists and was not changed") as refusal:
        dialog.run_dialog("mine", stacks_folder, {}, yes=True, offline=True)
    assert refusal.value.code == REFUSED_CODE
    assert file.read_text() == "mine" and len(list(stacks_folder.iterdir())) == 1


def test_a_problem_that_can_be_fixed_later_is_printed_and_the_file_is_still_written(
    account: None, stacks_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_stack_file(stacks_folder, target="eks", instance_type="p5.48xlarge", size="900")
    printed = capsys.readouterr().out
    assert "before `pulumi up`: network." in printed, "too few addresses"
    assert "warning: pools[0].maxSize: " in printed, "the quota is too low only for the maximum size"


def run_at_terminal(folder: Path, typed: str) -> subprocess.CompletedProcess[bytes]:
    """Run `scripts/cluster init` in a terminal with this input."""
    ours, theirs = pty.openpty()
    try:
        os.write(ours, typed.encode())
        command = [
            sys.executable,
            str(ROOT / "scripts" / "cluster"),
            "init",
            "-s",
            "asked",
            "--offline",
            "--config-dir",
            str(folder),
        ]
        environment = os.environ | {"AWS_REGION": "eu-west-1"}
        return subprocess.run(command, stdin=theirs, capture_output=True, timeout=60, check=False, env=environment)
    finally:
        os.close(ours)
        os.close(theirs)


def test_an_empty_answer_at_a_terminal_selects_the_default(stacks_folder: Path) -> None:
    done = run_at_terminal(stacks_folder, "\n" * 6)
    assert done.returncode == 0, done.stderr
    assert stack_file.read_stack_file(stacks_folder / "Pulumi.asked.yaml").region == "eu-west-1"


def test_an_aborted_init_writes_no_file(stacks_folder: Path) -> None:
    done = run_at_terminal(stacks_folder, "eks\n\x04")
    assert (done.returncode, list(stacks_folder.iterdir())) == (130, [])
    assert b"cluster init: nothing was written" in done.stderr


ASKED_AGAIN = [
    ({"allow": "0.0.0.0/0"}, "allow", "none", 'target.endpointAccess.publicCidrs[0]: "0.0.0.0/0"'),
    ({"instance-type": "g5.8xlrage"}, "instance-type", "g5.xlarge", "pools[0].instanceType: "),
]


@pytest.mark.parametrize(("bad", "name", "good", "problem"), ASKED_AGAIN, ids=[case[1] for case in ASKED_AGAIN])
@pytest.mark.parametrize("by_flag", [True, False])
def test_only_the_question_with_an_invalid_answer_is_asked_again(
    account: None,
    stacks_folder: Path,
    bad: dict[str, str],
    name: str,
    good: str,
    problem: str,
    by_flag: bool,
    capsys: pytest.CaptureFixture[str],
) -> None:
    prompts = {question.prompt: question.name for question in FORMS["eks"].questions}
    asked: list[str] = []
    first = {"region": "us-west-2", "size": "7", "storage": "none", "allow": "8.8.8.8", "instance-type": "g5.2xlarge", **bad}

    def ask(prompt: str, default: str) -> str:
        asked.append(prompts[prompt])
        return first[prompts[prompt]] if asked.count(prompts[prompt]) == 1 and not by_flag else good

    flags = {"target": "eks", **(first if by_flag else {})}
    assert dialog.run_dialog("mine", stacks_folder, flags, yes=False, offline=False, ask=ask) == 0
    assert problem in capsys.readouterr().out
    assert asked == ([] if by_flag else [question.name for question in FORMS["eks"].questions]) + [name]
    assert stack_file.read_stack_file(stacks_folder / "Pulumi.mine.yaml").values["pools"][0]["maxSize"] == 7  # type: ignore[index]


def test_each_storage_choice_prompts_only_for_its_own_fields(stacks_folder: Path, kubeconfig_path: str) -> None:
    """After `init` rejects an NFS server, it repeats only that question. `init` does not ask for a storage class."""
    prompts = {question.prompt: question.name for question in FORMS["existing"].questions}
    answers = iter(["-bad-:/export", "10.0.0.5:/export"])
    asked: list[str] = []

    def ask(prompt: str, default: str) -> str:
        asked.append(prompts[prompt])
        return next(answers) if prompts[prompt] == "nfs" else default

    flags = make_flags(**RACK, kubeconfig=kubeconfig_path, storage="nfs")
    assert dialog.run_dialog("mine", stacks_folder, flags, yes=False, offline=True, ask=ask) == 0
    assert asked == ["context", "pool", "nfs", "mount-path", "nfs"]


def test_next_steps_copy_a_file_written_elsewhere_into_the_checkout(
    stacks_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_stack_file(stacks_folder, target="eks", allow="8.8.8.8", offline=True)  # type: ignore[arg-type]
    assert f"next:\n  cp {path} {ROOT}/stacks/\n" in capsys.readouterr().out
    monkeypatch.chdir(stacks_folder)
    write_stack_file(stacks_folder, "other", target="eks", allow="8.8.8.8", offline=True)  # type: ignore[arg-type]
    assert f"/stacks/\n  cd {ROOT}\n  scripts/cluster validate -s other\n" in capsys.readouterr().out


def test_every_next_step_is_an_existing_command(
    stacks_folder: Path, kubeconfig_path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    group: Any = typer.main.get_command(app)
    for answers in (
        {"target": "eks"},
        {"target": "eks", "allow": "8.8.8.8"},
        {"target": "ec2"},
        {**RACK, "kubeconfig": kubeconfig_path},
    ):
        write_stack_file(stacks_folder, offline=True, **answers)  # type: ignore[arg-type]
        (stacks_folder / "Pulumi.mine.yaml").unlink()
    commands = re.findall(r"scripts/cluster (\S+) ([^&\n]*)", capsys.readouterr().out)
    assert len(commands) > 10
    for verb, rest in commands:
        group.commands[verb].make_context(verb, shlex.split(rest))


def test_init_without_a_terminal_asks_the_user_to_pass_flags(stacks_folder: Path) -> None:
    with pytest.raises(CommandError, match="stdin is not a terminal; pass --yes") as refusal:
        dialog.run_dialog("mine", stacks_folder, {}, yes=False, offline=True)
    assert refusal.value.code == USAGE
