"""Leader election: only the controller that holds the Lease acts.

The rules are those of Kubernetes' own controllers, which need no synchronized clocks:
https://pkg.go.dev/k8s.io/client-go/tools/leaderelection
"""

import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from .api import Api, Object, find_object, write_object
from .health import Heart

LEASE_SECONDS, DEADLINE_SECONDS, RENEW_SECONDS = 15, 10, 2
"""A standby takes over when the Lease has not changed for the first time. The leader stops when its last renewal is older
than the second: its last requests may still be on their way. It renews at the third. These are client-go's defaults."""


def format_microseconds(when: datetime) -> str:
    return when.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


@dataclass(eq=False)
class _Term:
    """Period in which this controller holds the Lease without interruption."""

    ends: float


class Election:
    """The Lease for which a cluster's controllers compete.

    Renewals run in a thread, because a round may take longer than the Lease lasts. `api` belongs to that thread.
    """

    def __init__(self, api: Api, namespace: str, name: str, identity: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._api, self._identity, self._name, self._namespace = api, identity, name, namespace
        self._path = f"apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self._clock = clock
        self._observed: tuple[str, float] = "", 0.0
        """Resource version of the Lease, and when this controller first saw it."""
        self._term: _Term | None = None
        self._round: _Term | None = None
        self._acquired: Callable[[], None] = lambda: None
        self._is_stopping = threading.Event()
        self._heart = Heart()
        self._thread = threading.Thread(target=self._renew_until_stopped, daemon=True, name="lease")

    def begin_round(self) -> bool:
        """Return whether this controller is the leader. The leader may make changes in this round until its term ends."""
        self._round = self._term
        return self.allows_changes()

    def allows_changes(self) -> bool:
        """Return whether this controller has led since the round began. Callable from any thread."""
        term = self._round
        return term is not None and term is self._term and self._clock() < term.ends

    def acquire_or_renew(self) -> None:
        """Acquire or renew the Lease, unless another controller holds it. Raises ApiError and Unreachable."""
        began = self._clock()
        lease = find_object(self._api, f"{self._path}/{self._name}")
        spec: dict[str, Any] = dict((lease or {}).get("spec") or {})
        if spec.get("holderIdentity") != self._identity:
            self._term = None
            if lease is not None and self._is_held(lease, spec):
                return
            transitions = spec.get("leaseTransitions", -1) + 1
            spec |= {"acquireTime": format_microseconds(datetime.now(UTC)), "leaseTransitions": transitions}
        spec |= {"holderIdentity": self._identity, "leaseDurationSeconds": LEASE_SECONDS}
        if self._write_lease(lease, spec):
            if self._term is None:
                self._term = _Term(began + DEADLINE_SECONDS)
                self._acquired()
            self._term.ends = began + DEADLINE_SECONDS

    def _is_held(self, lease: Object, spec: Object) -> bool:
        """Return whether the Lease's holder may still act. Ignore `renewTime`, because clocks differ."""
        version = str(lease["metadata"]["resourceVersion"])
        if self._observed[0] != version:
            self._observed = version, self._clock()
        is_fresh = self._clock() - self._observed[1] < spec.get("leaseDurationSeconds", LEASE_SECONDS)
        return bool(spec.get("holderIdentity")) and is_fresh

    def _write_lease(self, stored: Object | None, spec: Object) -> bool:
        metadata = {"name": self._name, "namespace": self._namespace}
        lease = stored or {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata}
        renewed = {**spec, "renewTime": format_microseconds(datetime.now(UTC))}
        return write_object(self._api, self._path, stored, {**lease, "spec": renewed}) is not None

    def release(self) -> None:
        """Stop acting, and let another controller take over at once."""
        self._term = None
        lease = find_object(self._api, f"{self._path}/{self._name}")
        if lease is not None and lease["spec"].get("holderIdentity") == self._identity:
            self._write_lease(lease, {**lease["spec"], "holderIdentity": ""})

    def start(self, acquired: Callable[[], None]) -> Heart:
        """Start the renewals, and return their heartbeat. `acquired` is called when this controller becomes the leader."""
        self._acquired = acquired
        self._thread.start()
        return self._heart

    def stop(self) -> None:
        """End the renewals and release the Lease."""
        self._is_stopping.set()
        self._thread.join()

    def _renew_until_stopped(self) -> None:
        while not self._is_stopping.is_set():
            self._heart.beat()
            self._report_failure(self.acquire_or_renew)
            self._is_stopping.wait(RENEW_SECONDS)
        self._report_failure(self.release)

    def _report_failure(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # the term ends by itself
            print(f"lease {self._name}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
