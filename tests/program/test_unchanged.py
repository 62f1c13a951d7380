"""The next `up` of an unchanged stack changes nothing, although the provider reads every resource back from AWS."""

from pathlib import Path

import pytest

from localcloud.engine.aws import lifecycle
from localcloud.engine.aws.resource import RESOURCES, Aws
from tests.program.engine import deploy
from tests.program.worlds import STACKS, start_local_account


def stack_name(path: Path) -> str:
    return path.name.removeprefix("Pulumi.").removesuffix(".yaml")


@pytest.mark.parametrize("path", STACKS, ids=stack_name)
def test_refreshing_an_unchanged_stack_shows_no_change(path: Path) -> None:
    with start_local_account(path) as (settings, facts, mocks):
        deployed = deploy(settings, facts, mocks)
        aws = Aws(settings.region, endpoint=None)
        changes = {}
        for entry in deployed.resources:
            if entry.type in RESOURCES and entry.id:
                handler = RESOURCES[entry.type]
                state = lifecycle.read(handler, aws, entry.id, {**entry.state})
                assert state is not None, entry.name
                changes[entry.name] = lifecycle.compute_difference(handler, state, dict(entry.inputs), entry.ignored_changes).keys
    assert len(changes) > 20
    assert {name: sorted(keys) for name, keys in changes.items() if keys} == {}
