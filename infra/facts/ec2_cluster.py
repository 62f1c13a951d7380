"""What a plain EC2 cluster has already, and the AMI that its nodes start from."""

from typing import Any

from infra.facts.clients import Clients
from infra.facts.ec2 import subnet_zones
from infra.facts.instance_types import Architecture
from infra.facts.model import Ami, Existing, ExistingPool
from infra.naming import AMI_TAG, OPENMPI_TAG, PLACEMENT_TAG, POOL_TAG, STACK_TAG

PLAIN = "ec2"
"""Value of the AMI's tag: made for nodes of plain clusters, not of EKS."""


def existing(clients: Clients, stack: str) -> Existing:
    """The workers' group of a stack; empty where there is none."""
    wanted = [{"Name": f"tag:{STACK_TAG}", "Values": [stack]}]
    pages = clients.autoscaling.get_paginator("describe_auto_scaling_groups").paginate(Filters=wanted)
    # a group that is being deleted says so
    groups = [group for page in pages for group in page["AutoScalingGroups"] if "Status" not in group]
    tagged = [(group, {tag["Key"]: tag["Value"] for tag in group["Tags"]}) for group in groups]
    return next((_existing(clients, group, tags) for group, tags in tagged if POOL_TAG in tags), Existing())


def _existing(clients: Clients, group: Any, tags: dict[str, str]) -> Existing:
    subnets = sorted(group["VPCZoneIdentifier"].split(","))
    zones = subnet_zones(clients, set(subnets))
    template = _template(clients, group)
    found = sorted({zones[one] for one in subnets if one in zones})
    if not found:
        return Existing()
    pool = ExistingPool(
        zone=found[0],
        zones=tuple(found),
        min_size=group["MinSize"],
        desired_size=group["DesiredCapacity"],
        max_size=group["MaxSize"],
        subnet_ids=frozenset(subnets),
        instance_type=template.get("InstanceType"),
        placement=tags.get(PLACEMENT_TAG),
    )
    return Existing(pools={tags[POOL_TAG]: pool}, ami_id=template.get("ImageId"))


def _template(clients: Clients, group: Any) -> dict[str, Any]:
    """The launch template's data that the group's next instance gets."""
    named = group.get("LaunchTemplate")
    if not named:
        return {}
    asked = {"LaunchTemplateId": named["LaunchTemplateId"], "Versions": [named["Version"]]}
    versions = clients.ec2.describe_launch_template_versions(**asked)["LaunchTemplateVersions"]
    return dict(versions[0]["LaunchTemplateData"]) if versions else {}


def ami(clients: Clients, id: str) -> Ami | None:
    found = clients.ec2.describe_images(Filters=[{"Name": "image-id", "Values": [id]}])["Images"]
    return _ami(found[0]) if found else None


def newest_ami(clients: Clients, architecture: Architecture, openmpi: int) -> Ami | None:
    """The newest AMI of this account with the tags that Packer's templates set."""
    wanted = {f"tag:{AMI_TAG}": PLAIN, f"tag:{OPENMPI_TAG}": str(openmpi), "architecture": architecture, "state": "available"}
    filters = [{"Name": name, "Values": [value]} for name, value in wanted.items()]
    found = clients.ec2.describe_images(Owners=["self"], Filters=filters)["Images"]
    return _ami(max(found, key=lambda one: (one["CreationDate"], one["ImageId"]))) if found else None


def _ami(image: Any) -> Ami:
    return Ami(image["ImageId"], image["Architecture"], image["RootDeviceName"])
