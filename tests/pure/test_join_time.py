"""Time limit for workers to join, which depends on their instance type's memory."""

from dataclasses import replace

import pytest

from infra.facts.model import Existing, ExistingPool
from infra.plan import ec2_cluster
from infra.plan.ec2_cluster import join_seconds
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
    assert join_seconds(world.instance_type(name)) == minutes * 60


def test_no_time_limit_exceeds_that_of_a_lifecycle_hook() -> None:
    assert join_seconds(replace(world.instance_type("p5.48xlarge"), memory_mib=32 * 1024**2)) == 7200


@pytest.mark.parametrize(("existing", "seconds"), [(None, 1080), (900, 900)])
def test_an_existing_group_keeps_the_time_limit_of_its_hook(existing: int | None, seconds: int) -> None:
    """`pulumi up` cannot change the lifecycle hook. If a worker's time limit exceeded the hook's, the worker would be
    terminated before it could report why it failed to join.
    """
    settings = world.plain_settings()
    facts = world.facts(settings)
    if existing is not None:
        pool = ExistingPool("us-west-2a", 0, 4, 4, instance_type="g6.48xlarge", join_seconds=existing)
        facts = replace(facts, existing=Existing(pools={"workers": pool}))
    assert ec2_cluster.plan(settings, facts).workers.join_seconds == seconds
