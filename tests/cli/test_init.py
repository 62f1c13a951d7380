"""init: what it writes passes `validate`, whatever is answered; what cannot be taken is said, and nothing is written."""

import os
import pty
import string
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cli import init, validate
from cli.init_forms import FORMS
from infra.config import preflight, stack_file
from localcloud.aws import prerequisites
from localcloud.engine.mocks import MotoMocks

ROOT = Path(__file__).parents[2]
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl ada: #1 'x'"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "stacks").mkdir()
    return tmp_path / "stacks"


@pytest.fixture
def key(tmp_path: Path) -> str:
    (tmp_path / "id.pub").write_text(f"{KEY}\n")
    return str(tmp_path / "id.pub")


@pytest.fixture(scope="module")
def account() -> Iterator[None]:
    """A local AWS that has the AMI which plain clusters look for, and quotas."""
    with MotoMocks("us-west-2"):
        prerequisites.make("us-west-2", {"target": {"kind": "ec2"}})
        yield


def written(folder: Path, stack: str = "mine", *, offline: bool = False, **told: str) -> Path:
    flags = {name.replace("_", "-"): value for name, value in told.items()}
    assert init.run(stack, folder, {"region": "us-west-2", "ssh-key": None, **flags}, yes=True, offline=offline) == 0
    return folder / f"Pulumi.{stack}.yaml"


CHOICES = [
    {"target": "eks"},
    {"target": "eks", "storage": "none", "size": "1"},
    {"target": "eks", "instance_type": "p4d.24xlarge", "size": "4", "allow": "203.0.113.0/24, 198.51.100.7/32"},
    {"target": "ec2", "ssh_key": ""},
    {"target": "ec2", "ssh_key": "KEY", "allow": "203.0.113.0/24", "storage": "none"},
    {"target": "ec2", "ssh_key": "KEY", "instance_type": "g6.48xlarge", "size": "4"},
]


@pytest.mark.parametrize("told", CHOICES, ids=lambda told: " ".join(told.values()))
def test_what_it_writes_passes_validate(
    account: None, folder: Path, key: str, told: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(folder, **{name: key if value == "KEY" else value for name, value in told.items()})
    printed = capsys.readouterr().out
    assert f"wrote {path}" in printed and "scripts/cluster validate -s mine" in printed and "before" not in printed
    assert validate.run("mine", folder, offline=False, as_json=False) == 0, capsys.readouterr()


def test_every_target_is_among_the_choices() -> None:
    assert {told["target"] for told in CHOICES} == set(FORMS)


@settings(max_examples=40)
@given(
    kind=st.sampled_from(sorted(FORMS)),
    size=st.integers(1, 1000),
    storage=st.sampled_from(["efs", "none"]),
    networks=st.lists(
        st.ip_addresses(v=4).filter(lambda one: one.is_global).map(lambda one: f"{one}/32"), max_size=3, unique=True
    ),
    comment=st.text(string.ascii_letters + string.digits + "@:#'\"{}[], ", max_size=30),
)
def test_any_answers_that_are_taken_make_a_valid_file(
    kind: str, size: int, storage: str, networks: list[str], comment: str
) -> None:
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        (folder / "id.pub").write_text(
            f"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl {comment}\n"
        )
        told = {"target": kind, "size": str(size), "storage": storage, "allow": ",".join(networks)}
        more = {"ssh-key": str(folder / "id.pub")} if kind == "ec2" else {}
        path = written(folder, offline=True, **told, **more)
        examined = preflight.examine_aws(stack_file.read(path), offline=True)
        assert examined.problems == () and examined.settings is not None
        assert examined.settings.pools[0].max_size == size
        assert (examined.settings.storage.efs == "none") == (storage == "none")


def test_questions_are_asked_until_the_answer_can_be_taken(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answers = iter(["eck", "eks", "Oregon", "us-east-1", "g5.xlarge", "none", "0", "3", "efs", "10.0.0.1/8", ""])
    asked: list[str] = []

    def ask(words: str, usual: str) -> str:
        asked.append(words)
        return next(answers)

    assert init.run("mine", folder, {}, yes=False, offline=True, ask=ask) == 0
    printed = capsys.readouterr().out
    assert '--target: "eck" is not eks or ec2; did you mean' in printed
    assert '--region: "Oregon" cannot be taken: write one like us-west-2' in printed
    assert "10.0.0.1/8 is no range of IPv4 addresses" in printed
    raw = stack_file.read(folder / "Pulumi.mine.yaml")
    assert raw.region == "us-east-1"
    assert raw.values["pools"] == [{"name": "train", "instanceType": "g5.xlarge", "maxSize": 3}]
    assert (asked[:2], len(asked)) == (["target", "target"], 11)


def test_what_flags_say_is_not_asked(folder: Path) -> None:
    asked: list[str] = []

    def ask(words: str, usual: str) -> str:
        asked.append(words)
        return usual

    given = {"target": "eks", "region": "us-west-2", "instance-type": "g5.xlarge", "size": "2", "storage": "efs"}
    assert init.run("mine", folder, given, yes=False, offline=True, ask=ask) == 0
    assert len(asked) == 1 and asked[0].startswith("addresses that reach the Kubernetes API")


REFUSED = [
    ({"target": "ekz"}, 2, '--target: "ekz" is not eks or ec2; did you mean'),
    ({"target": "eks", "ssh-key": "a.pub"}, 2, "--ssh-key: target eks does not ask for it"),
    ({"target": "ec2", "ssh-key": "nowhere.pub"}, 2, '--ssh-key: "nowhere.pub" cannot be taken: nowhere.pub is no file'),
    ({"size": "many"}, 2, '--size: "many" cannot be taken: write a number from 1 to 1000'),
    ({"storage": "fs-1"}, 2, '--storage: "fs-1" cannot be taken: write efs or none'),
    ({"instance-type": "p5"}, 2, '--instance-type: "p5" cannot be taken: write one like g6.8xlarge'),
    ({"allow": "0.0.0.0/0"}, 3, "target.endpointAccess.publicCidrs"),
    ({"instance-type": "g5.8xlrage"}, 3, "pools[0].instanceType: "),
]


@pytest.mark.parametrize(("told", "code", "message"), REFUSED, ids=[str(sorted(one[0].items())) for one in REFUSED])
def test_an_answer_that_cannot_be_taken_is_said_and_nothing_is_written(
    account: None, folder: Path, told: dict[str, str], code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert init.run("mine", folder, {"region": "us-west-2", **told}, yes=True, offline=False) == code
    assert message in capsys.readouterr().err
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("stack", ["a" * 25, "UPPER", "a/b", "a b"])
def test_a_name_that_no_stack_may_have_is_refused(folder: Path, stack: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert init.run(stack, folder, {}, yes=True, offline=True) in (2, 3)
    assert "stack" in capsys.readouterr().err
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("ending", ["yaml", "yml"])
def test_what_exists_stays_as_it_is(folder: Path, ending: str, capsys: pytest.CaptureFixture[str]) -> None:
    file = folder / f"Pulumi.mine.{ending}"
    file.write_text("mine")
    assert init.run("mine", folder, {}, yes=True, offline=True) == 3
    assert "is there already and stays as it is" in capsys.readouterr().err
    assert file.read_text() == "mine" and len(list(folder.iterdir())) == 1


def test_what_can_be_settled_later_is_told_and_does_not_keep_the_file_back(
    account: None, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written(folder, target="eks", instance_type="p5.48xlarge", size="900")
    assert "before `pulumi up`: pools[0].maxSize: " in capsys.readouterr().out


def at_terminal(folder: Path, typed: str) -> subprocess.CompletedProcess[bytes]:
    """`scripts/cluster init` with somebody at a terminal who types that."""
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


def test_at_a_terminal_an_empty_answer_is_the_usual_one(folder: Path) -> None:
    done = at_terminal(folder, "\n" * 6)
    assert done.returncode == 0, done.stderr
    assert stack_file.read(folder / "Pulumi.asked.yaml").region == "eu-west-1"


def test_who_ends_it_in_the_middle_has_no_file(folder: Path) -> None:
    done = at_terminal(folder, "eks\n\x04")
    assert (done.returncode, list(folder.iterdir())) == (130, [])
    assert b"cluster init: nothing was written" in done.stderr


def test_without_a_terminal_it_asks_for_flags(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert init.run("mine", folder, {}, yes=False, offline=True) == 2
    assert "there is no terminal to ask at; give --yes" in capsys.readouterr().err
