"""`plan` compares the resources that `up` would add with the account's limits, even if the stack already exists."""

from typing import Any

import pytest

from infra.checks import limits
from infra.checks.limits import Need, judge, list_needs
from infra.facts.account_limits import ADDRESSES, CLUSTERS, GATEWAYS, INTERFACES, ROLES, STORAGE, VPCS, AccountLimits, Limit, Used
from infra.facts.clients import Denied
from infra.facts.model import Existing, ExistingPool, Facts, OwnVpc
from infra.inventory.resources import list_resources
from infra.settings.stack import Settings
from tests.pure.world import facts, plain_settings, pool, settings

ZONES = ("us-west-2a", "us-west-2b", "us-west-2c")
EACH = 33
"""Number of network interfaces of a p5.48xlarge with EFA."""


def existing(of: Settings) -> Facts:
    """Return the facts of a stack with two nodes in the pool train and three system nodes."""
    pools = {
        "system": ExistingPool(ZONES[0], 1, 3, 3),
        "train": ExistingPool(ZONES[0], 0, 2, 2, instance_type="p5.48xlarge"),
    }
    there = Existing("1.35", ZONES, pools, cluster_zones=ZONES, own_vpc=OwnVpc("vpc-1", "10.0.0.0/16"))
    return facts(of, existing=there)


def needs(of: Settings, reported: Facts, own_addresses: int | None = 0) -> dict[Limit, Need]:
    return list_needs(list_resources(of, reported), reported, own_addresses)


def p5(**more: Any) -> dict[str, Any]:
    return pool("train", "p5.48xlarge", **more)


def interfaces(*pools: dict[str, Any], **sections: Any) -> Need:
    of = settings(*pools, **{"storage": {"efs": "none"}, **sections})
    return needs(of, existing(of), own_addresses=1)[INTERFACES]


def test_an_unchanged_stack_adds_nothing() -> None:
    of = settings(p5())
    needed = needs(of, existing(of), own_addresses=1)
    assert not {VPCS, GATEWAYS, CLUSTERS} & needed.keys()
    assert (needed[ADDRESSES], needed[ROLES].maximum) == (Need(0, 0), 0)
    assert interfaces(p5()) == Need(0, 0)


def test_a_larger_maximum_size_adds_the_interfaces_of_its_nodes() -> None:
    assert interfaces(p5(maxSize=6)) == Need(0, 4 * EACH)


def test_a_new_pool_adds_the_interfaces_of_its_nodes() -> None:
    assert interfaces(p5(), pool("more", "p5.48xlarge", 3, desiredSize=1)) == Need(EACH, 3 * EACH)


def test_new_nodes_add_their_root_volumes() -> None:
    of = settings(p5(maxSize=6), pool("more", "p5.48xlarge", 3, desiredSize=1, rootVolumeGib=500))
    assert needs(of, existing(of), own_addresses=1)[STORAGE] == Need(500, 4 * 100 + 3 * 500)
    plain = plain_settings(pool("workers", "g5.8xlarge", 4, desiredSize=2))
    assert needs(plain, facts(plain), own_addresses=0)[STORAGE] == Need(3 * 100, 5 * 100), "the head node, and the workers"


def test_a_quota_in_tib_is_compared_with_volumes_in_gib() -> None:
    answer = judge(STORAGE, Need(1000, 2000), AccountLimits({STORAGE: Used(50 * 1024, 50_000)}), "us-west-2")
    assert answer.verdict == "yes"
    assert answer.warnings[0].startswith(
        "with every pool at maxSize, the stack needs 2000 GiB more, but the account uses 50000 of 51200 GiB. "
    )
    assert "--service-code ebs --quota-code L-7A658B76 --desired-value 51 --region" in answer.warnings[0]


def test_a_nat_gateway_per_zone_adds_addresses_and_interfaces() -> None:
    of = settings(p5(), network={"natGateways": "perZone"}, storage={"efs": "none"})
    needed = needs(of, existing(of), own_addresses=1)
    assert (needed[ADDRESSES], needed[INTERFACES]) == (Need(2, 2), Need(2, 2))


def test_the_first_nat_gateway_of_a_vpc_needs_an_internet_gateway() -> None:
    of = settings(p5())
    assert needs(of, existing(of), own_addresses=0)[GATEWAYS] == Need(1, 1)


def test_a_stack_with_only_its_vpc_created_still_needs_its_cluster_and_roles() -> None:
    of = settings(p5())
    needed = needs(of, facts(of, existing=Existing(own_vpc=OwnVpc("vpc-1", "10.0.0.0/16"))))
    assert needed[CLUSTERS] == Need(1, 1) and needed[ROLES].now > 0 and VPCS not in needed


def test_an_existing_ec2_cluster_adds_its_workers_up_to_the_maximum_size() -> None:
    of = plain_settings(pool("workers", "g5.8xlarge", 4, desiredSize=4), storage={"efs": "none"})
    there = Existing(pools={"workers": ExistingPool(ZONES[0], 0, 1, 4)}, own_vpc=OwnVpc("vpc-1", "10.0.0.0/16"))
    assert needs(of, facts(of, existing=there), own_addresses=5)[INTERFACES] == Need(0, 3 * 2)


def test_possibly_existing_resources_make_the_answer_unknown() -> None:
    limits = AccountLimits({ROLES: Used(100, 99)})
    answer = judge(ROLES, Need(0, 0, possible=2), limits, "us-west-2")
    assert answer.verdict == "unknown"
    assert answer.sentences[0].startswith(
        "the stack needs up to 2 more, depending on how many it already has, and the account uses 99 of 100."
    )
    assert judge(ROLES, Need(0, 0, possible=1), limits, "us-west-2").verdict == "yes"


def test_an_account_over_its_quota_can_keep_a_stack_that_adds_nothing() -> None:
    assert judge(ADDRESSES, Need(0, 0), AccountLimits({ADDRESSES: Used(5, 6)}), "us-west-2").verdict == "yes"


# --- service-linked roles -----------------------------------------------------------------------------------------------


def of_roles(monkeypatch: pytest.MonkeyPatch, missing: frozenset[str]) -> Any:
    def simulate(*_: Any) -> Any:
        raise Denied("iam:SimulatePrincipalPolicy")

    monkeypatch.setattr(limits, "_may_create", simulate)
    of = settings(p5())
    return limits._service_linked(facts(of), frozenset({"eks.amazonaws.com"}), AccountLimits(missing_roles=missing))


def test_missing_roles_are_unknown_if_iam_may_not_simulate(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = of_roles(monkeypatch, frozenset({"spot.amazonaws.com"}))
    assert (answer.verdict, answer.sentences) == (
        "unknown",
        (
            "the account lacks AWSServiceRoleForEC2Spot, and your permission to create service-linked roles could not be "
            "checked: you may not call iam:SimulatePrincipalPolicy",
        ),
    )


def test_roles_that_exist_are_unknown_too_because_aws_may_require_the_permission(monkeypatch: pytest.MonkeyPatch) -> None:
    assert of_roles(monkeypatch, frozenset()).verdict == "unknown"
