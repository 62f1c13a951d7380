"""Events between the local AWS, which publishes them, and realizers, which make resources real.

Kubernetes realizes EKS clusters and node groups, hosts realize instances and images. Without a realizer,
resources are only moto's records.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

log = logging.getLogger(__name__)

Kind = Literal["cluster", "node-group", "add-on", "auto-scaling-group", "instance", "image"]
Action = Literal["created", "changed", "updating", "stopping", "starting", "rebooting", "gone"]
"""`stopping`, `starting` and `rebooting` occur for instances only."""


@dataclass(frozen=True)
class Event:
    kind: Kind
    action: Action
    name: str
    """AWS's name: cluster name, `cluster/node group`, `cluster/add-on`, group name, instance id, image id."""
    region: str
    account: str
    details: Mapping[str, Any] = field(default_factory=dict)
    """The resource as Describe calls show it (for `updating`: the update). Empty when gone, except for
    an instance's `ScaledIn`: whether its Auto Scaling group scaled it in."""


@dataclass(frozen=True)
class Progress:
    """How far the realizer is with a resource."""

    done: bool
    problem: str = ""
    """Why a finished resource does not work: a sentence, perhaps with the end of a log."""


DONE = Progress(True)
WAIT = Progress(False)

Realizer = Callable[[Event], None]
Query = Callable[[Kind, str, str, str], Progress]
"""Progress by kind, name, region and account; called with the gateway's lock held, so it must not block."""

_realizers: list[Realizer] = []
_queries: list[Query] = []


def register(realizer: Realizer, query: Query | None = None) -> Callable[[], None]:
    """Call the realizer with each event, in order. Call the returned function to unregister.

    The call happens while the request that caused the event is processed: do long work in the realizer's own thread.
    States that AWS shows (CREATING, DELETING) last until `query` reports that it is done.
    """
    _realizers.append(realizer)
    if query is not None:
        _queries.append(query)

    def unregister() -> None:
        if realizer in _realizers:
            _realizers.remove(realizer)
        if query in _queries:
            _queries.remove(query)

    return unregister


def progress(kind: Kind, name: str, region: str, account: str) -> Progress:
    """Combined progress of all realizers; done if there are none."""
    answers = [query(kind, name, region, account) for query in list(_queries)]
    problem = next((answer.problem for answer in answers if answer.problem), "")
    return Progress(bool(problem) or all(answer.done for answer in answers), problem)


def publish(event: Event) -> None:
    """Call all realizers. A failing one neither fails the request nor stops the others."""
    for realizer in list(_realizers):
        try:
            realizer(event)
        except Exception:
            log.exception("realizer failed on %s %s %s", event.kind, event.name, event.action)
