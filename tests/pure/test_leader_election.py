"""Two job controllers never act at the same time: only the holder of the Lease is the leader."""

import contextlib
import copy
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infra.platform.job_controller.in_pod import controller, lease
from infra.platform.job_controller.in_pod.api import CONFLICT, NOT_FOUND, Api, ApiError, LeaseLost, Object, Unreachable
from infra.platform.job_controller.in_pod.controller import LEASE_NAME
from infra.platform.job_controller.in_pod.health import Guard, Health
from infra.platform.job_controller.in_pod.lease import DEADLINE_SECONDS, LEASE_SECONDS, RENEW_SECONDS, Election
from infra.platform.job_controller.in_pod.nodes import Nodes
from infra.platform.job_controller.in_pod.pod_exec import run_in_pod
from tests.pure.controller_world import NAMESPACES, POLICY, LocalApi, World

START = datetime(2026, 11, 25, 12, tzinfo=UTC)


class Server:
    """An API server with one Lease, and the time. Like Kubernetes, the server rejects writes with an outdated
    resource version."""

    def __init__(self) -> None:
        self.now = 0.0
        self.lease: Object | None = None
        self.writes = 0
        self.skews: dict[str, float] = {}
        """Maps a controller to the number of seconds by which its wall clock is fast."""
        self.before_write: Callable[[], object] = lambda: None
        self.after_write: Callable[[], object] = lambda: None

    def call(self, method: str, path: str, body: Object | None = None) -> Object:
        if method == "GET":
            if self.lease is None:
                raise ApiError(NOT_FOUND, "NotFound", path)
            return copy.deepcopy(self.lease)
        meanwhile, self.before_write = self.before_write, lambda: None
        meanwhile()
        written = copy.deepcopy(body or {})
        version = self.lease["metadata"]["resourceVersion"] if self.lease else None
        if written["metadata"].get("resourceVersion") != version:
            raise ApiError(CONFLICT, "Conflict" if method == "PUT" else "AlreadyExists", path)
        self.writes += 1
        written["metadata"]["resourceVersion"] = str(self.writes)
        skew = self.skews.get(written["spec"]["holderIdentity"], 0.0)
        written["spec"]["renewTime"] = lease.format_microseconds(START + timedelta(seconds=self.now + skew))
        self.lease = written
        afterwards, self.after_write = self.after_write, lambda: None
        afterwards()
        return copy.deepcopy(written)

    @property
    def spec(self) -> dict[str, Any]:
        assert self.lease is not None
        spec: dict[str, Any] = self.lease["spec"]
        return spec


@pytest.fixture
def server() -> Server:
    return Server()


def make_election(server: Server, identity: str, boot: float = 0.0) -> Election:
    """Return the election of a controller on a machine that booted `boot` seconds before the test."""
    api: Any = server
    return Election(api, "gpumpi-system", LEASE_NAME, identity, lambda: server.now + boot)


def acquires_lease(election: Election) -> bool:
    """Let a controller acquire or renew the Lease. Return whether the controller may act."""
    election.acquire_or_renew()
    return election.begin_round() and election.allows_changes()


def lose_answer() -> None:
    raise Unreachable("connection reset")


SKEWS = [-86_400 * 365 * 40.0, -3600.0, -11.0, 0.0, 11.0, 3600.0, 86_400 * 365 * 40.0]


@pytest.mark.parametrize("skew", SKEWS)
def test_a_controller_does_not_lead_while_another_one_renews_the_lease(server: Server, skew: float) -> None:
    server.skews = {"one": skew}
    first, second = make_election(server, "one", 5e6), make_election(server, "two")
    while server.now < 10 * LEASE_SECONDS:
        assert acquires_lease(first)
        server.now += LEASE_SECONDS - 0.001
        before = copy.deepcopy(server.spec)
        assert not acquires_lease(second)
        assert server.spec == before


@pytest.mark.parametrize("skew", SKEWS)
def test_standby_leads_when_it_has_seen_no_renewal_for_the_lease_duration(server: Server, skew: float) -> None:
    server.skews = {"one": skew}
    first, second = make_election(server, "one"), make_election(server, "two", 5e6)
    assert acquires_lease(first)
    server.now = 7
    assert not acquires_lease(second), "the controller sees the Lease for the first time, no matter how old its renewal time is"
    server.now = 7 + LEASE_SECONDS - 0.001
    assert not acquires_lease(second)
    server.now = 7 + LEASE_SECONDS
    assert acquires_lease(second) and not acquires_lease(first)
    assert (server.spec["holderIdentity"], server.spec["leaseTransitions"]) == ("two", 1)


@pytest.mark.parametrize("renewed", [None, "", "x", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59.999999Z"])
def test_standby_ignores_the_renew_time(server: Server, renewed: str | None) -> None:
    first, second = make_election(server, "one"), make_election(server, "two")
    assert acquires_lease(first)
    server.spec["renewTime"] = renewed
    assert not acquires_lease(second)
    server.now = LEASE_SECONDS
    assert acquires_lease(second)


def test_standby_waits_for_the_lease_duration_set_by_the_leader(server: Server) -> None:
    first, second = make_election(server, "one"), make_election(server, "two")
    assert acquires_lease(first)
    server.spec["leaseDurationSeconds"] = 60
    assert not acquires_lease(second)
    server.now = 59.0
    assert not acquires_lease(second)
    server.now = 60.0
    assert acquires_lease(second)


def test_leader_keeps_its_acquire_time_when_renewing_the_lease(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    class Clock:
        @staticmethod
        def now(zone: Any) -> datetime:
            return START + timedelta(seconds=server.now)

    monkeypatch.setattr(lease, "datetime", Clock)
    leader = make_election(server, "one")
    assert acquires_lease(leader)
    server.now = RENEW_SECONDS
    assert acquires_lease(leader)
    assert server.spec == {
        **{"acquireTime": "2026-11-25T12:00:00.000000Z", "renewTime": "2026-11-25T12:00:02.000000Z"},
        **{"holderIdentity": "one", "leaseDurationSeconds": LEASE_SECONDS, "leaseTransitions": 0},
    }


def test_leader_stops_before_its_lease_ends_when_it_cannot_renew(server: Server) -> None:
    leader = make_election(server, "one")
    assert acquires_lease(leader) and DEADLINE_SECONDS < LEASE_SECONDS
    server.now = DEADLINE_SECONDS - 0.001
    assert leader.allows_changes()
    server.now = DEADLINE_SECONDS
    assert not leader.allows_changes() and not leader.begin_round()
    assert acquires_lease(leader), "no other controller has taken the Lease"


def test_lease_duration_counts_from_the_renewal_request(server: Server) -> None:
    leader = make_election(server, "one")

    def delay_answer() -> None:
        server.now += DEADLINE_SECONDS

    server.after_write = delay_answer
    assert not acquires_lease(leader)
    assert acquires_lease(leader)


@pytest.mark.parametrize("applied", [False, True], ids=["request lost", "answer lost"])
def test_lost_renewal_does_not_prolong_leadership(server: Server, *, applied: bool) -> None:
    first, second = make_election(server, "one"), make_election(server, "two")
    assert acquires_lease(first) and not acquires_lease(second)
    server.now = DEADLINE_SECONDS - 1
    setattr(server, "after_write" if applied else "before_write", lose_answer)
    with pytest.raises(Unreachable):
        first.acquire_or_renew()
    assert first.allows_changes()
    server.now = DEADLINE_SECONDS
    assert not first.allows_changes()
    server.now = LEASE_SECONDS
    assert acquires_lease(second) == (not applied)


def test_lost_response_to_a_takeover_still_leaves_one_leader(server: Server) -> None:
    first, second = make_election(server, "one"), make_election(server, "two")
    assert acquires_lease(first) and not acquires_lease(second)
    server.now, server.after_write = LEASE_SECONDS, lose_answer
    with pytest.raises(Unreachable):
        second.acquire_or_renew()
    assert not second.begin_round() and not acquires_lease(first)
    assert acquires_lease(second) and server.spec["leaseTransitions"] == 1


def test_controller_that_stops_releases_the_lease_at_once(server: Server) -> None:
    first, second = make_election(server, "one"), make_election(server, "two")
    assert acquires_lease(first)
    second.release()
    assert not acquires_lease(second), "only the holder can release the Lease"
    first.release()
    assert not first.allows_changes()
    assert acquires_lease(second)


def test_failed_release_ends_leadership(server: Server) -> None:
    leader = make_election(server, "one")
    assert acquires_lease(leader)
    server.before_write = lose_answer
    with pytest.raises(Unreachable):
        leader.release()
    assert not leader.allows_changes()


@pytest.mark.parametrize("expired", [False, True], ids=["no lease yet", "expired lease"])
def test_only_the_first_writer_of_the_same_lease_leads(server: Server, *, expired: bool) -> None:
    first, second, former = (make_election(server, name) for name in ("one", "two", "former"))
    if expired:
        assert acquires_lease(former) and not acquires_lease(first) and not acquires_lease(second)
    server.now, led = LEASE_SECONDS, []
    server.before_write = lambda: led.append(acquires_lease(first))
    assert not acquires_lease(second)
    assert led == [True]
    assert server.spec["holderIdentity"] == "one"


def test_a_round_does_not_continue_after_another_controller_has_led(server: Server) -> None:
    """The leader's machine froze during a round. The decisions of that round are outdated."""
    first, second = make_election(server, "one"), make_election(server, "two")
    assert acquires_lease(first) and not acquires_lease(second)
    server.now = LEASE_SECONDS
    assert acquires_lease(second)
    second.release()
    server.after_write = lose_answer
    with pytest.raises(Unreachable):
        first.acquire_or_renew()
    first.acquire_or_renew()
    assert server.spec["holderIdentity"] == "one" and not first.allows_changes()
    assert first.begin_round() and first.allows_changes()


def test_renewals_continue_after_a_failure_until_the_controller_stops(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "RENEW_SECONDS", 0)
    leader, acquired = make_election(server, "one"), threading.Event()
    server.before_write = lose_answer
    heart = leader.start(acquired.set)
    assert acquired.wait(60) and heart.is_alive
    assert leader.begin_round()
    leader.stop()
    assert not leader.allows_changes() and server.spec["holderIdentity"] == ""


def test_api_error_is_not_mistaken_for_a_lost_election(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse_write(*_: object, **more: object) -> Object:
        raise ApiError(403, "Forbidden", "may not write")

    monkeypatch.setattr(server, "call", refuse_write)
    with pytest.raises(ApiError, match="may not write"):
        make_election(server, "one").acquire_or_renew()


REQUEST, ANSWER = "request", "answer"
PAUSES = st.sampled_from([0.0, 0.0, 0.5, RENEW_SECONDS, DEADLINE_SECONDS, LEASE_SECONDS])
EITHER = st.sampled_from(["", "", REQUEST, ANSWER])


@dataclass(frozen=True)
class Step:
    """What one controller does. Pauses are in seconds."""

    number: int
    pause: float
    request_pause: float
    answer_pause: float
    lost: str
    meanwhile: str
    """Whether the next step happens while the request or its response is in transit."""
    releases: bool


STEPS = st.builds(Step, st.integers(0, 2), PAUSES, PAUSES, PAUSES, EITHER, EITHER, st.sampled_from([False, False, False, True]))


@given(steps=st.lists(STEPS, max_size=20), skews=st.lists(st.sampled_from(SKEWS), min_size=3, max_size=3))
@settings(max_examples=500, deadline=None)
def test_no_two_controllers_act_at_the_same_time(steps: list[Step], skews: list[float]) -> None:
    server = Server()
    elections = [make_election(server, str(number), 1e6 * number) for number in range(3)]
    server.skews = {str(number): skew for number, skew in enumerate(skews)}
    pending = list(steps)

    def wait(seconds: float) -> None:
        server.now += seconds
        assert sum(election.allows_changes() for election in elections) <= 1

    def perform_step(busy: Sequence[int] = ()) -> None:
        step = pending.pop(0)
        if step.number in busy:  # the holder waits for its own request
            return

        def transfer(part: str, seconds: float) -> None:
            if pending and step.meanwhile == part:
                perform_step((*busy, step.number))
            wait(seconds)
            server.after_write = lambda: transfer(ANSWER, step.answer_pause) if part == REQUEST else None
            if step.lost == part:
                lose_answer()

        wait(step.pause)
        server.before_write, server.after_write = lambda: transfer(REQUEST, step.request_pause), lambda: None
        election = elections[step.number]
        with contextlib.suppress(Unreachable):
            election.release() if step.releases else election.acquire_or_renew()
        server.before_write = server.after_write = lambda: None
        election.begin_round()
        wait(0)

    while pending:
        perform_step()


# --- the controller ---------------------------------------------------------------------------------------------------------


class Term:
    """Election in which this controller leads for a limited number of requests."""

    def __init__(self, changes: int) -> None:
        self.changes = changes

    def allows_changes(self) -> bool:
        self.changes -= 1
        return self.changes >= 0


CHANGES: list[Callable[[Api], object]] = [
    *(lambda api, method=method: api.call(method, "api/v1/nodes/one", body={}) for method in ("POST", "PUT", "PATCH", "DELETE")),
    lambda api: run_in_pod(api, "team-a", "train-worker-0", "worker", ["true"], 1),
]


@pytest.mark.parametrize("change", CHANGES, ids=["POST", "PUT", "PATCH", "DELETE", "exec"])
def test_client_changes_nothing_without_the_lease(change: Callable[[Api], object]) -> None:
    world = World()
    api = LocalApi(world.server).copy(lambda: False)
    api.call("GET", "api/v1/nodes")
    for client in (api, api.copy()):
        with pytest.raises(LeaseLost):
            change(client)
    assert world.server.requests == 1 and world.server.changes == []


def test_client_checks_the_lease_again_before_it_repeats_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server has closed an idle connection, which the client notices late."""
    world = World()
    api = LocalApi(world.server).copy(Term(1).allows_changes)
    api.call("GET", "api/v1/nodes")
    api._connection = api._connect(1)
    monkeypatch.setattr(world.server, "request", mock.Mock(side_effect=ConnectionResetError))
    with pytest.raises(LeaseLost):
        api.call("DELETE", "api/v1/nodes/one")
    assert world.server.request.call_count == 1  # type: ignore[attr-defined]


def test_lost_lease_does_not_count_as_a_task_failure() -> None:
    """The lost connection ends the round, and does not delay any task of a later round."""
    guard = Guard(lambda: 0.0)

    def lose_lease() -> None:
        raise LeaseLost

    with pytest.raises(LeaseLost):
        guard.run("task", lose_lease)
    assert guard.run("task", lambda: 1) == 1


def count_changes(changes: int | None = None) -> int:
    """Run a round in which the controller may make the given number of changes, and return how many it made."""
    world = World()
    if changes is not None:
        world.election = Term(changes)
    world.start()
    with contextlib.suppress(LeaseLost):
        world.run()
    return len(world.server.changes)


def test_controller_that_loses_its_lease_during_a_round_makes_no_further_change() -> None:
    total = count_changes()
    assert total > 5
    assert [count_changes(changes) for changes in range(total + 1)] == list(range(total + 1))


def test_no_part_of_the_program_acts_without_the_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another controller holds the Lease, but this controller runs a round anyway."""
    world, started = World(), list[Any]()
    monkeypatch.setattr(controller.Api, "from_pod", lambda: LocalApi(world.server))
    monkeypatch.setattr(controller.Controller, "run", lambda self: started.append(self))
    monkeypatch.setattr(controller.signal, "signal", lambda *_: None)
    monkeypatch.setattr(Health, "serve_http", lambda self: None)
    monkeypatch.setattr(Nodes, "from_environment", lambda api: Nodes(api, "gpumpi-system", POLICY))
    monkeypatch.setenv("POD_NAMESPACE", "gpumpi-system")
    controller.main(NAMESPACES)
    (world.controller,) = started
    world.read()
    with pytest.raises(LeaseLost):
        world.run()
    assert world.server.changes == []
    for part in (world.controller._api, world.controller._store._api, world.controller._stacks.api, world.controller._nodes._api):
        with pytest.raises(LeaseLost):
            part.copy().call("DELETE", "api/v1/nodes/one")
    world.controller._election.acquire_or_renew()
    assert world.controller._election.begin_round()
    world.run()
    assert len(world.server.changes) > 5
