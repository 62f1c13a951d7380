"""Every setting has a test that changes it."""

from cli.settings import rows
from tests.stacks import test_changes, test_plain_changes, test_platform_changes

ONLY_THEIR_FIELDS = {"target.endpointAccess"}


def test_every_setting_is_changed_by_a_test() -> None:
    tables = (test_changes.PREVIEWS, test_changes.REFUSED, test_plain_changes.PREVIEWS, test_platform_changes.PREVIEWS)
    tried = {one.setting for table in tables for changes in table.values() for one in changes}
    inside = {one.setting for one in test_changes.INSIDE.values()}
    assert tried | inside | ONLY_THEIR_FIELDS == {row.path for row in rows()}
