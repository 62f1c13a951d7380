"""`local scarce | quota | deny | clock`, and `local start --account new`, run as a user would run them."""

from pathlib import Path

from localcloud.instance import LocalCloud
from tests.cli.checkout import Checkout


def test_scarcity_quotas_denials_and_the_date_are_set_and_listed(checkout: Checkout, cloud_home: Path) -> None:
    scarce = checkout.local("scarce", cloud_home, "p5.48xlarge", "--zone", "us-west-2a", "--until", "10m", "--json").succeeded()
    assert [(one["type"], one["zone"], bool(one["until"])) for one in scarce.json] == [("p5.48xlarge", "us-west-2a", True)]
    quota = checkout.local("quota", cloud_home, "L-417A185B", "192").succeeded()
    assert quota.out.splitlines()[1].split()[:2] == ["L-417A185B", "192"]
    assert checkout.local("deny", cloud_home, "ec2:CreateVpc").succeeded().err == "denied: ec2:CreateVpc\n"
    before = checkout.local("clock", cloud_home).succeeded().out
    assert checkout.local("clock", cloud_home, "--advance", "1d").succeeded().out > before
    assert checkout.local("scarce", cloud_home).succeeded().err == "every zone has capacity\n"


def test_what_the_account_cannot_have_is_refused_with_the_reason(checkout: Checkout, cloud_home: Path) -> None:
    scarce = checkout.local("scarce", cloud_home, "p9.48xlarge", "--zone", "us-west-2a")
    assert (scarce.code, scarce.err) == (3, "cluster local scarce: p9.48xlarge is not offered in us-west-2\n")
    assert checkout.local("quota", cloud_home, "L-0").code == 3
    denied = checkout.local("deny", cloud_home, "CreateVpc")
    assert (denied.code, "CreateVpc is not an action" in denied.err) == (3, True)
    assert checkout.local("scarce", cloud_home, "p5.48xlarge", "--zone", "us-west-2a", "--until", "soon").code == 2


def test_a_new_account_has_default_quotas_and_keeps_its_kind(checkout: Checkout, home: Path) -> None:
    checkout.local("start", home, "--account", "new", "--no-kubernetes", "--no-hosts").succeeded()
    control = LocalCloud(home).control()
    assert control.send("GET", "quotas")["L-417A185B"]["value"] == 0
    again = checkout.local("start", home, "--account", "established")
    assert (again.code, "the running local cloud's account is new. Stop it first" in again.err) == (3, True)
    assert checkout.local("start", home).code == 0
