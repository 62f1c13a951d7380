"""Leader election: only the controller that holds the Lease acts.

https://kubernetes.io/docs/concepts/architecture/leases/
"""

from datetime import datetime, timedelta
from typing import Any

from . import moments
from .api import Api, Object, find_object, write_object

LEASE_SECONDS = 15
RENEW_SECONDS = 5


def _format_microseconds(when: datetime) -> str:
    return when.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def build_renewed_spec(lease: Object | None, identity: str, now: datetime) -> Object | None:
    """Return the spec that makes or keeps this controller the leader; None while another controller leads."""
    spec: dict[str, Any] = dict((lease or {}).get("spec") or {})
    holder, renewed = spec.get("holderIdentity"), spec.get("renewTime")
    ends = moments.parse_time(renewed) + timedelta(seconds=LEASE_SECONDS) if renewed else now
    if holder and holder != identity and ends > now:
        return None
    taken = (
        {}
        if holder == identity
        else {"acquireTime": _format_microseconds(now), "leaseTransitions": spec.get("leaseTransitions", -1) + 1}
    )
    return {
        **spec,
        **taken,
        "holderIdentity": identity,
        "leaseDurationSeconds": LEASE_SECONDS,
        "renewTime": _format_microseconds(now),
    }


class Election:
    """The Lease for which a cluster's controllers compete."""

    def __init__(self, api: Api, namespace: str, name: str, identity: str) -> None:
        self._api, self._identity, self._name, self._namespace = api, identity, name, namespace
        self._path = f"apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"

    def holds(self, now: datetime) -> bool:
        """Acquire or renew the Lease. Returns whether this controller is the leader; raises Unreachable."""
        lease = find_object(self._api, f"{self._path}/{self._name}")
        spec = build_renewed_spec(lease, self._identity, now)
        return spec is not None and self._write_lease(lease, spec)

    def _write_lease(self, stored: Object | None, spec: Object) -> bool:
        metadata = {"name": self._name, "namespace": self._namespace}
        lease = stored or {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata}
        return write_object(self._api, self._path, stored, {**lease, "spec": spec}) is not None

    def release(self, now: datetime) -> None:
        """Let another controller take over at once."""
        lease = self._api.call("GET", f"{self._path}/{self._name}")
        if lease["spec"].get("holderIdentity") == self._identity:
            self._write_lease(lease, {**lease["spec"], "holderIdentity": "", "renewTime": _format_microseconds(now)})
