"""`scripts/cluster wait`: until master and all wanted workers have joined and mpiexec knows it; says why a node cannot."""

import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

from cli import hostfile
from cli.exit_codes import FINE
from cli.hostfile import Look, Unseen
from cli.master_ssh import must_exist
from cli.plain_cluster import BootLog, Failed, Group, Node, PlainCluster

EVERY_SECONDS: Final = 5.0
FAILED: Final = 1
HOSTFILE_SECONDS: Final = 120.0
"""For the master to know what AWS knows; its join service looks every ten."""
MOST_FAILURES: Final = 3
"""So many workers that could not join, and the next one will not either."""
TAIL_LINES: Final = 40


@dataclass(frozen=True)
class Seen:
    """One look."""

    group: Group
    nodes: list[Node]
    master_joined: bool
    difference: str = ""
    """Between the master's hostfile and AWS, in words."""

    @property
    def in_service(self) -> int:
        return sum(not node.is_master and node.state == "InService" for node in self.nodes)

    @property
    def leaving(self) -> int:
        return sum(not node.is_master and node.state.startswith("Terminat") for node in self.nodes)

    @property
    def has_joined(self) -> bool:
        """By AWS's word."""
        others = sum(not node.is_master for node in self.nodes) - self.in_service
        return self.master_joined and self.in_service == self.group.desired and others == 0

    def __str__(self) -> str:
        parts = [
            f"master {'joined' if self.master_joined else 'boots'}",
            f"{self.in_service} of {self.group.desired} workers joined",
        ]
        leaving = [f"{self.leaving} leaving"] if self.leaving else []
        return ", ".join([*parts, *leaving, *([self.difference] if self.difference else [])])


def run(stack: str, folder: Path, *, minutes: float, identity: Path | None, as_json: bool) -> int:
    try:
        seen = until_ready(PlainCluster(stack, folder), minutes, identity)
    except Failed as error:
        print(f"cluster wait: {error}", file=sys.stderr)
        return error.code
    if as_json:
        print(
            json.dumps({"ready": True, "workers": seen.in_service, "master": next(one.id for one in seen.nodes if one.is_master)})
        )
    return FINE


def until_ready(cluster: PlainCluster, minutes: float, identity: Path | None) -> Seen:
    """`wait` for somebody at a terminal. Raises Failed."""
    must_exist(identity)
    return wait(cluster, minutes * 60, say, partial(hostfile.look, identity=identity))


def say(line: str) -> None:
    print(line, file=sys.stderr)


def wait(
    cluster: PlainCluster,
    seconds: float,
    report: Callable[[str], None],
    look: Look,
    *,
    pause: Callable[[float], object] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> Seen:
    """Raises Failed: in time, or when it is known that there is no hope."""
    began, told, last = clock(), _Told(report), ""
    joined: float | None = None
    """Since when AWS has all."""
    while True:
        seen = _look(cluster)
        if seen.has_joined:
            seen = replace(seen, difference=_difference(cluster, seen, look, report))
        if str(seen) != last:
            last = str(seen)
            report(f"{clock() - began:4.0f} s: {last}")
        if seen.has_joined and not seen.difference:
            return seen
        told.failures(cluster, seen)
        now = clock()
        joined = (now if joined is None else joined) if seen.has_joined else None
        if joined is not None and now - joined > HOSTFILE_SECONDS:
            way_out = f"`scripts/cluster ssh -s {cluster.stack} -- systemctl status gpumpi-join` tells what holds it up"
            raise Failed(f"AWS has all members, but after {HOSTFILE_SECONDS / 60:g} minutes {seen.difference}; {way_out}", FAILED)
        if now - began > seconds:
            raise Failed(f"not ready after {seconds / 60:g} minutes: {seen}", FAILED)
        pause(EVERY_SECONDS)


def _difference(cluster: PlainCluster, seen: Seen, look: Look, report: Callable[[str], None]) -> str:
    """Who may not log in has AWS's word alone, and is told so."""
    try:
        return look(cluster, seen.nodes)
    except Unseen as reason:
        report(f"the master's hostfile was not looked at: {reason}")
        return ""


def _look(cluster: PlainCluster) -> Seen:
    group, nodes = cluster.group(), cluster.nodes()
    master = next((node for node in nodes if node.is_master), None)
    joined = master is not None and master.state == "running" and cluster.notice(master) is not None
    return Seen(group, nodes, joined)


class _Told:
    """Failures that the user knows of already."""

    def __init__(self, report: Callable[[str], None]) -> None:
        self._report = report
        self._seen: set[str] = set()
        self._first = True
        self._failed = 0

    def failures(self, cluster: PlainCluster, seen: Seen) -> None:
        """Boot logs of nodes that are there, and those that come while we wait; launches that AWS refused."""
        there = {node.id for node in seen.nodes}
        for boot_log in cluster.boot_logs():
            if boot_log.instance_id in self._seen:
                continue
            self._seen.add(boot_log.instance_id)
            if self._first and boot_log.instance_id not in there:
                continue  # of somebody who went before we came
            self._report(_shown(boot_log))
            if any(node.is_master and node.id == boot_log.instance_id for node in seen.nodes):
                raise Failed(f"the master {boot_log.instance_id} could not boot; its log is above", FAILED)
            self._failed += 1
            if self._failed == MOST_FAILURES:
                raise Failed(f"{MOST_FAILURES} workers could not join, one after the other; their logs are above", FAILED)
        for id, message in cluster.failed_launches().items():
            if id not in self._seen and not self._first:
                self._report(f"a launch failed: {message}")
            self._seen.add(id)
        self._first = False


def _shown(boot_log: BootLog) -> str:
    lines = boot_log.text.splitlines()[-TAIL_LINES:]
    return "\n".join(
        [f"{boot_log.instance_id} could not join ({boot_log.written}); the end of its log:", *(f"  | {line}" for line in lines)]
    )
