"""`scripts/cluster local grant` and `reset`, and `scripts/cluster recover` in a shell with the variables of `local env`."""

import json
from pathlib import Path

import pytest

from localcloud.instance import LocalCloud
from tests.cli.checkout import Checkout

pytestmark = pytest.mark.xdist_group("cli-stacks")

BAD = """
config:
  aws:region: us-west-2
  gpumpi:target: {kind: eks}
  gpumpi:pools:
    - {name: train, instanceType: g5.xlarge, maxSise: 4}
"""


@pytest.fixture
def stacks_folder(tmp_path: Path) -> Path:
    (tmp_path / "Pulumi.bad.yaml").write_text(BAD)
    return tmp_path


def test_an_unknown_stack_is_reported_with_the_existing_stacks(checkout: Checkout, cloud_home: Path, stacks_folder: Path) -> None:
    said = checkout.run_local("grant", cloud_home, "-s", "bat", "--config-dir", stacks_folder)
    assert (said.code, said.out) == (4, "")
    assert said.err == f'cluster local grant: there is no stack "bat" in {stacks_folder}. Did you mean bad? There are bad\n'


def test_grant_without_a_local_cloud_explains_how_to_start_one(checkout: Checkout, home: Path) -> None:
    said = checkout.run_local("grant", home, "-s", "local")
    assert said.code == 4
    assert said.err == f"cluster local grant: no local cloud is running in {home}; start it with: scripts/cluster local start\n"


def test_recover_removes_the_lock_and_state_left_by_a_killed_pulumi(checkout: Checkout, cloud_home: Path) -> None:
    """tests/stacks/test_killed.py tests that the next `up` then completes the stack."""
    backend = LocalCloud(cloud_home).state_file("local").parents[2]
    lock = backend / "locks" / "organization" / "gpumpi" / "local" / "5f2b7c1e-0f0c-4c5e-9a55-3f1a6c1d2e3f.json"
    lock.parent.mkdir(parents=True)
    lock.write_text(json.dumps({"pid": 1, "username": "ada", "hostname": "here", "timestamp": "2020-11-21T10:00:00Z"}))
    state = LocalCloud(cloud_home).state_file("local")
    state.with_name("local.json.bak").write_text(state.read_text())
    state.write_text(state.read_text()[:20])

    assert checkout.run_shell(cloud_home, "pulumi stack export -s local").code != 0
    recovered = checkout.run_shell(cloud_home, "python3 scripts/cluster recover -s local").assert_success()
    assert recovered.out == "nothing was interrupted\n"
    assert not lock.exists()
    checkout.run_shell(cloud_home, "pulumi stack export -s local").assert_success()
    checkout.restore()


def test_grant_creates_the_resources_named_in_a_stack(checkout: Checkout, cloud_home: Path) -> None:
    stack = ("-s", "05-existing-vpc-and-efs")
    validate = f"python3 scripts/cluster validate {' '.join(stack)}"
    refused = checkout.run_shell(cloud_home, validate)
    assert refused.code == 3 and "vpc-0123456789abcdef0" in refused.out
    granted = checkout.run_local("grant", cloud_home, *stack).assert_success()
    assert granted.err.startswith("created: ") and "vpc-0123456789abcdef0" in granted.err
    assert checkout.run_local("grant", cloud_home, *stack).assert_success().err == "nothing was missing\n"
    checkout.run_shell(cloud_home, validate).assert_success()


def test_grant_has_nothing_to_create_for_an_existing_cluster(checkout: Checkout, cloud_home: Path) -> None:
    assert checkout.run_local("grant", cloud_home, "-s", "09-on-premises").assert_success().err == "nothing was missing\n"


def test_grant_creates_nothing_for_an_invalid_stack_file(checkout: Checkout, cloud_home: Path, stacks_folder: Path) -> None:
    said = checkout.run_local("grant", cloud_home, "-s", "bad", "--config-dir", stacks_folder)
    assert said.code == 3
    assert "pools[0].maxSise: is not a setting. Did you mean maxSize?" in said.err
    assert LocalCloud(cloud_home).control().leftovers() == []


def test_reset_empties_the_account_and_deletes_all_stacks(checkout: Checkout, cloud_home: Path) -> None:
    cloud = LocalCloud(cloud_home)
    servers = cloud.servers()
    checkout.run_local("grant", cloud_home, "-s", "05-existing-vpc-and-efs").assert_success()
    cloud.control().plan_fault(service="ec2", operation="CreateVpc", code="VpcLimitExceeded", message="")
    assert cloud.control().leftovers()
    assert checkout.run_local("reset", cloud_home).assert_success().err == "local cloud is empty\n"
    assert cloud.control().leftovers() == []
    assert cloud.control().faults() == []
    assert cloud.servers() == servers
    checkpoint = json.loads(cloud.state_file("local").read_text())["checkpoint"]
    assert checkpoint == {"stack": "organization/gpumpi/local"}
