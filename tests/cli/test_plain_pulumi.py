"""Plain `pulumi` and boto3, run from the project's root in a shell that has evaluated `scripts/cluster local env`."""

import shlex
import sys
from pathlib import Path

import pytest

from localcloud.instance import LocalCloud
from tests.cli.checkout import FOREIGN_SHELL, Checkout, Said

pytestmark = pytest.mark.xdist_group("cli-plain")

WHO = "import boto3; print(boto3.client('sts', region_name='us-west-2').get_caller_identity()['Arn'])"
CLUSTERS = "import boto3; print(boto3.client('eks', region_name='us-west-2').list_clusters()['clusters'])"
WITHOUT_PLATFORM = "pulumi config set --path gpumpi:platform.install false -s local"
"""Disables the platform, because these local clouds run without Kubernetes."""


@pytest.fixture
def started(checkout: Checkout, home: Path) -> Path:
    checkout.local("start", home, "--no-kubernetes", "--no-hosts").succeeded()
    return home


def shell(checkout: Checkout, home: Path, script: str) -> Said:
    """Run a script in `sh` after evaluating the output of `scripts/cluster local env`."""
    python, quoted = shlex.quote(sys.executable), shlex.quote(str(home))
    take = f'eval "$({python} scripts/cluster local env --home {quoted})"'
    return Said(checkout.sh(["sh", "-eu", "-c", f"{take}\n{script}"], FOREIGN_SHELL))


@pytest.mark.mission_only
def test_plain_pulumi_runs_a_stacks_whole_lifecycle(checkout: Checkout, started: Path) -> None:
    control = LocalCloud(started).control()
    preview = shell(checkout, started, f"{WITHOUT_PLATFORM}\npulumi preview -s local").succeeded()
    assert "to create" in preview.out
    assert control.leftovers() == []

    shell(checkout, started, "pulumi up -s local --yes").succeeded()
    clusters = shell(checkout, started, f'{shlex.quote(sys.executable)} -c "{CLUSTERS}"').succeeded()
    assert clusters.out == "['gpumpi-local']\n"

    again = shell(checkout, started, "pulumi up -s local --yes --skip-preview").succeeded()
    assert "created" not in again.out and "updated" not in again.out and "unchanged" in again.out

    outputs = checkout.local("outputs", started, "-s", "local", "--json").succeeded().json
    assert outputs["clusterName"] == "gpumpi-local", "scripts/cluster finds the stack that plain pulumi created"

    resize = "pulumi config set --path 'gpumpi:pools[0].maxSize' 16 -s local && pulumi preview -s local"
    assert "~ 1 to update" in shell(checkout, started, resize).succeeded().out
    refresh = shell(checkout, started, "pulumi refresh -s local --yes").succeeded()
    assert "unchanged" in refresh.out

    shell(checkout, started, "pulumi destroy -s local --yes").succeeded()
    assert control.leftovers() == []

    assert checkout.changes() == " M stacks/Pulumi.local.yaml\n", "`pulumi config set` writes only its value and the salt"
    checkout.restore()


def test_a_bad_setting_gives_no_traceback(checkout: Checkout, started: Path) -> None:
    said = shell(
        checkout, started, "pulumi config set --path 'gpumpi:pools[0].instanceType' g5.xlarg -s local; pulumi up -s local --yes"
    )
    assert said.code != 0
    assert 'pools[0].instanceType: "g5.xlarg" is not an instance type in us-west-2. Did you mean g5.xlarge?' in said.out
    assert "Traceback" not in said.out
    assert LocalCloud(started).control().leftovers() == []
    checkout.restore()


def test_boto3_works_on_the_local_account_only(checkout: Checkout, started: Path) -> None:
    said = shell(checkout, started, f'{shlex.quote(sys.executable)} -c "{WHO}"').succeeded()
    assert said.out == "arn:aws:iam::123456789012:user/local-engineer\n"
