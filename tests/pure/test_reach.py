"""The way to the Kubernetes API, and the one sentence where there is none."""

import socket
from collections.abc import Iterator

import pulumi
import pytest

from infra.platform import reach

REFUSED = (
    r"the Kubernetes API of gpumpi-test at https://127\.0\.0\.1:\d+ cannot be reached from here "
    r"\(\[Errno 111\] Connection refused\): "
    r"run `pulumi up` from inside its network, or from an address in target\.endpointAccess\.publicCidrs; "
    r"or write `platform: \{install: false\}` to leave the platform out"
)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reach, "PATIENCE_SECONDS", 0.0)
    monkeypatch.setattr(reach, "TIMEOUT_SECONDS", 0.5)
    monkeypatch.setattr(reach, "PAUSE_SECONDS", 0.01)


@pytest.fixture
def listening() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"https://127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture
def closed() -> str:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"https://127.0.0.1:{server.getsockname()[1]}"


def test_an_open_way_says_nothing(listening: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pulumi.runtime, "is_dry_run", lambda: False)
    reach.must_be_reachable(listening, "gpumpi-test")


def test_no_way_ends_the_run_with_one_sentence(closed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pulumi.runtime, "is_dry_run", lambda: False)
    with pytest.raises(pulumi.RunError, match=REFUSED):
        reach.must_be_reachable(closed, "gpumpi-test")


def test_a_preview_only_warns_since_the_run_may_open_the_way(closed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(pulumi.runtime, "is_dry_run", lambda: True)
    monkeypatch.setattr(pulumi.log, "warn", said.append)
    reach.must_be_reachable(closed, "gpumpi-test")
    assert len(said) == 1 and "cannot be reached from here" in said[0]


def test_a_name_that_is_not_known_yet_is_tried_again(listening: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tries = iter(["not yet", "not yet", None])
    monkeypatch.setattr(pulumi.runtime, "is_dry_run", lambda: False)
    monkeypatch.setattr(reach, "PATIENCE_SECONDS", 30.0)
    monkeypatch.setattr(reach, "_refused", lambda endpoint: next(tries))
    reach.must_be_reachable(listening, "gpumpi-test")
    assert next(tries, "all used") == "all used"
