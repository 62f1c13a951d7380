"""KMS keys and aliases: cases beyond those tested for every resource type."""

from datetime import timedelta

import pytest

from localcloud.engine.aws.resource import RESOURCES
from tests.engine.life import Life
from tests.engine.world import World, module_account, new_world  # noqa: F401

KEY = RESOURCES["aws:kms/key:Key"]
ALIAS = RESOURCES["aws:kms/alias:Alias"]


@pytest.mark.parametrize(("inputs", "days"), [({"deletionWindowInDays": 7}, 7), ({}, 30)])
def test_a_key_is_scheduled_for_deletion_and_counts_as_gone(world: World, inputs: dict[str, int], days: int) -> None:
    key = Life(KEY, world.aws, inputs)
    key.delete()
    metadata = world.client("kms").describe_key(KeyId=key.id)["KeyMetadata"]
    assert metadata["KeyState"] == "PendingDeletion"
    assert timedelta(days=days - 1) < metadata["DeletionDate"] - metadata["CreationDate"] < timedelta(days=days + 1)
    assert key.refresh() is None


def test_key_rotation_can_be_switched_on_and_off(world: World) -> None:
    key = Life(KEY, world.aws, {"description": "secrets"})
    key.update({"description": "secrets", "enableKeyRotation": True})
    status = world.client("kms").get_key_rotation_status(KeyId=key.id)
    assert (status["KeyRotationEnabled"], key.state["rotationPeriodInDays"]) == (True, 365)
    key.update({"description": "secrets"})
    assert not world.client("kms").get_key_rotation_status(KeyId=key.id)["KeyRotationEnabled"]
    assert key.find_differences() == set()


def test_a_disabled_key_is_enabled_before_other_changes(world: World) -> None:
    key = Life(KEY, world.aws, {"description": "secrets", "isEnabled": False})
    assert world.client("kms").describe_key(KeyId=key.id)["KeyMetadata"]["KeyState"] == "Disabled"
    key.update({"description": "other", "isEnabled": True})
    assert key.state["isEnabled"] is True
    assert key.state["description"] == "other"


@pytest.mark.parametrize("word", ["keyId", "arn"])
def test_an_alias_can_reference_its_key_by_id_or_arn(world: World, word: str) -> None:
    key = Life(KEY, world.aws, {})
    alias = Life(ALIAS, world.aws, {"name": f"alias/{world.prefix}", "targetKeyId": key.state[word]})
    alias.refresh()
    assert alias.find_differences() == set()
    assert alias.state["targetKeyArn"] == key.state["arn"]
