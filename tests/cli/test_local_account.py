"""`local scarce | quota | deny | clock`, and `local start --account new`, run as a user would run them."""

from pathlib import Path

from localcloud.instance import LocalCloud
from tests.cli.checkout import Checkout


def test_scarcity_quotas_denials_and_the_clock_can_be_set_and_listed(checkout: Checkout, cloud_home: Path) -> None:
    scarce = checkout.run_local(
        "scarce", cloud_home, "p5.48xlarge", "--zone", "us-west-2a", "--until", "10m", "--json"
    ).assert_success()
    assert [(entry["type"], entry["zone"], bool(entry["until"])) for entry in scarce.parsed_output] == [
        ("p5.48xlarge", "us-west-2a", True)
    ]
    quota = checkout.run_local("quota", cloud_home, "L-417A185B", "192").assert_success()
    assert quota.out.splitlines()[1].split()[:2] == ["L-417A185B", "192"]
    assert checkout.run_local("deny", cloud_home, "ec2:CreateVpc").assert_success().err == "denied: ec2:CreateVpc\n"
    before = checkout.run_local("clock", cloud_home).assert_success().out
    assert checkout.run_local("clock", cloud_home, "--advance", "1d").assert_success().out > before
    assert checkout.run_local("scarce", cloud_home).assert_success().err == "every zone has capacity\n"


def test_invalid_account_settings_are_refused_with_the_reason(checkout: Checkout, cloud_home: Path) -> None:
    scarce = checkout.run_local("scarce", cloud_home, "p9.48xlarge", "--zone", "us-west-2a")
    assert (scarce.code, scarce.err) == (3, "cluster local scarce: p9.48xlarge is not offered in us-west-2\n")
    assert checkout.run_local("quota", cloud_home, "L-0").code == 3
    denied = checkout.run_local("deny", cloud_home, "CreateVpc")
    assert (denied.code, "CreateVpc is not an action" in denied.err) == (3, True)
    assert checkout.run_local("scarce", cloud_home, "p5.48xlarge", "--zone", "us-west-2a", "--until", "soon").code == 2


def test_a_new_account_has_default_quotas_and_cannot_become_an_established_one(checkout: Checkout, home: Path) -> None:
    checkout.run_local("start", home, "--account", "new", "--no-kubernetes", "--no-hosts").assert_success()
    control = LocalCloud(home).control()
    assert control.send("GET", "quotas")["L-417A185B"]["value"] == 0
    again = checkout.run_local("start", home, "--account", "established")
    assert (again.code, "the running local cloud's account is new. Stop it first" in again.err) == (3, True)
    assert checkout.run_local("start", home).code == 0
