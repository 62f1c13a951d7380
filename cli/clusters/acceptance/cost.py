"""Hourly cost of a stack: now, and the maximum during an acceptance run. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from infra.cost.prices import Price, snapshot

EKS = "EKS"
NOT_INCLUDED = "without NAT gateways, volumes, file systems, addresses, traffic and taxes"


def _usd(price: Price | None) -> float | None:
    return None if price is None else float(price.usd)


@dataclass(frozen=True)
class Bill:
    """Price of instances and, if there is one, of an EKS control plane."""

    region: str
    instances: Mapping[str, int]
    """Instance type -> number of instances."""
    eks: bool

    @property
    def unknown(self) -> list[str]:
        """Instance types whose price is unknown, and `EKS` if the price of the control plane is unknown."""
        lacking = sorted(one for one, number in self.instances.items() if number and self._price(one) is None)
        return [*lacking, EKS] if self.eks and self._eks is None else lacking

    @property
    def known(self) -> float:
        """Sum of the known prices."""
        listed = sum((self._price(one) or 0.0) * number for one, number in self.instances.items())
        return listed + (self._eks or 0.0 if self.eks else 0.0)

    def plus(self, more: Mapping[str, int]) -> "Bill":
        total = {one: self.instances.get(one, 0) + more.get(one, 0) for one in {**self.instances, **more}}
        return Bill(self.region, total, self.eks)

    def _price(self, instance_type: str) -> float | None:
        return _usd(snapshot(self.region).on_demand(instance_type))

    @property
    def _eks(self) -> float | None:
        return _usd(snapshot(self.region).item("eks-cluster-hour"))

    @property
    def date(self) -> str:
        """Date of the oldest price."""
        prices = snapshot(self.region)
        return min((price.date for one in self.instances if (price := prices.on_demand(one))), default=prices.date)

    def __str__(self) -> str:
        if not self.unknown:
            return f"{self.known:.2f} USD/h"
        missing = ", ".join(one if one == EKS else f"{self.instances[one]} x {one}" for one in self.unknown)
        known = f"{self.known:.2f} USD/h and " if self.known else ""
        return f"unknown: {known}the price of {missing} in {self.region}"

    def lines(self) -> list[str]:
        """Return one line per kind of resource."""
        control_plane = "unknown" if self._eks is None else f"{self._eks:.2f} USD/h"
        found = [f"EKS control plane: {control_plane}"] if self.eks else []
        for name, number in sorted(self.instances.items()):
            price = self._price(name)
            each = "unknown" if price is None else f"{price * number:.2f} USD/h"
            found += [f"{number} x {name}: {each}"] if number else []
        return found

    def as_json(self) -> dict[str, object]:
        return {
            "usdPerHour": None if self.unknown else round(self.known, 4),
            "unknown": self.unknown,
            "instances": dict(sorted(self.instances.items())),
        }


@dataclass(frozen=True)
class Cost:
    """Current cost, and maximum cost during an acceptance run."""

    now: Bill
    most: Bill
    starts: Sequence[str] = ()
    """Sentences that describe the nodes that the run starts."""

    def text(self) -> str:
        return f"now {self.now}; during acceptance at most {self.most}"

    def lines(self) -> list[str]:
        """Return the lines that the verb prints before it asks for confirmation."""
        return [
            f"cost of what runs: {self.now}",
            *(f"  {line}" for line in self.now.lines()),
            f"at most during acceptance: {self.most}",
            *(f"  {line}" for line in self.starts),
            f"  on-demand prices of {self.now.date}, {NOT_INCLUDED}; see infra/cost/prices.json for the sources",
        ]

    def as_json(self) -> dict[str, object]:
        return {
            "text": self.text(),
            "now": self.now.as_json(),
            "most": self.most.as_json(),
            "pricesOf": self.now.date,
            "notIncluded": NOT_INCLUDED,
        }
