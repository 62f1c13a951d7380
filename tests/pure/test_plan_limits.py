"""`plan` compares the resources that `up` would add with the account's limits, even if the stack already exists."""

from typing import Any

import pytest

from infra.checks import limits
from infra.checks.limits import Need, check_limit, compute_quota_needs
from infra.facts.account_limits import ADDRESSES, CLUSTERS, GATEWAYS, INTERFACES, ROLES, STORAGE, VPCS, AccountLimits, Limit, Used
from infra.facts.clients import Denied
from infra.facts.model import Existing, ExistingPool, Facts, OwnVpc
from infra.inventory.resources import list_resources
from infra.settings.stack import Settings
from tests.pure.world import account_facts, ec2_settings, pool, settings

ZONES = ("us-west-2a", "us-west-2b", "us-west-2c")
EACH = 33
"""Number of network interfaces of a p5.48xlarge with EFA."""


def make_existing_stack_facts(of: Settings) -> Facts:
    """Return the facts of a stack with two nodes in the pool train and three system nodes."""
    pools = {
        "system": ExistingPool(ZONES[0], 1, 3, 3),
        "train": ExistingPool(ZONES[0], 0, 2, 2, instance_type="p5.48xlarge"),
    }
    there = Existing("1.35", ZONES, pools, cluster_zones=ZONES, own_vpc=OwnVpc("vpc-1", "10.0.0.0/16"))
    return account_facts(of, existing=there)


def find_needs(of: Settings, reported: Facts, own_addresses: int | None = 0) -> dict[Limit, Need]:
    return compute_quota_needs(list_resources(of, reported), reported, own_addresses)


def make_p5_pool(**more: Any) -> dict[str, Any]:
    return pool("train", "p5.48xlarge", **more)


def count_needed_interfaces(*pools: dict[str, Any], **sections: Any) -> Need:
    of = settings(*pools, **{"storage": {"efs": "none"}, **sections})
    return find_needs(of, make_existing_stack_facts(of), own_addresses=1)[INTERFACES]


def test_unchanged_stack_adds_no_resources() -> None:
    of = settings(make_p5_pool())
    needed = find_needs(of, make_existing_stack_facts(of), own_addresses=1)
    assert not {VPCS, GATEWAYS, CLUSTERS} & needed.keys()
    assert (needed[ADDRESSES], needed[ROLES].maximum) == (Need(0, 0), 0)
    assert count_needed_interfaces(make_p5_pool()) == Need(0, 0)


def test_larger_maximum_size_adds_network_interfaces_of_its_nodes() -> None:
    assert count_needed_interfaces(make_p5_pool(maxSize=6)) == Need(0, 4 * EACH)


def test_new_pool_adds_network_interfaces_of_its_nodes() -> None:
    assert count_needed_interfaces(make_p5_pool(), pool("more", "p5.48xlarge", 3, desiredSize=1)) == Need(EACH, 3 * EACH)


def test_new_nodes_add_their_root_volumes() -> None:
    of = settings(make_p5_pool(maxSize=6), pool("more", "p5.48xlarge", 3, desiredSize=1, rootVolumeGib=500))
    assert find_needs(of, make_existing_stack_facts(of), own_addresses=1)[STORAGE] == Need(500, 4 * 100 + 3 * 500)
    plain = ec2_settings(pool("workers", "g5.8xlarge", 4, desiredSize=2))
    assert find_needs(plain, account_facts(plain), own_addresses=0)[STORAGE] == Need(3 * 100, 5 * 100), (
        "the head node, and the workers"
    )


def test_a_quota_in_tib_is_compared_with_volumes_in_gib() -> None:
    answer = check_limit(STORAGE, Need(1000, 2000), AccountLimits({STORAGE: Used(50 * 1024, 50_000)}), "us-west-2")
    assert answer.verdict == "yes"
    assert answer.warnings[0].startswith(
        "with every pool at maxSize, the stack needs 2000 GiB more, but the account uses 50000 of 51200 GiB. "
    )
    assert "--service-code ebs --quota-code L-7A658B76 --desired-value 51 --region" in answer.warnings[0]


def test_a_nat_gateway_per_zone_adds_addresses_and_interfaces() -> None:
    of = settings(make_p5_pool(), network={"natGateways": "perZone"}, storage={"efs": "none"})
    needed = find_needs(of, make_existing_stack_facts(of), own_addresses=1)
    assert (needed[ADDRESSES], needed[INTERFACES]) == (Need(2, 2), Need(2, 2))


def test_the_first_nat_gateway_of_a_vpc_needs_an_internet_gateway() -> None:
    of = settings(make_p5_pool())
    assert find_needs(of, make_existing_stack_facts(of), own_addresses=0)[GATEWAYS] == Need(1, 1)


def test_stack_with_only_a_vpc_still_needs_its_cluster_and_roles() -> None:
    of = settings(make_p5_pool())
    needed = find_needs(of, account_facts(of, existing=Existing(own_vpc=OwnVpc("vpc-1", "10.0.0.0/16"))))
    assert needed[CLUSTERS] == Need(1, 1) and needed[ROLES].now > 0 and VPCS not in needed


def test_an_existing_ec2_cluster_adds_its_workers_up_to_the_maximum_size() -> None:
    of = ec2_settings(pool("workers", "g5.8xlarge", 4, desiredSize=4), storage={"efs": "none"})
    there = Existing(pools={"workers": ExistingPool(ZONES[0], 0, 1, 4)}, own_vpc=OwnVpc("vpc-1", "10.0.0.0/16"))
    assert find_needs(of, account_facts(of, existing=there), own_addresses=5)[INTERFACES] == Need(0, 3 * 2)


def test_uncertain_existing_resources_make_the_quota_check_unknown() -> None:
    limits = AccountLimits({ROLES: Used(100, 99)})
    answer = check_limit(ROLES, Need(0, 0, possible=2), limits, "us-west-2")
    assert answer.verdict == "unknown"
    assert answer.sentences[0].startswith(
        "the stack needs up to 2 more, depending on how many it already has, and the account uses 99 of 100."
    )
    assert check_limit(ROLES, Need(0, 0, possible=1), limits, "us-west-2").verdict == "yes"


def test_an_account_over_its_quota_can_keep_a_stack_that_adds_nothing() -> None:
    assert check_limit(ADDRESSES, Need(0, 0), AccountLimits({ADDRESSES: Used(5, 6)}), "us-west-2").verdict == "yes"


# --- service-linked roles -----------------------------------------------------------------------------------------------


def check_service_roles(monkeypatch: pytest.MonkeyPatch, missing: frozenset[str]) -> Any:
    def deny_simulation(*_: Any) -> Any:
        raise Denied("iam:SimulatePrincipalPolicy")

    monkeypatch.setattr(limits, "_may_create_service_role", deny_simulation)
    of = settings(make_p5_pool())
    return limits._check_service_linked_roles(
        account_facts(of), frozenset({"eks.amazonaws.com"}), AccountLimits(missing_roles=missing)
    )


def test_missing_service_linked_roles_make_the_check_unknown_without_iam_simulation(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = check_service_roles(monkeypatch, frozenset({"spot.amazonaws.com"}))
    assert (answer.verdict, answer.sentences) == (
        "unknown",
        (
            "the account lacks AWSServiceRoleForEC2Spot, and your permission to create service-linked roles could not be "
            "checked: you may not call iam:SimulatePrincipalPolicy",
        ),
    )


def test_existing_service_linked_roles_also_make_the_check_unknown_without_iam_simulation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert check_service_roles(monkeypatch, frozenset()).verdict == "unknown"
