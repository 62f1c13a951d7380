"""`init` proposes the caller's public address, and explains the consequences if there is none."""

import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from cli.errors import CommandError
from cli.exit_codes import USAGE
from cli.stacks.init import caller_address, dialog
from infra.config import stack_file

ADDRESS = "8.8.8.8"
Answer = Callable[[bytes | None, int], None]


@pytest.fixture
def checkip_service(monkeypatch: pytest.MonkeyPatch) -> Iterator[Answer]:
    """An emulator of checkip.amazonaws.com on loopback. `service(text, status)` sets the response; if `text` is None,
    the service never responds.
    """
    over = threading.Event()
    said: list[tuple[bytes | None, int]] = []

    class Checkip(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            text, status = said[-1]
            if text is None:
                over.wait()
                return
            self.send_response(status)
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, format: str, *args: object) -> None:
            """Nothing on stderr."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Checkip)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv(caller_address.URL_VARIABLE, f"http://127.0.0.1:{server.server_port}/")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    yield lambda text, status: said.append((text, status))
    over.set()
    server.shutdown()
    server.server_close()


UNDETECTED = [
    (None, 200, "no answer within 2 s"),
    (b"<html>log in to the hotel's network</html>", 200, "which is not an IPv4 address"),
    (b"", 200, "which is not an IPv4 address"),
    (b"8.8.8.8, 9.9.9.9", 200, "which is not an IPv4 address"),
    (b"2001:4860:4860::8888", 200, "which is not an IPv4 address"),
    (b"10.0.0.7", 200, "10.0.0.7, which is not a public address"),
    (b"100.64.1.1", 200, "which is not a public address"),
    (b"203.0.113.9", 200, "which is not a public address"),
    (b"224.0.0.1", 200, "which is not a public address"),
    (b"8.8.8.8", 503, "returned HTTP 503"),
]


def test_public_address_is_read_from_the_address_service(checkip_service: Answer) -> None:
    checkip_service(b"8.8.8.8\n", 200)
    assert str(caller_address.detect_address()) == ADDRESS


@pytest.mark.parametrize(("text", "status", "reason"), UNDETECTED, ids=[str(case[0]) + str(case[1]) for case in UNDETECTED])
def test_an_invalid_response_of_the_address_service_is_rejected(
    checkip_service: Answer, text: bytes | None, status: int, reason: str
) -> None:
    checkip_service(text, status)
    with pytest.raises(caller_address.Undetected, match=reason):
        caller_address.detect_address()


def test_the_error_names_an_unreachable_address_service(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(caller_address.URL_VARIABLE, "http://127.0.0.1:9/")
    with pytest.raises(caller_address.Undetected, match=r"http://127.0.0.1:9/: Connection refused"):
        caller_address.detect_address()


# --- how init uses the address -----------------------------------------------------------------------------------------

EKS = {"target": "eks", "region": "us-west-2"}


@pytest.fixture(autouse=True)
def remove_aws_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the AWS credentials, so that init checks only the file and not the account."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


def read_allowed_cidrs(folder: Path) -> object:
    target = stack_file.read_stack_file(folder / "Pulumi.mine.yaml").values["target"]
    assert isinstance(target, dict)
    return target.get("endpointAccess", target.get("ssh", {}).get("cidrs"))


@pytest.fixture
def public_key_path(tmp_path: Path) -> str:
    (tmp_path / "id.pub").write_text("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl ada\n")
    return str(tmp_path / "id.pub")


def test_the_callers_address_is_the_default_answer_at_the_prompt(
    checkip_service: Answer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    checkip_service(b"8.8.8.8\n", 200)
    defaults: dict[str, str] = {}

    def ask(prompt: str, default: str) -> str:
        defaults[prompt] = default
        return default

    assert dialog.run_dialog("mine", tmp_path, EKS, yes=False, offline=False, ask=ask) == 0
    assert defaults["addresses (CIDRs) allowed to reach the Kubernetes API, or `none`"] == "8.8.8.8/32"
    assert read_allowed_cidrs(tmp_path) == {"publicCidrs": ["8.8.8.8/32"]}
    assert "Your public address is 8.8.8.8 (http://127.0.0.1" in capsys.readouterr().out


def test_yes_flag_accepts_the_callers_address_and_prints_it(
    checkip_service: Answer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    checkip_service(b"8.8.8.8\n", 200)
    assert dialog.run_dialog("mine", tmp_path, EKS, yes=True, offline=False) == 0
    assert read_allowed_cidrs(tmp_path) == {"publicCidrs": ["8.8.8.8/32"]}
    assert "Your public address is 8.8.8.8" in capsys.readouterr().out


def test_allow_flag_is_accepted_without_a_request_to_the_address_service(checkip_service: Answer, tmp_path: Path) -> None:
    flags = {**EKS, "allow": "9.9.9.9, 1.1.0.0/16"}  # no response is set, so a request would fail the test
    assert dialog.run_dialog("mine", tmp_path, flags, yes=True, offline=False) == 0
    assert read_allowed_cidrs(tmp_path) == {"publicCidrs": ["9.9.9.9/32", "1.1.0.0/16"]}


def test_yes_flag_without_a_detected_address_writes_no_file_for_an_unreachable_cluster(
    checkip_service: Answer, tmp_path: Path
) -> None:
    checkip_service(b"10.0.0.7", 200)
    with pytest.raises(CommandError) as refusal:
        dialog.run_dialog("mine", tmp_path, EKS, yes=True, offline=False)
    assert (refusal.value.code, list(tmp_path.iterdir())) == (USAGE, [])
    complaint = str(refusal.value)
    assert "--allow: required with --yes, like 203.0.113.7/32, or none." in complaint
    assert "10.0.0.7, which is not a public address" in complaint and "only machines inside the VPC reach it" in complaint


def test_the_prompt_without_a_detected_address_explains_the_empty_answer_and_has_no_default(
    checkip_service: Answer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    checkip_service(b"garbage", 200)
    defaults: list[str] = []

    def ask(prompt: str, default: str) -> str:
        defaults.append(default)
        return default

    assert dialog.run_dialog("mine", tmp_path, EKS, yes=False, offline=False, ask=ask) == 0
    printed = capsys.readouterr().out
    assert defaults[-1] == "" and "If you leave this empty or answer none, the Kubernetes API is private" in printed
    assert read_allowed_cidrs(tmp_path) == {"privateCidrs": ["10.0.0.0/16"]}


@pytest.mark.parametrize("answer", ["none", ""])
def test_a_private_endpoint_is_explained_in_the_file_and_the_next_steps(
    tmp_path: Path, answer: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert dialog.run_dialog("mine", tmp_path, {**EKS, "allow": answer}, yes=True, offline=True) == 0
    assert "# The Kubernetes API is private: only machines inside the VPC" in (tmp_path / "Pulumi.mine.yaml").read_text()
    printed = capsys.readouterr().out
    here, _, inside = printed.partition("then on a machine inside the VPC")
    assert "pulumi stack init mine && pulumi up -s mine" in here and "smoke" not in here
    assert "pulumi config set --path gpumpi:platform.install true -s mine && pulumi up -s mine" in inside


def test_an_ec2_cluster_opens_ssh_to_the_callers_address(checkip_service: Answer, tmp_path: Path, public_key_path: str) -> None:
    checkip_service(b"8.8.8.8", 200)
    flags = {"target": "ec2", "region": "us-west-2", "ssh-key": public_key_path}
    assert dialog.run_dialog("mine", tmp_path, flags, yes=True, offline=False) == 0
    assert read_allowed_cidrs(tmp_path) == ["8.8.8.8/32"]


def test_an_ec2_cluster_without_an_allowed_address_is_reached_through_session_manager(
    checkip_service: Answer, tmp_path: Path, public_key_path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    checkip_service(b"garbage", 200)
    flags = {"target": "ec2", "region": "us-west-2", "ssh-key": public_key_path}
    assert dialog.run_dialog("mine", tmp_path, flags, yes=True, offline=False) == 0
    assert read_allowed_cidrs(tmp_path) is None
    assert "port 22 stays closed: log in through Session Manager" in capsys.readouterr().out


def test_offline_flag_queries_no_service(checkip_service: Answer, tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=r"was not looked up \(--offline\)"):
        dialog.run_dialog("mine", tmp_path, EKS, yes=True, offline=True)
