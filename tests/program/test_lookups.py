"""After a killed Pulumi operation, lookups by inputs find each resource of the stack and no other."""

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from infra.facts.clients import is_error
from infra.inventory.lookups import MISSING, Client
from infra.inventory.table import TABLE
from infra.recovery.recover_stack import create_client_factory
from localcloud.engine.mocks import Created
from tests.program.engine import deploy
from tests.program.worlds import STACKS, start_local_account

LOOKUPS = {token: entry.lookup for token, entry in TABLE.items() if entry.lookup is not None}
ALL_TYPES = ("local", "full-ec2")
"""Stacks that together contain at least one resource of every type."""


class World(NamedTuple):
    """A deployed stack, and the resources that recovery can look up."""

    stack: str
    created: list[Created]
    client: Client


@pytest.fixture(scope="module", params=ALL_TYPES)
def deployed_stack(request: pytest.FixtureRequest) -> Iterator[World]:
    stack: str = request.param
    (path,) = [path for path in STACKS if path.name == f"Pulumi.{stack}.yaml"]
    with start_local_account(path) as (settings, facts, mocks):
        deploy(settings, facts, mocks)
        yield World(
            stack, [resource for resource in mocks.resources if resource.token in LOOKUPS], create_client_factory(mocks.region)
        )


def find_remnant_ids(world: World, token: str, inputs: dict[str, Any]) -> list[str]:
    try:
        return [remnant.id for remnant in LOOKUPS[token](world.client, inputs)]
    except Exception as error:
        if is_error(error, *MISSING):
            return []
        raise


def test_a_lookup_returns_only_the_resource_with_the_same_inputs(deployed_stack: World) -> None:
    own = {"local": "aws:eks/nodeGroup:NodeGroup", "full-ec2": "aws:autoscaling/group:Group"}
    assert own[deployed_stack.stack] in {resource.token for resource in deployed_stack.created}
    for resource in deployed_stack.created:
        assert find_remnant_ids(deployed_stack, resource.token, resource.state) == [resource.id], (
            f"{resource.token} {resource.name}"
        )


def test_a_lookup_does_not_find_resources_of_another_stack(deployed_stack: World) -> None:
    """Look up the same resources with the names, tags and IDs of another stack."""
    names = {
        f"gpumpi-{deployed_stack.stack}": "gpumpi-other",
        f"/{deployed_stack.stack}/": "/other/",
        f'"gpumpi:stack": "{deployed_stack.stack}"': '"gpumpi:stack": "other"',
    }
    ids = {resource.id: f"{resource.id[:-4]}0000" for resource in deployed_stack.created if resource.id}
    for resource in deployed_stack.created:
        text = json.dumps(resource.state)
        for own, foreign in (names | ids).items():
            text = text.replace(own, foreign)
        assert find_remnant_ids(deployed_stack, resource.token, json.loads(text)) == [], f"{resource.token} {resource.name}"
