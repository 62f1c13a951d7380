"""Interface of the targets `eks` and `ec2`: rows, their cost, cleanup, and declarations of emulated devices."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any, Protocol

import typer

from cli import options
from cli.clusters.acceptance.report import Check, LeftOut
from infra.cost.prices import read_snapshot
from infra.jobs.smoke import Level
from infra.naming import EMULATED_DEVICES_FILE, EMULATED_LABEL

EKS = "EKS"
NOT_INCLUDED = "without NAT gateways, volumes, file systems, addresses, traffic and taxes"


@dataclass(frozen=True)
class Bill:
    """Price of instances and, if there is one, of an EKS control plane."""

    region: str
    instances: Mapping[str, int]
    """Maps each instance type to the number of instances."""
    eks: bool

    @cached_property
    def prices_by_part(self) -> dict[str, float | None]:
        """`EKS` or an instance type -> price per hour of all of its instances; None if the price is unknown."""
        prices = read_snapshot(self.region)
        numbers = {kind: number for kind, number in sorted(self.instances.items()) if number}
        listed = {
            **({EKS: prices.item_price("eks-cluster-hour")} if self.eks else {}),
            **{kind: prices.on_demand(kind) for kind in numbers},
        }
        return {kind: None if price is None else float(price.usd) * numbers.get(kind, 1) for kind, price in listed.items()}

    @property
    def unknown(self) -> list[str]:
        """Parts whose price is unknown."""
        return [kind for kind, price in self.prices_by_part.items() if price is None]

    @property
    def known_total(self) -> float:
        """Sum of the known prices."""
        return sum(price or 0.0 for price in self.prices_by_part.values())

    def plus(self, more: Mapping[str, int]) -> "Bill":
        total = {kind: self.instances.get(kind, 0) + more.get(kind, 0) for kind in {**self.instances, **more}}
        return Bill(self.region, total, self.eks)

    @property
    def date(self) -> str:
        """Date of the oldest price."""
        prices = read_snapshot(self.region)
        return min((price.date for kind in self.instances if (price := prices.on_demand(kind))), default=prices.date)

    def __str__(self) -> str:
        if not self.unknown:
            return f"{self.known_total:.2f} USD/h"
        missing = ", ".join(kind if kind == EKS else f"{self.instances[kind]} x {kind}" for kind in self.unknown)
        total = f"{self.known_total:.2f} USD/h and " if self.known_total else ""
        return f"unknown: {total}the price of {missing} in {self.region}"

    def lines(self) -> list[str]:
        """Return one line per kind of resource."""
        names = {EKS: "EKS control plane", **{kind: f"{number} x {kind}" for kind, number in self.instances.items()}}
        return [
            f"{names[kind]}: {'unknown' if price is None else f'{price:.2f} USD/h'}"
            for kind, price in self.prices_by_part.items()
        ]

    def as_json(self) -> dict[str, object]:
        return {
            "usdPerHour": None if self.unknown else round(self.known_total, 4),
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


def read_node_declarations(nodes: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return the declaration of each Kubernetes node with devices; empty unless all of them declare emulation."""
    labels = {node["metadata"]["name"]: node["metadata"].get("labels", {}).get(EMULATED_LABEL) for node in nodes}
    if not all(value == "true" for value in labels.values()):
        return {}
    return dict.fromkeys(labels, f"the nodes declare emulated devices: label {EMULATED_LABEL}")


def read_host_declarations(files: Mapping[str, str]) -> dict[str, str]:
    """Return the declaration of each host; empty unless all of them declare emulation.

    `files`: host -> content of `EMULATED_DEVICES_FILE`, which is empty if the file does not exist on that host.
    """
    declarations: dict[str, str] = {}
    for host, text in files.items():
        try:
            declared = json.loads(text)
        except ValueError:
            return {}
        if not isinstance(declared, dict) or not declared:
            return {}
        declarations[host] = (
            f"the hosts declare missing devices in {EMULATED_DEVICES_FILE}: {', '.join(map(str, declared.values()))}"
        )
    return declarations


def describe_devices(emulated: Mapping[str, str]) -> str:
    """Return the value of `devices` in the report: the declarations or, without any, `hardware`."""
    return "; ".join(dict.fromkeys(emulated.values())) or "hardware"


@dataclass(frozen=True)
class Options:
    """Command-line options that the rows use."""

    level: Annotated[Level, typer.Option(help="Highest level of the smoke test; each includes the previous one.")] = "nccl"
    pool: Annotated[
        str | None, typer.Option(help="EKS: pool for the smoke test.", show_default="a GPU pool, if possible with running nodes")
    ] = None
    scale_pool: Annotated[
        str | None, typer.Option(help="EKS: pool to scale from zero.", show_default="a pool with minSize 0, if possible empty")
    ] = None
    image: Annotated[
        str | None, typer.Option(help="EKS: image for the jobs, as in `smoke`.", show_default="this project's image")
    ] = None
    minutes: Annotated[float, typer.Option(min=1.0, help="Time limit of each job and each scaling step.")] = 45.0
    identity: options.Identity = None


@dataclass(frozen=True)
class Plan:
    """Rows of an acceptance run, and its cost."""

    checks: Sequence[Check]
    cost: Cost
    left_out: Sequence[LeftOut] = field(default=())


class Target(Protocol):
    """A running stack."""

    kind: str
    cluster: str
    region: str

    def list_foreign_jobs(self) -> list[str]:
        """Return descriptions of jobs and processes that use the cluster and that acceptance did not start."""

    def read_device_declarations(self) -> Mapping[str, str]:
        """Return the nodes' declarations about emulated devices."""

    def plan(self) -> Plan:
        """Return the rows in order, and their cost. Raises CommandError."""

    def clean_up(self) -> list[str]:
        """Delete everything that the run created, and restore the number of nodes. Return an error message for each
        leftover.
        """
