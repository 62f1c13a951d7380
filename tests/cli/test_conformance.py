"""`make conformance` on machines without the official Pulumi CLI and AWS provider."""

import sys
from pathlib import Path

import pytest

from localcloud import conformance
from localcloud.instance import LocalCloud
from localcloud.stack import LocalStack
from tests.cli.checkout import Checkout

pytestmark = pytest.mark.xdist_group("cli-stacks")

TINY = "config:\n  aws:region: us-west-2\n  gpumpi:target: {kind: eks}\n  gpumpi:storage: {efs: none}\n"


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder on PATH; it contains only what the test puts there."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


def install_pulumi(folder: Path, plugins: str) -> None:
    pulumi = folder / "pulumi"
    pulumi.write_text(f"#!{sys.executable}\nprint('''{plugins}''')\n")
    pulumi.chmod(0o755)


def test_without_the_official_cli_it_is_skipped_with_the_reason(programs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert conformance.main() == 0
    assert capsys.readouterr().out == "skipped: no official pulumi is on PATH (https://www.pulumi.com/docs/install/)\n"


def test_the_pulumi_of_a_local_cloud_is_not_the_official_one(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_pulumi(programs, "[]")
    assert conformance.missing() != "no official pulumi is on PATH (https://www.pulumi.com/docs/install/)"
    (programs.parent / "lock").touch()
    assert conformance.missing() == "no official pulumi is on PATH (https://www.pulumi.com/docs/install/)"


@pytest.mark.parametrize(
    ("plugins", "found"),
    [
        ("[]", False),
        ('[{"name": "aws", "kind": "resource", "version": "6.83.0"}]', False),
        ('[{"name": "kubernetes", "kind": "resource", "version": "7.51.0"}]', False),
        ('[{"name": "aws", "kind": "resource", "version": "7.51.3"}]', True),
    ],
)
def test_the_provider_must_have_the_version_series_of_the_program(programs: Path, plugins: str, found: bool) -> None:
    install_pulumi(programs, plugins)
    reason = conformance.missing()
    assert reason == (None if found else "the AWS provider is not installed (pulumi plugin install resource aws v7.51.1)")


def test_the_official_provider_is_not_redirected_to_the_emulator(running_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULUMI_HOME", "/home/ada/.pulumi")
    variables = conformance.OfficialCloud(running_home).process_environment()
    assert "PULUMI_DEBUG_PROVIDERS" not in variables
    assert variables["PULUMI_HOME"] == "/home/ada/.pulumi"
    assert variables["AWS_ENDPOINT_URL"].startswith("http://127.0.0.1:")


def test_a_stack_conforms_only_if_its_whole_lifecycle_works(cloud_home: Path, checkout: Checkout, tmp_path: Path) -> None:
    (tmp_path / "Pulumi.tiny.yaml").write_text(TINY)
    cloud = LocalCloud(cloud_home)
    stack = LocalStack(cloud, "tiny", tmp_path)
    assert conformance.judge(stack) is None

    cloud.control().plan_fault(service="ec2", operation="CreateVpc", code="VpcLimitExceeded", message="Enough.", times=9)
    assert "VpcLimitExceeded" in str(conformance.judge(stack))
    cloud.control().clear_faults()
