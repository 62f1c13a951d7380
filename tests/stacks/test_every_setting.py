"""Every setting has a test that changes it."""

from cli.stacks.settings import rows
from tests.stacks import test_changes, test_plain_changes, test_platform_changes, test_storage_changes

ONLY_THEIR_FIELDS = {"target.endpointAccess"}


def test_every_setting_is_changed_by_a_test() -> None:
    modules = (test_changes, test_plain_changes, test_platform_changes, test_storage_changes)
    previewed = {one.setting for module in modules for changes in module.PREVIEWS.values() for one in changes}
    tables = (*test_changes.REFUSED.values(), *test_storage_changes.REFUSED.values())
    refused = {one.setting for table in tables for one in table}
    assert previewed | refused | ONLY_THEIR_FIELDS == {row.path for row in rows()}
