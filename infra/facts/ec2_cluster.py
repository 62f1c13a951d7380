"""Queries about an EC2 cluster: its existing resources and the AMI of its nodes."""

from typing import Any

from infra.facts.clients import Clients, build_filter, read_pages
from infra.facts.ec2 import read_launch_template_data, read_subnet_zones
from infra.facts.instance_types import Architecture
from infra.facts.model import Ami, Existing, ExistingPool
from infra.naming import AMI_TAG, OPENMPI_TAG, PLACEMENT_TAG, POOL_TAG, SOURCE_TAG, STACK_TAG

EC2_CLUSTER_AMI = "ec2"
"""Tag value that marks AMIs for EC2 clusters, as opposed to EKS."""


def read_existing_cluster(clients: Clients, stack: str) -> Existing:
    """Return the Auto Scaling group of a stack's workers, if it exists."""
    own = [build_filter(f"tag:{STACK_TAG}", [stack])]
    groups = read_pages(clients.autoscaling, "describe_auto_scaling_groups", "AutoScalingGroups", Filters=own)
    # A group has a status only while it is being deleted.
    tagged = [(group, {tag["Key"]: tag["Value"] for tag in group["Tags"]}) for group in groups if "Status" not in group]
    return next((_convert_group(clients, group, tags) for group, tags in tagged if POOL_TAG in tags), Existing())


def _convert_group(clients: Clients, group: Any, tags: dict[str, str]) -> Existing:
    subnets = sorted(group["VPCZoneIdentifier"].split(","))
    zones = read_subnet_zones(clients, set(subnets))
    template = group.get("LaunchTemplate")  # the version that the group uses for its next instance
    data = read_launch_template_data(clients, template["LaunchTemplateId"], template["Version"]) if template else {}
    names = sorted({zones[subnet] for subnet in subnets if subnet in zones})
    if not names:
        return Existing()
    pool = ExistingPool(
        zone=names[0],
        zones=tuple(names),
        min_size=group["MinSize"],
        desired_size=group["DesiredCapacity"],
        max_size=group["MaxSize"],
        subnet_ids=frozenset(subnets),
        instance_type=data.get("InstanceType"),
        placement=tags.get(PLACEMENT_TAG),
        join_seconds=_read_join_timeout(clients, group["AutoScalingGroupName"]),
    )
    return Existing(pools={tags[POOL_TAG]: pool}, ami_id=data.get("ImageId"))


def _read_join_timeout(clients: Clients, group: str) -> int | None:
    """Return the timeout of the group's launch lifecycle hook. `pulumi up` creates the hook with the group and cannot
    change it later."""
    hooks = clients.autoscaling.describe_lifecycle_hooks(AutoScalingGroupName=group)["LifecycleHooks"]
    launching = [hook for hook in hooks if hook["LifecycleTransition"] == "autoscaling:EC2_INSTANCE_LAUNCHING"]
    return int(launching[0]["HeartbeatTimeout"]) if launching else None


def read_ami(clients: Clients, id: str) -> Ami | None:
    images = clients.ec2.describe_images(Filters=[build_filter("image-id", [id])])["Images"]
    return _convert_ami(images[0]) if images else None


def find_newest_ami(clients: Clients, architecture: Architecture, openmpi: int) -> Ami | None:
    """Return this account's newest AMI with the tags that the Packer templates set."""
    values = {
        f"tag:{AMI_TAG}": EC2_CLUSTER_AMI,
        f"tag:{OPENMPI_TAG}": str(openmpi),
        "architecture": architecture,
        "state": "available",
    }
    filters = [build_filter(name, [value]) for name, value in values.items()]
    images = clients.ec2.describe_images(Owners=["self"], Filters=filters)["Images"]
    return _convert_ami(max(images, key=lambda image: (image["CreationDate"], image["ImageId"]))) if images else None


def _convert_ami(image: Any) -> Ami:
    tags = {tag["Key"]: tag["Value"] for tag in image.get("Tags", [])}
    return Ami(image["ImageId"], image["Architecture"], image["RootDeviceName"], tags.get(SOURCE_TAG, ""))
