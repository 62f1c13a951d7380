"""After a killed Pulumi operation, lookups by inputs find each resource of the stack and no other."""

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from infra.facts.clients import is_error
from infra.inventory.lookups import MISSING, Client
from infra.inventory.table import TABLE
from infra.recovery.recover_stack import clients
from localcloud.engine.mocks import Created
from tests.program.engine import deploy
from tests.program.worlds import STACKS, account_for

LOOKUPS = {token: entry.lookup for token, entry in TABLE.items() if entry.lookup is not None}
ALL_TYPES = ("local", "full-ec2")
"""Stacks that together contain at least one resource of every type."""


class World(NamedTuple):
    """A deployed stack, and those of its resources that recovery can look up."""

    stack: str
    created: list[Created]
    client: Client


@pytest.fixture(scope="module", params=ALL_TYPES)
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    stack: str = request.param
    (path,) = [path for path in STACKS if path.name == f"Pulumi.{stack}.yaml"]
    with account_for(path) as (settings, facts, mocks):
        deploy(settings, facts, mocks)
        yield World(stack, [resource for resource in mocks.resources if resource.token in LOOKUPS], clients(mocks.region))


def look(world: World, token: str, inputs: dict[str, Any]) -> list[str]:
    try:
        return [remnant.id for remnant in LOOKUPS[token](world.client, inputs)]
    except Exception as error:
        if is_error(error, *MISSING):
            return []
        raise


def test_lookups_find_only_the_resource_with_their_inputs(world: World) -> None:
    own = {"local": "aws:eks/nodeGroup:NodeGroup", "full-ec2": "aws:autoscaling/group:Group"}
    assert own[world.stack] in {resource.token for resource in world.created}
    for resource in world.created:
        assert look(world, resource.token, resource.state) == [resource.id], f"{resource.token} {resource.name}"


def test_resources_of_another_stack_are_not_found(world: World) -> None:
    """Look up the same resources with the names, tags and IDs of another stack."""
    names = {
        f"gpumpi-{world.stack}": "gpumpi-other",
        f"/{world.stack}/": "/other/",
        f'"gpumpi:stack": "{world.stack}"': '"gpumpi:stack": "other"',
    }
    ids = {resource.id: f"{resource.id[:-4]}0000" for resource in world.created if resource.id}
    for resource in world.created:
        text = json.dumps(resource.state)
        for own, foreign in (names | ids).items():
            text = text.replace(own, foreign)
        assert look(world, resource.token, json.loads(text)) == [], f"{resource.token} {resource.name}"
