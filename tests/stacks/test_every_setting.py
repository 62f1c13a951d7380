"""Every setting has a test that changes it."""

from cli.stacks.settings import list_settings
from tests.stacks import test_changes, test_plain_changes, test_platform_changes, test_storage_changes

ONLY_THEIR_FIELDS = {"target.endpointAccess"}


def test_every_setting_is_changed_by_a_test() -> None:
    modules = (test_changes, test_plain_changes, test_platform_changes, test_storage_changes)
    previewed = {row.setting for module in modules for changes in module.PREVIEWS.values() for row in changes}
    tables = (*test_changes.REFUSED.values(), *test_storage_changes.REFUSED.values())
    refused = {change.setting for table in tables for change in table}
    assert previewed | refused | ONLY_THEIR_FIELDS == {row.path for row in list_settings()}
