"""The seam: the local AWS tells what happens, realizers make it real.

Kubernetes realizes EKS clusters and node groups, hosts realize instances and images; without one, moto's record stands alone.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

log = logging.getLogger(__name__)

Kind = Literal["cluster", "node-group", "auto-scaling-group", "instance", "image"]
Action = Literal["created", "changed", "gone"]


@dataclass(frozen=True)
class Event:
    kind: Kind
    action: Action
    name: str
    """What AWS calls it: cluster name, `cluster/node group`, group name, instance id, image id."""
    region: str
    account: str
    details: Mapping[str, Any] = field(default_factory=dict)
    """As the service's Describe call shows it (node group: its describe_nodegroup answer); empty when gone."""


Realizer = Callable[[Event], None]

_realizers: list[Realizer] = []


def register(realizer: Realizer) -> Callable[[], None]:
    """Call the realizer with each event, in order; the returned function ends it.

    It is called while the request that caused the event is being answered: long work belongs in the realizer's own thread.
    """
    _realizers.append(realizer)

    def unregister() -> None:
        if realizer in _realizers:
            _realizers.remove(realizer)

    return unregister


def publish(event: Event) -> None:
    """Tell all realizers. One that fails neither fails the call nor keeps the others from hearing."""
    for realizer in list(_realizers):
        try:
            realizer(event)
        except Exception:
            log.exception("realizer failed on %s %s %s", event.kind, event.name, event.action)
