"""The shape of a case."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from localcloud.engine.aws.resource import RESOURCES, Args, Resource
from tests.engine.world import World

Values = Mapping[str, Callable[[World], Any]]
"""Property -> a new value for it."""


@dataclass(frozen=True)
class Case:
    token: str
    given: Callable[[World], Args]
    """Every property that the type accepts, except mutually exclusive ones."""
    needed: frozenset[str]
    """Required properties."""
    instead: tuple[Callable[[World], Args], ...] = ()
    """Inputs with the mutually exclusive properties, like a name prefix instead of a name."""
    updates: Values = field(default_factory=dict)
    """New values that AWS accepts in place."""
    removals: frozenset[str] = frozenset()
    """Properties that can be removed again, in place."""
    replaces: Values = field(default_factory=dict)
    """New values that need a new resource."""
    drift: Callable[[World, str], object] | None = None
    """Change the resource with this id outside of Pulumi."""
    drifted: frozenset[str] = frozenset()
    """The differences that a refresh then shows."""
    remains: Args | None = None
    """What remains where AWS offers no deletion, only a switch."""

    @property
    def resource(self) -> Resource:
        return RESOURCES[self.token]

    def __str__(self) -> str:
        return self.token.rpartition(":")[2]


def names(*each: str) -> frozenset[str]:
    return frozenset(each)


def value(fixed: Any) -> Callable[[World], Any]:
    """A value that needs no other resource."""
    return lambda world: fixed
