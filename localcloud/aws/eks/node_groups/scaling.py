"""Creation, resizing and deletion of a node group's Auto Scaling group.

https://docs.aws.amazon.com/eks/latest/userguide/managed-node-groups.html
"""

from typing import Any

from localcloud.aws.autoscaling import group_calls, scheduled_actions
from localcloud.aws.call import backend_of
from localcloud.aws.ec2.capacity_reservations import list_reservations
from localcloud.aws.eks.node_groups import launch, nodes
from localcloud.aws.eks.state import Cluster, NodeGroup, Record

TERMINATION_POLICIES = ["AllocationStrategy", "OldestLaunchTemplate", "OldestInstance"]
GRACE_SECONDS = 15


def create_auto_scaling_group(cluster: Cluster, group: NodeGroup, name: str) -> None:
    """Create the Auto Scaling group, with as many of the desired instances as EC2 can launch."""
    record, sizes = group.record, group.record["scalingConfig"]
    owned = {
        "k8s.io/cluster-autoscaler/enabled": "true",
        f"k8s.io/cluster-autoscaler/{cluster.name}": "owned",
        f"kubernetes.io/cluster/{cluster.name}": "owned",
        **launch.build_tags(cluster, group.name),
    }
    params: Record = {
        "AutoScalingGroupName": name,
        "MinSize": sizes["minSize"],
        "MaxSize": sizes["maxSize"],
        "DesiredCapacity": sizes["desiredSize"],
        "VPCZoneIdentifier": ",".join(record["subnets"]),
        "HealthCheckType": "EC2",
        "HealthCheckGracePeriod": GRACE_SECONDS,
        "TerminationPolicies": TERMINATION_POLICIES,
        "CapacityRebalance": record["capacityType"] == "SPOT",
        "Tags": [{"Key": key, "Value": value, "PropagateAtLaunch": True} for key, value in owned.items()],
        **_build_launch_source(cluster, group, group.types),
    }
    autoscaling = backend_of("autoscaling", cluster.account, cluster.region)
    group_calls.create_group(autoscaling, params)
    if record["capacityType"] == "CAPACITY_BLOCK":
        _schedule_block_scale_down(autoscaling, cluster, group, name)


def _schedule_block_scale_down(autoscaling: Any, cluster: Cluster, group: NodeGroup, name: str) -> None:
    """Schedule a scale-down before the end of the launch template's Capacity Block."""
    specification = group.template.data.get("CapacityReservationSpecification") or {}
    block_id = (specification.get("CapacityReservationTarget") or {}).get("CapacityReservationId")
    for block in list_reservations(backend_of("ec2", cluster.account, cluster.region)):
        if block.id == block_id and block.end is not None:
            scheduled_actions.schedule_block_end(autoscaling, name, block.id, block.end)


def resize_groups(cluster: Cluster, group: NodeGroup, sizes: Record) -> None:
    for scaling_group in nodes.list_auto_scaling_groups(cluster, group):
        group_calls.update_group(
            scaling_group, {"MinSize": sizes["minSize"], "MaxSize": sizes["maxSize"], "DesiredCapacity": sizes["desiredSize"]}
        )


def use_latest_template(cluster: Cluster, group: NodeGroup, types: list[str]) -> None:
    """Launch new instances from the default version of EKS's template. Running instances stay unchanged."""
    for scaling_group in nodes.list_auto_scaling_groups(cluster, group):
        group_calls.update_group(scaling_group, _build_launch_source(cluster, group, types))


def scale_to_zero(cluster: Cluster, group: NodeGroup) -> None:
    for scaling_group in nodes.list_auto_scaling_groups(cluster, group):
        group_calls.update_group(scaling_group, {"MinSize": 0, "MaxSize": 0, "DesiredCapacity": 0})


def delete_auto_scaling_groups(cluster: Cluster, group: NodeGroup) -> None:
    for scaling_group in nodes.list_auto_scaling_groups(cluster, group):
        group_calls.delete_group(scaling_group, force=True)


def _build_launch_source(cluster: Cluster, group: NodeGroup, types: list[str]) -> Record:
    """Return EKS's launch template, with the instance types as overrides. For a Capacity Block, which does not support
    overrides, return only the template."""
    template = backend_of("ec2", cluster.account, cluster.region).launch_templates[group.template_id]
    specification = {"LaunchTemplateId": template.id, "Version": str(template.default_version_number)}
    if group.record["capacityType"] == "CAPACITY_BLOCK":
        return {"LaunchTemplate": specification}
    spot = group.record["capacityType"] == "SPOT"
    return {
        "MixedInstancesPolicy": {
            "LaunchTemplate": {
                "LaunchTemplateSpecification": specification,
                "Overrides": [{"InstanceType": name} for name in types],
            },
            "InstancesDistribution": {
                "OnDemandAllocationStrategy": "prioritized",
                "OnDemandBaseCapacity": 0,
                "OnDemandPercentageAboveBaseCapacity": 0 if spot else 100,
                "SpotAllocationStrategy": "price-capacity-optimized",
            },
        }
    }
