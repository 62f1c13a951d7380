"""Nodes that a registered node group, Auto Scaling group or instance launches, read from its launch template."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from infra.inventory.resources import Inventory, Resource
from infra.naming import POOL_TAG, SYSTEM_POOL

LAUNCH_TEMPLATE: Final = "aws:ec2/launchTemplate:LaunchTemplate"
NODE_GROUP: Final = "aws:eks/nodeGroup:NodeGroup"
WORKERS: Final = "aws:autoscaling/group:Group"
HEAD_NODE: Final = "aws:ec2/instance:Instance"

Market = Literal["on-demand", "spot", "capacity-block"]
MARKETS: Final[Mapping[str, Market]] = {
    "ON_DEMAND": "on-demand",
    "SPOT": "spot",
    "CAPACITY_BLOCK": "capacity-block",
}
"""Maps the capacity type of a node group to a market."""


@dataclass(frozen=True)
class Nodes:
    """The nodes of a pool, or the head node of an EC2 cluster."""

    pool: str
    """Name of the pool; empty for the head node."""
    instance_type: str
    market: Market
    minimum: int
    desired: int
    maximum: int
    volume_gib: int
    """Size of all volumes of a node."""
    interfaces: int
    """Number of network interfaces of a node."""

    @property
    def is_system(self) -> bool:
        return self.pool == SYSTEM_POOL


def read_launched_nodes(resource: Resource, inventory: Inventory) -> Nodes:
    """Return the nodes of a node group, an Auto Scaling group or an instance."""
    inputs = resource.inputs
    template = inventory.find_by_id(LAUNCH_TEMPLATE, inputs["launchTemplate"]["id"]).inputs
    market: Market = template.get("instanceMarketOptions", {}).get("marketType", "on-demand")
    match resource.type:
        case "aws:eks/nodeGroup:NodeGroup":
            scaling = inputs["scalingConfig"]
            pool, market = inputs["tags"][POOL_TAG], MARKETS[inputs["capacityType"]]
            sizes = scaling["minSize"], scaling["desiredSize"], scaling["maxSize"]
        case "aws:autoscaling/group:Group":
            pool = next(tag["value"] for tag in inputs["tags"] if tag["key"] == POOL_TAG)
            sizes = inputs["minSize"], inputs["desiredCapacity"], inputs["maxSize"]
        case _:
            pool, sizes = "", (1, 1, 1)
    minimum, desired, maximum = (int(size) for size in sizes)
    return Nodes(
        pool,
        template.get("instanceType") or inputs["instanceTypes"][0],
        market,
        minimum,
        desired,
        maximum,
        volume_gib=sum(int(mapping["ebs"]["volumeSize"]) for mapping in template["blockDeviceMappings"]),
        interfaces=len(template.get("networkInterfaces", ())) or 1,
    )
