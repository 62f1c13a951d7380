"""Time limit for workers to join, which depends on their instance type's memory."""

from dataclasses import replace

import pytest

from infra.facts.model import Existing, ExistingPool
from infra.plan import ec2_cluster
from infra.plan.ec2_cluster import compute_join_timeout
from tests.pure import world

SEVERAL = [
    ("g5.xlarge", 15),
    ("g6.48xlarge", 18),
    ("p4d.24xlarge", 20),
    ("p5.48xlarge", 25),
    ("p6-b300.48xlarge", 35),
    ("g4dn.metal", 30),
]


@pytest.mark.parametrize(("name", "minutes"), SEVERAL)
def test_types_with_more_memory_have_more_time_to_boot(name: str, minutes: int) -> None:
    assert compute_join_timeout(world.instance_type(name)) == minutes * 60


def test_no_join_timeout_exceeds_the_lifecycle_hook_limit() -> None:
    assert compute_join_timeout(replace(world.instance_type("p5.48xlarge"), memory_mib=32 * 1024**2)) == 7200


@pytest.mark.parametrize(("existing", "seconds"), [(None, 1080), (900, 900)])
def test_existing_group_keeps_the_timeout_of_its_lifecycle_hook(existing: int | None, seconds: int) -> None:
    """`pulumi up` cannot change the lifecycle hook. If a worker's time limit exceeded the hook's, the worker would be
    terminated before it could report why it failed to join.
    """
    settings = world.ec2_settings()
    facts = world.account_facts(settings)
    if existing is not None:
        pool = ExistingPool("us-west-2a", 0, 4, 4, instance_type="g6.48xlarge", join_seconds=existing)
        facts = replace(facts, existing=Existing(pools={"workers": pool}))
    assert ec2_cluster.plan_ec2_cluster(settings, facts).workers.join_seconds == seconds
