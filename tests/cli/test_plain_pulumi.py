"""Plain `pulumi` and boto3, run from the project's root in a shell that has evaluated `scripts/cluster local env`."""

from pathlib import Path

import pytest

from localcloud.instance import LocalCloud
from tests.cli.checkout import Checkout

pytestmark = pytest.mark.xdist_group("cli-plain")

WHO = "import boto3; print(boto3.client('sts', region_name='us-west-2').get_caller_identity()['Arn'])"
CLUSTERS = "import boto3; print(boto3.client('eks', region_name='us-west-2').list_clusters()['clusters'])"
WITHOUT_PLATFORM = "pulumi config set --path gpumpi:platform.install false -s local"
"""Disables the platform, because these local clouds run without Kubernetes."""


@pytest.fixture
def running_cloud_home(checkout: Checkout, home: Path) -> Path:
    checkout.run_local("start", home, "--no-kubernetes", "--no-hosts").assert_success()
    return home


@pytest.mark.mission_only
def test_plain_pulumi_runs_the_whole_lifecycle_of_a_stack(checkout: Checkout, running_cloud_home: Path) -> None:
    control = LocalCloud(running_cloud_home).control()
    preview = checkout.run_shell(running_cloud_home, f"{WITHOUT_PLATFORM}\npulumi preview -s local").assert_success()
    assert "to create" in preview.out
    assert control.leftovers() == []

    checkout.run_shell(running_cloud_home, "pulumi up -s local --yes").assert_success()
    clusters = checkout.run_shell(running_cloud_home, f'python3 -c "{CLUSTERS}"').assert_success()
    assert clusters.out == "['gpumpi-local']\n"

    again = checkout.run_shell(running_cloud_home, "pulumi up -s local --yes --skip-preview").assert_success()
    assert "created" not in again.out and "updated" not in again.out and "unchanged" in again.out

    outputs = checkout.run_shell(running_cloud_home, "pulumi stack output --json -s local").assert_success().parsed_output
    assert outputs["clusterName"] == "gpumpi-local" and outputs["kubeconfig"] == "[secret]"

    resize = "pulumi config set --path 'gpumpi:pools[0].maxSize' 16 -s local && pulumi preview -s local"
    assert "~ 1 to update" in checkout.run_shell(running_cloud_home, resize).assert_success().out
    refresh = checkout.run_shell(running_cloud_home, "pulumi refresh -s local --yes").assert_success()
    assert "unchanged" in refresh.out

    checkout.run_shell(running_cloud_home, "pulumi destroy -s local --yes").assert_success()
    assert control.leftovers() == []

    assert checkout.list_changes() == " M stacks/Pulumi.local.yaml\n", "`pulumi config set` writes only its value and the salt"
    checkout.restore()


def test_platform_is_refused_with_a_fix_if_clusters_are_only_records(checkout: Checkout, running_cloud_home: Path) -> None:
    preview = checkout.run_shell(running_cloud_home, "pulumi preview -s local")
    assert preview.code != 0
    assert "error: EKS clusters exist only in the API of this local cloud, so no platform can be installed." in preview.out
    assert f"`{WITHOUT_PLATFORM}`" in preview.out.replace("\n", " ")
    checkout.restore()


def test_an_invalid_setting_causes_no_traceback(checkout: Checkout, running_cloud_home: Path) -> None:
    wrong = "pulumi config set --path 'gpumpi:pools[0].instanceType' g5.xlarg -s local"
    said = checkout.run_shell(running_cloud_home, f"{WITHOUT_PLATFORM}; {wrong}; pulumi up -s local --yes")
    assert said.code != 0
    assert 'pools[0].instanceType: "g5.xlarg" is not an instance type in us-west-2. Did you mean g5.xlarge?' in said.out
    assert "Traceback" not in said.out
    assert LocalCloud(running_cloud_home).control().leftovers() == []
    checkout.restore()


def test_boto3_uses_the_local_account(checkout: Checkout, running_cloud_home: Path) -> None:
    said = checkout.run_shell(running_cloud_home, f'python3 -c "{WHO}"').assert_success()
    assert said.out == "arn:aws:iam::123456789012:user/local-engineer\n"
