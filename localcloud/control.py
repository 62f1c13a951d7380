"""Client of the local AWS's control API (`/local-cloud/...`, see localcloud/aws/control.py)."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.error import HTTPError
from urllib.request import ProxyHandler, Request, build_opener

TIMEOUT_SECONDS = 120.0
_OPENER = build_opener(ProxyHandler({}))
"""Bypass any proxy: the server is on this machine."""


class ControlError(Exception):
    """The local AWS rejected the request; the text says why."""


@dataclass(frozen=True)
class Control:
    """Inspects one local AWS and injects faults."""

    url: str

    def reset(self) -> None:
        """Empty the account."""
        self._ask("POST", "reset")

    def leftovers(self) -> list[dict[str, Any]]:
        """Return everything in the account beyond its defaults."""
        found: list[dict[str, Any]] = self._ask("GET", "inventory")
        return found

    def accept(self) -> None:
        """Make the account's current content the baseline; `leftovers` reports differences from it."""
        self._ask("PUT", "inventory")

    def forget_calls(self) -> None:
        """Reset the call counters."""
        self._ask("DELETE", "calls")

    def calls(self) -> dict[str, Any]:
        """Return `reads`, `writes` and the count per operation."""
        counts: dict[str, Any] = self._ask("GET", "calls")
        return counts

    def writes(self) -> dict[str, int]:
        """Return `service.Operation` -> number of calls, for operations that change something."""
        return {name: entry["calls"] for name, entry in self.calls()["operations"].items() if not entry["read"]}

    def plan_fault(self, **fault: Any) -> None:
        """Make a call fail: service, operation, code, message, times, match."""
        self._ask("POST", "faults", fault)

    def faults(self) -> list[dict[str, Any]]:
        """Return planned faults that have not happened yet."""
        planned: list[dict[str, Any]] = self._ask("GET", "faults")
        return planned

    def clear_faults(self) -> None:
        self._ask("DELETE", "faults")

    def delay_factor(self) -> float:
        return float(self._ask("GET", "delays")["factor"])

    def set_delays(self, factor: float, *only: str) -> None:
        """Set the delay factor. 0: no delays; 1: as long as AWS takes. With `only`, other kinds of durations take no time."""
        self._ask("PUT", "delays", {"factor": factor, "only": only})

    def grant(self, region: str, values: Mapping[str, Any]) -> list[str]:
        """Create the resources that a stack uses but does not create; return their names."""
        made: list[str] = self._ask("POST", "prerequisites", {"region": region, "values": values})
        return made

    def put(self, path: str, body: Any) -> Any:
        """Seed values that only AWS can grant: quotas, capacity reservations."""
        return self._ask("PUT", path, body)

    def post(self, path: str, body: Any) -> Any:
        return self._ask("POST", path, body)

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = Request(f"{self.url}/local-cloud/{path}", data=data, method=method)
        try:
            with _OPENER.open(request, timeout=TIMEOUT_SECONDS) as response:
                return json.loads(response.read() or b"null")
        except HTTPError as error:
            raise ControlError(f"{method} /local-cloud/{path}: {error.read().decode(errors='replace').strip()}") from None
