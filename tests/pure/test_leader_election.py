"""Two job controllers never act at the same time: only the holder of the Lease is the leader."""

import copy
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from infra.platform.job_controller.in_pod.api import CONFLICT, NOT_FOUND, ApiError, Object
from infra.platform.job_controller.in_pod.lease import LEASE_SECONDS, RENEW_SECONDS, Election

START = datetime(2026, 11, 25, 12, tzinfo=UTC)


def time_after_start(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


class Server:
    """An API server with one Lease. Like Kubernetes, it rejects writes with an outdated resource version."""

    def __init__(self) -> None:
        self.lease: Object | None = None
        self.writes = 0
        self.before_write: Callable[[], object] = lambda: None

    def call(self, method: str, path: str, body: Object | None = None) -> Object:
        if method == "GET":
            if self.lease is None:
                raise ApiError(NOT_FOUND, "NotFound", path)
            return copy.deepcopy(self.lease)
        meanwhile, self.before_write = self.before_write, lambda: None
        meanwhile()
        lease = copy.deepcopy(body or {})
        version = self.lease["metadata"]["resourceVersion"] if self.lease else None
        if lease["metadata"].get("resourceVersion") != version:
            raise ApiError(CONFLICT, "Conflict" if method == "PUT" else "AlreadyExists", path)
        self.writes += 1
        lease["metadata"]["resourceVersion"] = str(self.writes)
        self.lease = lease
        return lease

    @property
    def spec(self) -> dict[str, Any]:
        assert self.lease is not None
        spec: dict[str, Any] = self.lease["spec"]
        return spec


@pytest.fixture
def server() -> Server:
    return Server()


def make_election(server: Server, identity: str) -> Election:
    return Election(server, "gpumpi-system", "gpumpi-job-controller", identity)  # type: ignore[arg-type]


def test_a_controller_does_not_lead_while_another_one_renews_the_lease(server: Server) -> None:
    first, other = make_election(server, "one"), make_election(server, "two")
    for second in range(0, 10 * LEASE_SECONDS, RENEW_SECONDS):
        assert first.holds(time_after_start(second))
        before = copy.deepcopy(server.spec)
        assert not other.holds(time_after_start(second + RENEW_SECONDS - 1))
        assert server.spec == before


def test_leader_keeps_its_acquire_time_when_renewing_the_lease(server: Server) -> None:
    leader = make_election(server, "one")
    assert leader.holds(START)
    assert leader.holds(time_after_start(RENEW_SECONDS))
    assert (server.spec["acquireTime"], server.spec["renewTime"]) == (
        "2026-11-25T12:00:00.000000Z",
        "2026-11-25T12:00:05.000000Z",
    )
    assert (server.spec["holderIdentity"], server.spec["leaseTransitions"]) == ("one", 0)


def test_standby_leads_when_the_lease_expires_and_the_old_leader_stops(server: Server) -> None:
    first, second = make_election(server, "one"), make_election(server, "two")
    assert first.holds(START)
    assert not second.holds(time_after_start(LEASE_SECONDS - 0.001))
    assert second.holds(time_after_start(LEASE_SECONDS))
    assert not first.holds(time_after_start(LEASE_SECONDS))
    assert (server.spec["holderIdentity"], server.spec["leaseTransitions"]) == ("two", 1)
    assert server.spec["acquireTime"] == server.spec["renewTime"] == "2026-11-25T12:00:15.000000Z"


def test_controller_that_stops_releases_the_lease_at_once(server: Server) -> None:
    first, second = make_election(server, "one"), make_election(server, "two")
    assert first.holds(START)
    second.release(time_after_start(1))
    assert not second.holds(time_after_start(1)), "only the holder can release the Lease"
    first.release(time_after_start(1))
    assert second.holds(time_after_start(1))


@pytest.mark.parametrize("expired", [False, True], ids=["no lease yet", "expired lease"])
def test_only_the_first_writer_of_the_same_lease_leads(server: Server, *, expired: bool) -> None:
    first, second, former = (make_election(server, name) for name in ("one", "two", "former"))
    if expired:
        assert former.holds(START)
    now, led = time_after_start(LEASE_SECONDS), []
    server.before_write = lambda: led.append(first.holds(now))
    assert not second.holds(now)
    assert led == [True]
    assert server.spec["holderIdentity"] == "one"


def test_api_error_is_not_mistaken_for_a_lost_election(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse_write(*_: object, **more: object) -> Object:
        raise ApiError(403, "Forbidden", "may not write")

    monkeypatch.setattr(server, "call", refuse_write)
    with pytest.raises(ApiError, match="may not write"):
        make_election(server, "one").holds(START)
