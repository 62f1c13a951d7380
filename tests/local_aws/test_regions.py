"""A Region that does not exist ends each verb with one sentence, on the local AWS as on AWS."""

from pathlib import Path

import pytest
from botocore.exceptions import ClientError
from click.testing import Result
from typer.testing import CliRunner

from cli import main
from infra.config.problems import SettingsError
from infra.config.stack_file import RawStack
from infra.preflight import examine_aws_stack
from localcloud.aws import faults
from localcloud.aws.faults import Fault
from testkit.aws_clients import REGION, Client, client

pytestmark = pytest.mark.usefixtures("account_credentials")
ABSENT = {
    "eu-moon-1": "eu-south-1",
    "us-east-9": "us-east-2",
    "us-east-01": "us-east-1",
    "xx-nowhere-1": "us-west-2",
}
"""Maps a Region that does not exist to an existing Region with a similar name."""
MALFORMED = {"US-EAST-1": "us-east-1", "us-east-1a": "us-east-1", "us_west_2": "us-west-2", "Oregon": "us-west-2"}
EKS = {
    "validate": ("validate", "moved"),
    "plan": ("plan", "-s", "moved"),
    "status": ("status", "-s", "moved"),
    "kubeconfig": ("kubeconfig", "-s", "moved"),
    "cost": ("cost", "-s", "moved"),
    "health": ("health", "-s", "moved"),
}
EC2 = {
    "validate": ("validate", "moved"),
    "status": ("status", "-s", "moved"),
    "wait": ("wait", "-s", "moved"),
    "scale": ("scale", "1", "-s", "moved"),
}


@pytest.fixture(autouse=True)
def aws_settings(aws: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


def write_stack(folder: Path, region: str, kind: str = "eks") -> None:
    access = "\n    endpointAccess: {publicCidrs: [5.10.20.0/24]}\n  gpumpi:platform: {install: false}" if kind == "eks" else ""
    sizes = "desiredSize: 1, maxSize: 2" if kind == "ec2" else "maxSize: 2"
    (folder / "Pulumi.moved.yaml").write_text(f"""\
config:
  aws:region: {region}
  gpumpi:target:
    kind: {kind}{access}
  gpumpi:pools:
    - {{name: train, instanceType: g6.8xlarge, {sizes}}}
""")


def run_cli(folder: Path, *arguments: str) -> Result:
    return CliRunner().invoke(main.app, [*arguments, "--config-dir", str(folder)])


def has_region_error(done: Result, region: str, instead: str) -> bool:
    text = " ".join(done.output.split())
    return done.exit_code == 3 and text.count(f'"{region}" is not a ') == 1 and f"Use one such as {instead}" in text


@pytest.mark.parametrize(("kind", "verb"), [*(("eks", verb) for verb in EKS), *(("ec2", verb) for verb in EC2)])
@pytest.mark.parametrize(("region", "instead"), [*ABSENT.items(), *MALFORMED.items()])
def test_commands_report_a_nonexistent_region_in_one_sentence(
    tmp_path: Path, kind: str, verb: str, region: str, instead: str
) -> None:
    write_stack(tmp_path, region, kind)
    done = run_cli(tmp_path, *{"eks": EKS, "ec2": EC2}[kind][verb])
    assert has_region_error(done, region, instead), done.output


@pytest.mark.parametrize(("region", "instead"), [*ABSENT.items(), *MALFORMED.items()])
def test_capacity_rejects_a_nonexistent_region_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, region: str, instead: str
) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", region)
    done = CliRunner().invoke(main.app, ["capacity", "find", "g6.8xlarge"])
    assert has_region_error(done, region, instead), done.output


def test_a_nonexistent_region_is_reported_together_with_other_errors() -> None:
    examined = examine_aws_stack(RawStack("moved", "eu-moon-1", {"target": {"kind": "eks", "kubernetesVersion": "1.20"}}))
    assert [problem.path for problem in examined.problems] == ["aws:region", "target.kubernetesVersion"]
    with pytest.raises(SettingsError):
        _ = examined.settings_and_facts


@pytest.mark.parametrize("service", ["ec2", "eks", "sts", "s3", "logs", "kms"])
def test_local_aws_rejects_a_nonexistent_region(aws: Client, service: str) -> None:
    calls = {"ec2": "describe_vpcs", "eks": "list_clusters", "sts": "get_caller_identity"}
    calls |= {"s3": "list_buckets", "logs": "describe_log_groups", "kms": "list_keys"}
    with pytest.raises(ClientError, match="Credential should be scoped to a valid Region, not 'eu-moon-1'"):
        getattr(client(service, "eu-moon-1"), calls[service])()


@pytest.mark.parametrize("region", ["af-south-1", "cn-north-1"])
def test_the_error_for_rejected_credentials_says_that_the_region_may_be_disabled(region: str) -> None:
    faults.add_fault(Fault("sts", "GetCallerIdentity", "InvalidClientTokenId"))
    examined = examine_aws_stack(RawStack("moved", region, {"target": {"kind": "eks"}}))
    hint = f"AWS rejects the credentials (InvalidClientTokenId) in Region {region}, which the account may not have enabled"
    assert hint in (examined.not_queried or "")
