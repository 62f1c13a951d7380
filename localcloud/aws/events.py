"""Events that the local AWS publishes to realizers, which run the real counterparts of AWS resources.

The Kubernetes realizer runs EKS clusters and node groups; the host realizer runs instances and builds images.
Without a realizer, resources exist only in moto's state.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from localcloud import problems
from localcloud.aws import patching

Kind = Literal["cluster", "node-group", "add-on", "auto-scaling-group", "instance", "image"]
NodeRequest = Literal["cordoning", "draining", "uncordoning"]
"""Action that EKS requests for a node."""
Action = Literal["created", "changed", "updating", "stopping", "starting", "rebooting", "gone"] | NodeRequest
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

    Empty for `gone`, except for instances: their details contain `ScaledIn`, which tells whether the Auto Scaling group
    scaled the instance in. `draining` adds `Force`, which tells whether to delete pods that cannot be evicted in time.
    """


@dataclass(frozen=True)
class Progress:
    """Progress that realizers have made with a resource."""

    done: bool
    problem: str = ""
    """Reason why a finished resource does not work: a sentence, optionally followed by the end of a log."""
    ready: int | None = None
    """Number of Ready nodes of a node group; None if no realizer runs its nodes."""


DONE = Progress(True)
WAIT = Progress(False)

Realizer = Callable[[Event], None]
Query = Callable[[Kind, str, str, str], Progress]
"""Function that returns the realizer's progress, given the kind, name, region and account of a resource.

The function is called with the gateway's lock held, so it must not block.
"""

Key = tuple[Kind, str, str, str]

_realizers: list[Realizer] = []
_queries: list[Query] = []
_failures: dict[Key, str] = {}
"""Maps a resource to the reason why a realizer failed to handle one of its events. Entries stay until the resource is deleted."""


def register_realizer(realizer: Realizer, query: Query | None = None) -> Callable[[], None]:
    """Register a realizer, which is called with each event, in order. Call the function that this returns to unregister.

    The call happens during the request that caused the event, so do long-running work in the realizer's own thread.
    Resources stay in states like CREATING or DELETING until `query` reports that the realizer is done.
    """
    _realizers.append(realizer)
    if query is not None:
        _queries.append(query)

    def unregister_realizer() -> None:
        if realizer in _realizers:
            _realizers.remove(realizer)
        if query in _queries:
            _queries.remove(query)

    return unregister_realizer


def query_progress(kind: Kind, name: str, region: str, account: str) -> Progress:
    """Return the combined progress of all realizers. Without realizers, every resource counts as done.

    The resource fails if a realizer cannot report its progress or failed to handle one of the resource's events.
    """
    answers = [_query_progress(query, (kind, name, region, account)) for query in list(_queries)]
    problem = _failures.get((kind, name, region, account), "")
    problem = problem or next((answer.problem for answer in answers if answer.problem), "")
    ready = next((answer.ready for answer in answers if answer.ready is not None), None)
    return Progress(bool(problem) or all(answer.done for answer in answers), problem, ready)


def _query_progress(query: Query, key: Key) -> Progress:
    try:
        return query(*key)
    except Exception as error:
        return Progress(True, problems.report_problem(f"the realizer of {key[0]} {key[1]}", error))


def publish_event(event: Event) -> None:
    """Call all realizers. If a realizer raises an exception, the resource fails (unless the event is `gone`), but the
    request and the other realizers continue.
    """
    key = event.kind, event.name, event.region, event.account
    if event.action in ("created", "gone"):
        _failures.pop(key, None)
    for realizer in list(_realizers):
        try:
            realizer(event)
        except Exception as error:
            problem = problems.report_problem(f"the realizer of {event.kind} {event.name} ({event.action})", error)
            if event.action != "gone":
                _failures.setdefault(key, problem)


@patching.on_reset
def _reset_realizers() -> None:
    _failures.clear()
    problems.clear_problems()
