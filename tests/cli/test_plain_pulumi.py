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
def started(checkout: Checkout, home: Path) -> Path:
    checkout.local("start", home, "--no-kubernetes", "--no-hosts").succeeded()
    return home


@pytest.mark.mission_only
def test_plain_pulumi_runs_a_stacks_whole_lifecycle(checkout: Checkout, started: Path) -> None:
    control = LocalCloud(started).control()
    preview = checkout.shell(started, f"{WITHOUT_PLATFORM}\npulumi preview -s local").succeeded()
    assert "to create" in preview.out
    assert control.leftovers() == []

    checkout.shell(started, "pulumi up -s local --yes").succeeded()
    clusters = checkout.shell(started, f'python3 -c "{CLUSTERS}"').succeeded()
    assert clusters.out == "['gpumpi-local']\n"

    again = checkout.shell(started, "pulumi up -s local --yes --skip-preview").succeeded()
    assert "created" not in again.out and "updated" not in again.out and "unchanged" in again.out

    outputs = checkout.shell(started, "pulumi stack output --json -s local").succeeded().json
    assert outputs["clusterName"] == "gpumpi-local" and outputs["kubeconfig"] == "[secret]"

    resize = "pulumi config set --path 'gpumpi:pools[0].maxSize' 16 -s local && pulumi preview -s local"
    assert "~ 1 to update" in checkout.shell(started, resize).succeeded().out
    refresh = checkout.shell(started, "pulumi refresh -s local --yes").succeeded()
    assert "unchanged" in refresh.out

    checkout.shell(started, "pulumi destroy -s local --yes").succeeded()
    assert control.leftovers() == []

    assert checkout.changes() == " M stacks/Pulumi.local.yaml\n", "`pulumi config set` writes only its value and the salt"
    checkout.restore()


def test_platform_is_refused_with_a_fix_where_clusters_are_only_records(checkout: Checkout, started: Path) -> None:
    preview = checkout.shell(started, "pulumi preview -s local")
    assert preview.code != 0
    assert "error: EKS clusters exist only in the API of this local cloud, so no platform can be installed." in preview.out
    assert f"`{WITHOUT_PLATFORM}`" in preview.out.replace("\n", " ")
    checkout.restore()


def test_a_bad_setting_gives_no_traceback(checkout: Checkout, started: Path) -> None:
    wrong = "pulumi config set --path 'gpumpi:pools[0].instanceType' g5.xlarg -s local"
    said = checkout.shell(started, f"{WITHOUT_PLATFORM}; {wrong}; pulumi up -s local --yes")
    assert said.code != 0
    assert 'pools[0].instanceType: "g5.xlarg" is not an instance type in us-west-2. Did you mean g5.xlarge?' in said.out
    assert "Traceback" not in said.out
    assert LocalCloud(started).control().leftovers() == []
    checkout.restore()


def test_boto3_works_on_the_local_account_only(checkout: Checkout, started: Path) -> None:
    said = checkout.shell(started, f'python3 -c "{WHO}"').succeeded()
    assert said.out == "arn:aws:iam::123456789012:user/local-engineer\n"
