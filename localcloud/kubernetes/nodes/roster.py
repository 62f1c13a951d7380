"""Records which nodes of a cluster are real, and the phase of each node. The roster is thread-safe and does no I/O."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from localcloud.aws.events import WAIT, Progress
from localcloud.kubernetes.nodes.limits import Limits
from localcloud.kubernetes.nodes.machine import Kind, Machine
from localcloud.kubernetes.nodes.node import Node

Phase = Literal["starting", "ready", "failed", "leaving"]


@dataclass
class Member:
    """An instance and its node, which is starting, ready, failed or leaving."""

    machine: Machine
    number: int | None
    """Number of a real node within its cluster; None for a simulated node."""
    phase: Phase = "starting"
    problem: str = ""
    node: Node | None = None
    """The real node; None until it starts."""
    turn: threading.Lock = field(default_factory=threading.Lock)
    """Held by the thread that is running an action on the node, such as starting or removing it."""

    @property
    def has_real_node(self) -> bool:
        return self.number is not None


class Roster:
    """All members of one cluster, keyed by instance ID."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._members: dict[str, Member] = {}
        self._refused: dict[str, tuple[str, str]] = {}
        """Maps an instance ID to its node group, and to the reason why the instance cannot become a node."""
        self._lock = threading.Lock()

    def admit(self, machine: Machine) -> Member | None:
        """Add a member, as a real node if there is room. Return None if the instance is already a member."""
        with self._lock:
            if machine.id in self._members:
                return None
            number = self._find_free_number() if self._has_room_unlocked(machine.kind) else None
            member = self._members[machine.id] = Member(machine, number)
            return member

    def add_rejected(self, instance_id: str, node_group: str, problem: str) -> None:
        """Add an instance that belongs to a node group but cannot become a node. The instance counts as a failed member
        until it is terminated.
        """
        with self._lock:
            self._refused[instance_id] = node_group, problem

    def mark_leaving(self, instance_id: str) -> Member | None:
        """Mark a member as leaving and return it; None if the instance is unknown, rejected or already leaving."""
        with self._lock:
            self._refused.pop(instance_id, None)
            member = self._members.get(instance_id)
            if member is None or member.phase == "leaving":
                return None
            member.phase = "leaving"
            return member

    def record_start_result(self, member: Member, phase: Phase, problem: str = "") -> None:
        """Record whether the member's node started, unless the member is already leaving."""
        with self._lock:
            if member.phase != "leaving":
                member.phase, member.problem = phase, problem

    def ready(self, node_group: str) -> list[Member]:
        return [member for member in self.list_members(node_group) if member.phase == "ready"]

    def remove(self, member: Member) -> None:
        """Remove a member and free its number."""
        with self._lock:
            self._members.pop(member.machine.id, None)

    def promote(self, kind: Kind) -> Member | None:
        """Make the oldest simulated member real if there is room, and return it. The caller must restart the node."""
        with self._lock:
            if not self._has_room_unlocked(kind):
                return None
            for member in self._members.values():
                if not member.has_real_node and member.machine.kind == kind and member.phase == "ready":
                    member.number, member.phase = self._find_free_number(), "starting"
                    return member
            return None

    def get(self, instance_id: str) -> Member | None:
        with self._lock:
            return self._members.get(instance_id)

    def list_members(self, node_group: str) -> list[Member]:
        return self._select_members(lambda member: member.machine.node_group == node_group)

    def has_room(self, kind: Kind) -> bool:
        """Return whether another node of this kind would be real."""
        with self._lock:
            return self._has_room_unlocked(kind)

    def list_all_members(self) -> list[Member]:
        return self._select_members(lambda member: True)

    def find(self, name: str) -> Member | None:
        """Return the member whose node has this name."""
        return next(iter(self._select_members(lambda member: member.machine.name == name)), None)

    def progress(self, node_group: str) -> Progress:
        """Return WAIT while a node is starting or leaving. After that, return the first start error and the number
        of ready nodes."""
        members = self.list_members(node_group)
        if any(member.phase in ("starting", "leaving") for member in members):
            return WAIT
        with self._lock:
            problems = [problem for group, problem in self._refused.values() if group == node_group]
        problems += [member.problem for member in members if member.problem]
        return Progress(True, next(iter(problems), ""), len(self.ready(node_group)))

    def _select_members(self, matches: Callable[[Member], bool]) -> list[Member]:
        with self._lock:
            return [member for member in self._members.values() if matches(member)]

    def _has_room_unlocked(self, kind: Kind) -> bool:
        real = [member for member in self._members.values() if member.has_real_node and member.machine.kind == kind]
        return len(real) < self._limits.get_limit(kind)

    def _find_free_number(self) -> int:
        taken = {member.number for member in self._members.values()}
        return next(number for number in range(1, 256) if number not in taken)
