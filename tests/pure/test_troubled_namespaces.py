"""Namespaces with any kind of trouble do not delay the restart of a job in another namespace: hostile objects in team-a, a
quota of 0 in team-b, and team-c is being deleted."""

import os
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from infra.platform.job_controller.in_pod.controller import LEASE_NAME
from infra.platform.job_controller.in_pod.lease import LEASE_SECONDS, Election
from testkit.hostile_objects import COLLECTIONS, Object, hostile_objects
from tests.pure.controller_world import LocalApi, World

NAMESPACES: Final = ("team-a", "team-b", "team-c", "team-d")
RESTART: Final = ("DELETE", "/api/v1/namespaces/team-d/pods/train-worker-1")
MOST_ROUNDS: Final = 10
EXAMPLES: Final = int(os.environ.get("GPUMPI_EXAMPLES", "80"))


def refuse_new_objects(method: str, url: str) -> int | None:
    return 403 if method == "POST" and ("/team-b/" in url or "/team-c/" in url) else None


def make_world(hostile: Mapping[str, Sequence[Object]]) -> World:
    world = World(NAMESPACES)
    for kind, items in hostile.items():
        for item in items:
            world.server.add(COLLECTIONS[kind].format("team-a"), item)
    world.server.refuse = refuse_new_objects
    return world


def count_rounds(world: World) -> int:
    """Run rounds until the job in team-d restarts. Return their number."""
    for number in range(1, MOST_ROUNDS + 1):
        if RESTART in world.run():
            return number
    return MOST_ROUNDS + 1


@cache
def count_usual_rounds() -> int:
    world = World(NAMESPACES)
    world.start()
    number = count_rounds(world)
    assert number <= MOST_ROUNDS
    return number


@settings(max_examples=2 * EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(hostile=hostile_objects("team-a", most=6), stalled=st.sampled_from(["nothing", "later watches", "first list"]))
def test_troubled_namespaces_do_not_delay_the_restart_of_a_job(hostile: dict[str, list[Object]], stalled: str) -> None:
    world = make_world(hostile)
    world.stalled = {"team-a", "team-c"} if stalled == "first list" else set()
    world.start()
    world.stalled = set() if stalled == "nothing" else {"team-a", "team-c"}
    assert count_rounds(world) == count_usual_rounds()


class Clock:
    """Time of the controllers, in seconds."""

    def __init__(self) -> None:
        self.now = 0.0


def make_controllers(hostile: Mapping[str, Sequence[Object]]) -> tuple[Clock, list[World]]:
    """Return two controllers of the same cluster, which compete for its Lease."""
    clock, worlds = Clock(), [make_world(hostile), make_world({})]
    worlds[1].server = worlds[0].server
    for identity, world in zip(("one", "two"), worlds, strict=True):
        world.election = Election(LocalApi(world.server), "gpumpi-system", LEASE_NAME, identity, lambda: clock.now)
        world.start()
    return clock, worlds


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(hostile=hostile_objects("team-a"), lost_after=st.integers(0, 3))
def test_two_controllers_restart_a_job_once_within_the_usual_rounds(hostile: dict[str, list[Object]], lost_after: int) -> None:
    """The first controller is lost after some rounds."""
    clock, worlds = make_controllers(hostile)
    rounds = {0: 0, 1: 0}
    for number in range(lost_after + MOST_ROUNDS):
        if number == lost_after:
            worlds[1].election.acquire_or_renew()
            clock.now += LEASE_SECONDS
        for index, world in enumerate(worlds):
            if index == 0 and number >= lost_after:
                continue
            world.election.acquire_or_renew()
            if world.election.begin_round():
                rounds[index] += 1
                world.read()
                world.run()
        if RESTART in worlds[0].server.changes:
            break
    assert worlds[0].server.changes.count(RESTART) == 1
    if lost_after >= count_usual_rounds():
        assert rounds[1] == 0
    else:
        assert 0 < rounds[1] <= count_usual_rounds()


@pytest.mark.parametrize("namespace", ["team-b", "team-c"])
def test_refused_records_are_retried_when_the_trouble_ends(namespace: str) -> None:
    world = make_world({})
    world.start()
    world.run(2)
    assert f"api/v1/namespaces/{namespace}/configmaps" not in world.server.objects
    world.server.refuse = lambda method, url: None
    world.controller._guard._failures.clear()
    world.run()
    assert world.server.objects[f"api/v1/namespaces/{namespace}/configmaps"]
