"""Placement group of a pool."""

import pulumi
import pulumi_aws as aws

from infra.components.children import build_child_args
from infra.naming import COMPONENT, Naming


class Placement(pulumi.ComponentResource):
    """Creates a cluster placement group, which places instances close together on the network, in one zone."""

    def __init__(self, name: str, naming: Naming, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(f"{COMPONENT}:Placement", name, None, opts)
        strategy = aws.ec2.PlacementStrategy.CLUSTER
        self.group = aws.ec2.PlacementGroup(**build_child_args(self, naming, name), strategy=strategy)
        self.group_name = self.group.name
        self.register_outputs({"groupName": self.group_name})
