"""Events that the local AWS publishes to realizers, which run the real counterparts of AWS resources.

The Kubernetes realizer runs EKS clusters and node groups; the host realizer runs instances and builds images.
Without a realizer, resources exist only in moto's state.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

log = logging.getLogger(__name__)

Kind = Literal["cluster", "node-group", "add-on", "auto-scaling-group", "instance", "image"]
Action = Literal["created", "changed", "updating", "stopping", "starting", "rebooting", "gone"]
"""Only instances have `stopping`, `starting` and `rebooting` events."""


@dataclass(frozen=True)
class Event:
    kind: Kind
    action: Action
    name: str
    """Name in AWS: cluster name, `cluster/node group`, `cluster/add-on`, group name, instance id or image id."""
    region: str
    account: str
    details: Mapping[str, Any] = field(default_factory=dict)
    """The resource in the format of its Describe call; for `updating`, the update.

    Empty for `gone`, except that instances have `ScaledIn`: whether the Auto Scaling group scaled the instance in.
    """


@dataclass(frozen=True)
class Progress:
    """Progress that realizers have made with a resource."""

    done: bool
    problem: str = ""
    """Reason why a finished resource does not work: a sentence, optionally followed by the end of a log."""


DONE = Progress(True)
WAIT = Progress(False)

Realizer = Callable[[Event], None]
Query = Callable[[Kind, str, str, str], Progress]
"""Function that returns the realizer's progress, given the kind, name, region and account of a resource.

It is called with the gateway's lock held, so it must not block.
"""

_realizers: list[Realizer] = []
_queries: list[Query] = []


def register(realizer: Realizer, query: Query | None = None) -> Callable[[], None]:
    """Register a realizer, which is called with each event, in order. Call the returned function to unregister it.

    The call happens during the request that caused the event, so do long work in the realizer's own thread.
    Resources stay in states like CREATING or DELETING until `query` reports that the realizer is done.
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
    """Return the combined progress of all realizers. Without realizers, every resource counts as done."""
    answers = [query(kind, name, region, account) for query in list(_queries)]
    problem = next((answer.problem for answer in answers if answer.problem), "")
    return Progress(bool(problem) or all(answer.done for answer in answers), problem)


def publish(event: Event) -> None:
    """Call all realizers. An exception in one realizer neither fails the request nor stops the other realizers."""
    for realizer in list(_realizers):
        try:
            realizer(event)
        except Exception:
            log.exception("realizer failed on %s %s %s", event.kind, event.name, event.action)
