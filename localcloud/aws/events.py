"""The seam: the local AWS tells what happens, realizers make it real.

Kubernetes realizes EKS clusters and node groups, hosts realize instances and images; without one, moto's record stands alone.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

log = logging.getLogger(__name__)

Kind = Literal["cluster", "node-group", "add-on", "auto-scaling-group", "instance", "image"]
Action = Literal["created", "changed", "updating", "stopping", "starting", "rebooting", "gone"]
"""`stopping`, `starting` and `rebooting` are an instance's."""


@dataclass(frozen=True)
class Event:
    kind: Kind
    action: Action
    name: str
    """What AWS calls it: cluster name, `cluster/node group`, `cluster/add-on`, group name, instance id, image id."""
    region: str
    account: str
    details: Mapping[str, Any] = field(default_factory=dict)
    """As the service's Describe call shows it (a node group's, for example; of `updating` the update); empty when gone, but
    `ScaledIn` of an instance: whether its auto scaling group let it go."""


@dataclass(frozen=True)
class Progress:
    """Whether what was told about something is real by now."""

    done: bool
    problem: str = ""
    """Why it never will be, of what is done: a sentence, perhaps with the end of a log."""


DONE = Progress(True)
WAIT = Progress(False)

Realizer = Callable[[Event], None]
Asked = Callable[[Kind, str, str, str], Progress]
"""Progress by kind, name, region and account; called with the gateway's lock held, so it only looks."""

_realizers: list[Realizer] = []
_asked: list[Asked] = []


def register(realizer: Realizer, asked: Asked | None = None) -> Callable[[], None]:
    """Call the realizer with each event, in order; the returned function ends it.

    It is called while the request that caused the event is being answered: long work belongs in the realizer's own thread.
    States that AWS shows (CREATING, DELETING) last until `asked` says that it is done.
    """
    _realizers.append(realizer)
    if asked is not None:
        _asked.append(asked)

    def unregister() -> None:
        if realizer in _realizers:
            _realizers.remove(realizer)
        if asked in _asked:
            _asked.remove(asked)

    return unregister


def progress(kind: Kind, name: str, region: str, account: str) -> Progress:
    """Of all realizers together; without one everything is done."""
    answers = [asked(kind, name, region, account) for asked in list(_asked)]
    problem = next((answer.problem for answer in answers if answer.problem), "")
    return Progress(bool(problem) or all(answer.done for answer in answers), problem)


def publish(event: Event) -> None:
    """Tell all realizers. One that fails neither fails the call nor keeps the others from hearing."""
    for realizer in list(_realizers):
        try:
            realizer(event)
        except Exception:
            log.exception("realizer failed on %s %s %s", event.kind, event.name, event.action)
