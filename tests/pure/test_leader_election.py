"""Two job controllers never act at the same time: only the holder of the Lease is the leader."""

import copy
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from infra.platform.job_controller.in_pod.api import CONFLICT, NOT_FOUND, ApiError, Object
from infra.platform.job_controller.in_pod.lease import LEASE_SECONDS, RENEW_SECONDS, Election

START = datetime(2026, 11, 25, 12, tzinfo=UTC)


def after(seconds: float) -> datetime:
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


def controller(server: Server, identity: str) -> Election:
    return Election(server, "gpumpi-system", "gpumpi-job-controller", identity)  # type: ignore[arg-type]


def test_a_controller_does_not_lead_while_another_one_renews_the_lease(server: Server) -> None:
    first, other = controller(server, "one"), controller(server, "two")
    for second in range(0, 10 * LEASE_SECONDS, RENEW_SECONDS):
        assert first.holds(after(second))
        before = copy.deepcopy(server.spec)
        assert not other.holds(after(second + RENEW_SECONDS - 1))
        assert server.spec == before


def test_a_leader_that_renews_keeps_the_time_at_which_it_acquired_the_lease(server: Server) -> None:
    leader = controller(server, "one")
    assert leader.holds(START)
    assert leader.holds(after(RENEW_SECONDS))
    assert (server.spec["acquireTime"], server.spec["renewTime"]) == (
        "2026-11-25T12:00:00.000000Z",
        "2026-11-25T12:00:05.000000Z",
    )
    assert (server.spec["holderIdentity"], server.spec["leaseTransitions"]) == ("one", 0)


def test_another_controller_leads_when_the_lease_expires_and_the_first_one_does_not(server: Server) -> None:
    first, second = controller(server, "one"), controller(server, "two")
    assert first.holds(START)
    assert not second.holds(after(LEASE_SECONDS - 0.001))
    assert second.holds(after(LEASE_SECONDS))
    assert not first.holds(after(LEASE_SECONDS))
    assert (server.spec["holderIdentity"], server.spec["leaseTransitions"]) == ("two", 1)
    assert server.spec["acquireTime"] == server.spec["renewTime"] == "2026-11-25T12:00:15.000000Z"


def test_a_controller_that_stops_lets_another_one_lead_at_once(server: Server) -> None:
    first, second = controller(server, "one"), controller(server, "two")
    assert first.holds(START)
    second.release(after(1))
    assert not second.holds(after(1)), "only the holder can release the Lease"
    first.release(after(1))
    assert second.holds(after(1))


@pytest.mark.parametrize("expired", [False, True], ids=["no lease yet", "expired lease"])
def test_of_two_controllers_that_read_the_same_lease_only_the_first_to_write_leads(server: Server, *, expired: bool) -> None:
    first, second, former = (controller(server, name) for name in ("one", "two", "former"))
    if expired:
        assert former.holds(START)
    now, led = after(LEASE_SECONDS), []
    server.before_write = lambda: led.append(first.holds(now))
    assert not second.holds(now)
    assert led == [True]
    assert server.spec["holderIdentity"] == "one"


def test_another_error_of_the_api_server_is_not_taken_for_a_lost_election(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **more: object) -> Object:
        raise ApiError(403, "Forbidden", "may not write")

    monkeypatch.setattr(server, "call", refuse)
    with pytest.raises(ApiError, match="may not write"):
        controller(server, "one").holds(START)
