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
    """Everything the type takes, but what excludes another."""
    needed: frozenset[str]
    """What must be said."""
    instead: tuple[Callable[[World], Args], ...] = ()
    """Inputs with what excludes others: a prefix for a name."""
    updates: Values = field(default_factory=dict)
    """New values that AWS takes in place."""
    removals: frozenset[str] = frozenset()
    """Properties that can be taken out again, in place."""
    replaces: Values = field(default_factory=dict)
    """New values that need a new resource."""
    drift: Callable[[World, str], object] | None = None
    """Somebody changes the resource with this id behind Pulumi's back."""
    drifted: frozenset[str] = frozenset()
    """What a refresh then shows to be different."""
    remains: Args | None = None
    """What is left where AWS has no deletion, only a switch."""

    @property
    def resource(self) -> Resource:
        return RESOURCES[self.token]

    def __str__(self) -> str:
        return self.token.rpartition(":")[2]


def names(*each: str) -> frozenset[str]:
    return frozenset(each)


def value(fixed: Any) -> Callable[[World], Any]:
    """A value that needs nothing of the world."""
    return lambda world: fixed
