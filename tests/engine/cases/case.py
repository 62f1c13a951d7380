"""Test case of a resource type: inputs, and the effect of changing each input."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from localcloud.engine.aws.resource import RESOURCES, Args, Resource
from tests.engine.world import World

Values = Mapping[str, Callable[[World], Any]]
"""Maps a property to a new value for it."""


@dataclass(frozen=True)
class Case:
    token: str
    make_inputs: Callable[[World], Args]
    """Every property that the type accepts, except mutually exclusive ones."""
    needed: frozenset[str]
    """Required properties."""
    instead: tuple[Callable[[World], Args], ...] = ()
    """Alternative inputs for mutually exclusive properties, such as a name prefix instead of a name."""
    updates: Values = field(default_factory=dict)
    """New values that AWS can apply in place."""
    removals: frozenset[str] = frozenset()
    """Properties that AWS can remove in place."""
    replaces: Values = field(default_factory=dict)
    """New values that require a replacement."""
    drift: Callable[[World, str], object] | None = None
    """Changes the resource with the given id outside Pulumi."""
    drifted: frozenset[str] = frozenset()
    """Properties that `drift` changes. A refresh must report these properties as different."""
    remains: Args | None = None
    """Properties that AWS still reports after a delete, because such settings can only be turned off."""

    @property
    def resource(self) -> Resource:
        return RESOURCES[self.token]

    def __str__(self) -> str:
        return self.token.rpartition(":")[2]


def property_names(*each: str) -> frozenset[str]:
    return frozenset(each)


def make_constant(fixed: Any) -> Callable[[World], Any]:
    """Return a function that returns a constant, for a value that needs no other resource."""
    return lambda world: fixed
