"""Placement group of a pool."""

from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from infra.naming import COMPONENT, Naming


@dataclass(frozen=True)
class PlacementArgs:
    naming: Naming


class Placement(pulumi.ComponentResource):
    """Creates a cluster placement group, which places instances close together on the network, in one zone."""

    def __init__(self, name: str, args: PlacementArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(f"{COMPONENT}:Placement", name, None, opts)
        self._group = aws.ec2.PlacementGroup(
            name,
            strategy=aws.ec2.PlacementStrategy.CLUSTER,
            tags=args.naming.tags(Name=name),
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.register_outputs({"groupName": self.group_name})

    @property
    def group(self) -> pulumi.Resource:
        return self._group

    @property
    def group_name(self) -> pulumi.Output[str]:
        return self._group.name
