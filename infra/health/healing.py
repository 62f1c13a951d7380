"""Plan one pass of the job controller over the nodes: the journal, which the controller stores first, and the patches
for nodes."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from types import MappingProxyType
from typing import Any

from infra.health import annotation, cordons, faults, journal, repairs
from infra.health.annotation import Object, TakenOut, read_node_name
from infra.health.journal import Journal


@dataclass(frozen=True)
class Pool:
    """Nodes that the controller may take out of service."""

    labels: Mapping[str, str]
    gpus: int


@dataclass(frozen=True)
class Policy:
    """The nodes on which the controller acts, and what it may do."""

    pools: tuple[Pool, ...] = ()
    existing: bool = False
    """Whether another program owns the nodes. If so, the controller only cordons them, and their jobs keep running."""

    def find_pool(self, node: Object) -> Pool | None:
        labels = node["metadata"].get("labels") or {}
        return next((pool for pool in self.pools if pool.labels.items() <= labels.items()), None)


@dataclass(frozen=True)
class Patch:
    """A change to one node. The API server rejects the patch if the node has changed since the controller read it."""

    node: str
    body: Mapping[str, Any]
    what: str


@dataclass(frozen=True)
class Plan:
    journal: Journal
    """The journal must be stored before the first patch is applied."""
    patches: tuple[Patch, ...]


def plan_round(
    nodes: Sequence[Object],
    stored: Journal,
    busy: Mapping[str, int],
    now: datetime,
    policy: Policy,
    silent: Mapping[str, str] = MappingProxyType({}),
) -> Plan:
    """Return the journal and the patches. `nodes`: all nodes of the cluster. `busy`: name of each node that runs jobs
    -> longest grace period of their pods, in seconds. `silent`: name of each node whose kubelet is silent -> time when
    the silence began.
    """
    own = [node for node in nodes if policy.find_pool(node) is not None]
    after = journal.update_journal(stored, own, [str(node["metadata"]["uid"]) for node in nodes], now)
    entries = after["entries"]
    before = journal.find_nodes_counted_by_brake(after, own)
    verdict = cordons.decide_cordons(own, before, now, existing=policy.existing, silent=silent)
    patches = [
        _advance_node(node, entries, now, policy, is_busy=read_node_name(node) in busy, is_silent=read_node_name(node) in silent)
        for node in own
    ]
    by_name = {read_node_name(node): node for node in own}
    for cordon in verdict.cordons:
        if cordon.out.reason == faults.SILENT:
            cordon = replace(cordon, out=replace(cordon.out, ending=busy.get(cordon.node, 0)))
        journal.record_state(entries, by_name[cordon.node], cordon.out)
        patches.append(Patch(cordon.node, cordon.patch, f"taken out of service: {cordon.out.reason}"))
    cordoned = {cordon.node for cordon in verdict.cordons}
    for name, node in by_name.items():
        if (
            annotation.read_annotation(node) is None and name not in cordoned
        ):  # the node recovered before it was taken out of service
            journal.close_entries(entries, str(node["metadata"]["uid"]), now)
    return Plan({**after, "held": sorted(verdict.held)}, tuple(filter(None, patches)))


def _advance_node(
    node: Object, entries: list[journal.Entry], now: datetime, policy: Policy, *, is_busy: bool, is_silent: bool
) -> Patch | None:
    """Return the patch for a node that is out of service; None if its state stays the same."""
    out, pool = annotation.read_annotation(node), policy.find_pool(node)
    if out is None or pool is None:
        return None
    after = repairs.decide_next_state(node, out, pool.gpus, now, is_busy=is_busy, is_silent=is_silent)
    if after == out:
        return None
    if after is None:
        journal.close_entries(entries, str(node["metadata"]["uid"]), now)
    else:
        journal.record_state(entries, node, after)
    body = repairs.build_state_patch(node["metadata"].get("resourceVersion", ""), after)
    return Patch(read_node_name(node), body, "back in service" if after is None else after.state)


def find_draining_nodes(nodes: Sequence[Object]) -> dict[str, str]:
    """Return the names of the nodes that jobs must leave now, each with the reason."""
    return {read_node_name(node): out.reason for node, out in _iterate_drained_nodes(nodes) if out.state == "draining"}


def is_kubelet_silent(node: Object) -> bool:
    """Return whether the controller took a node out of service because of a silent kubelet, and the kubelet is still
    silent."""
    return any(out.condition == faults.READY and out.state != "verifying" for _, out in _iterate_drained_nodes([node]))


def find_drained_nodes(nodes: Sequence[Object]) -> dict[str, str]:
    """Return the names of the nodes that jobs had to leave and that are not yet back in service, each with the
    reason."""
    return {read_node_name(node): out.reason for node, out in _iterate_drained_nodes(nodes)}


def _iterate_drained_nodes(nodes: Sequence[Object]) -> Iterator[tuple[Object, TakenOut]]:
    """Yield the nodes that jobs had to leave, except nodes that a person has uncordoned: those nodes keep their
    jobs."""
    for node in nodes:
        out = annotation.read_annotation(node)
        if out is not None and out.drains and node["spec"].get("unschedulable"):
            yield node, out
