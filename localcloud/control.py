"""Client for the local AWS's control API (`/local-cloud/...`, see localcloud/aws/control.py)."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.error import HTTPError
from urllib.request import ProxyHandler, Request, build_opener

TIMEOUT_SECONDS = 120.0
TOKEN_VARIABLE = "GPUMPI_CONTROL_TOKEN"
"""Environment variable for programs of the local cloud that need the token: other users can read command lines."""
_OPENER = build_opener(ProxyHandler({}))
"""HTTP client that bypasses any proxy, because the server is on this machine."""


class ControlError(Exception):
    """The local AWS rejected the request. The message contains the reason."""


@dataclass(frozen=True)
class Control:
    """Client that inspects the account of one local AWS and injects faults."""

    url: str
    token: str = field(repr=False)
    """Secret access key of the local cloud, or the token of another listening socket."""

    def reset(self) -> None:
        """Empty the account."""
        self._send_request("POST", "reset")

    def problems(self) -> list[str]:
        """Return the failures of the local cloud's own components since the last reset."""
        messages: list[str] = self._send_request("GET", "problems", seconds=60.0)
        return messages

    def leftovers(self) -> list[dict[str, Any]]:
        """Return all resources in the account except the default ones."""
        resources: list[dict[str, Any]] = self._send_request("GET", "inventory")
        return resources

    def set_baseline(self) -> None:
        """Make the account's current content the baseline. `leftovers` then reports only differences from this baseline."""
        self._send_request("PUT", "inventory")

    def reset_call_counts(self) -> None:
        """Reset the call counters."""
        self._send_request("DELETE", "calls")

    def calls(self) -> dict[str, Any]:
        """Return the number of `reads` and `writes`, and the number of calls per operation."""
        counts: dict[str, Any] = self._send_request("GET", "calls")
        return counts

    def writes(self) -> dict[str, int]:
        """Return the number of calls to each mutating operation, keyed by `service.Operation`."""
        return {name: entry["calls"] for name, entry in self.calls()["operations"].items() if not entry["read"]}

    def plan_fault(self, **fault: Any) -> None:
        """Make matching calls fail. The keyword arguments are the fields of faults.Fault, except `id`."""
        self._send_request("POST", "faults", fault)

    def faults(self) -> list[dict[str, Any]]:
        """Return the planned faults that are still active."""
        planned: list[dict[str, Any]] = self._send_request("GET", "faults")
        return planned

    def clear_faults(self) -> None:
        self._send_request("DELETE", "faults")

    def delay_factor(self) -> float:
        return float(self._send_request("GET", "delays")["factor"])

    def set_delays(self, factor: float, *only: str) -> None:
        """Set the delay factor: 0 disables delays, and 1 makes operations take as long as on AWS.

        If `only` lists kinds of operations, all other kinds have no delay.
        """
        self._send_request("PUT", "delays", {"factor": factor, "only": only})

    def now(self) -> datetime:
        """Return the date and time in the local AWS."""
        return datetime.fromisoformat(self._send_request("GET", "clock")["now"])

    def advance_clock(self, moment: datetime) -> None:
        """Advance the clock of the local AWS to this date and time."""
        self._send_request("POST", "clock", {"seconds": (moment - self.now()).total_seconds()})

    def create_prerequisites(self, region: str, values: Mapping[str, Any]) -> list[str]:
        """Create the resources that a stack references but does not create. Return their names."""
        names: list[str] = self._send_request("POST", "prerequisites", {"region": region, "values": values})
        return names

    def put(self, path: str, body: Any) -> Any:
        """Seed values that only AWS can grant, such as quotas and capacity reservations."""
        return self._send_request("PUT", path, body)

    def post(self, path: str, body: Any, seconds: float = TIMEOUT_SECONDS) -> Any:
        return self._send_request("POST", path, body, seconds)

    def send(self, method: str, path: str, body: Any = None) -> Any:
        """Send any request to the control API."""
        return self._send_request(method, path, body)

    def _send_request(self, method: str, path: str, body: Any = None, seconds: float = TIMEOUT_SECONDS) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        request = Request(f"{self.url}/local-cloud/{path}", data, headers, method=method)
        try:
            with _OPENER.open(request, timeout=seconds) as response:
                return json.loads(response.read() or b"null")
        except HTTPError as error:
            raise ControlError(f"{method} /local-cloud/{path}: {error.read().decode(errors='replace').strip()}") from None
