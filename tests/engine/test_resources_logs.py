"""Log groups: cases beyond those tested for every resource type."""

from localcloud.engine.aws.resource import RESOURCES
from tests.engine.life import Life
from tests.engine.world import World, module_account, new_world  # noqa: F401

LOG_GROUP = RESOURCES["aws:cloudwatch/logGroup:LogGroup"]


def test_log_groups_without_a_retention_keep_logs_forever(world: World) -> None:
    group = Life(LOG_GROUP, world.aws, {"name": f"/{world.prefix}"})
    assert group.state["retentionInDays"] == 0


def test_skip_destroy_keeps_a_log_group_with_its_logs(world: World) -> None:
    group = Life(LOG_GROUP, world.aws, {"name": f"/{world.prefix}", "skipDestroy": True})
    group.delete()
    assert group.refresh() is not None


def test_a_log_group_is_not_confused_with_another_whose_name_starts_the_same(world: World) -> None:
    longer = Life(LOG_GROUP, world.aws, {"name": f"/{world.prefix}/cluster"})
    shorter = Life(LOG_GROUP, world.aws, {"name": f"/{world.prefix}"})
    shorter.delete()
    assert shorter.refresh() is None
    assert longer.refresh() is not None
