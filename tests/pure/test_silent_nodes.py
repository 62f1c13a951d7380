"""Which nodes the job controller calls silent."""

import socket
from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from infra.platform.job_controller.in_pod.mirror import trimmed_node
from infra.platform.job_controller.in_pod.silence import STALE_SECONDS, Silence, kubelet_answers

Object = dict[str, Any]
NOON = datetime(2026, 11, 23, 12, tzinfo=UTC)


class Leases:
    """An API server with the leases of three nodes, a clock, and kubelets that answer or not."""

    def __init__(self, *, skew: timedelta = timedelta()) -> None:
        self.seconds, self.skew = 0.0, skew
        self.renewed = dict.fromkeys("abc", 0.0)
        self.unreachable: Collection[str] = ()
        self.silence = Silence(self, lambda: self.seconds, self._answers)  # type: ignore[arg-type]  # it only calls `call`

    def call(self, method: str, path: str) -> Object:
        times = {name: (NOON + self.skew + timedelta(seconds=at)).isoformat() for name, at in self.renewed.items()}
        return {"items": [{"metadata": {"name": name}, "spec": {"renewTime": at}} for name, at in times.items()]}

    def _answers(self, node: Object) -> bool:
        return node["metadata"]["name"] not in self.unreachable

    def wait(self, seconds: int, renewing: str) -> list[str]:
        """Look every five seconds, while some nodes renew their leases. Return the silent nodes."""
        for _ in range(0, seconds, 5):
            self.seconds += 5
            self.renewed |= dict.fromkeys(renewing, self.seconds)
            found = self.silence.look([{"metadata": {"name": name}, "status": {}} for name in self.renewed])
        return sorted(found)


@pytest.mark.parametrize("skew", [timedelta(), timedelta(minutes=-5), timedelta(minutes=5)])
def test_a_node_that_neither_renews_its_lease_nor_answers_is_silent_whatever_its_clock_shows(skew: timedelta) -> None:
    cluster = Leases(skew=skew)
    cluster.unreachable = ["c"]
    cluster.wait(60, renewing="abc")
    assert cluster.wait(int(STALE_SECONDS), renewing="ab") == []
    assert cluster.wait(5, renewing="ab") == ["c"]
    assert cluster.wait(5, renewing="abc") == []


def test_a_node_that_answers_is_not_silent() -> None:
    assert Leases().wait(60, renewing="ab") == []


def test_no_node_is_silent_if_the_controller_itself_reaches_none() -> None:
    cluster = Leases()
    cluster.unreachable = "abc"
    assert cluster.wait(60, renewing="ab") == []
    assert cluster.wait(60, renewing="") == [], "without a renewed lease there is no node to compare with"


def test_a_kubelet_that_has_stopped_does_not_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        found = _node(server.getsockname()[1])
        assert kubelet_answers(found)
    assert not kubelet_answers(found)


def test_a_node_without_an_address_is_not_called_silent() -> None:
    assert kubelet_answers(trimmed_node({"metadata": {"name": "a"}, "spec": {}}))


def _node(port: int) -> Object:
    status = {
        "addresses": [{"type": "Hostname", "address": "a"}, {"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
    }
    return trimmed_node({"metadata": {"name": "a"}, "spec": {}, "status": status})
