"""Tags Auto Scaling groups whose next node would be simulated, so that autoscalers know that no job could use the node.

https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/cloudprovider/aws/README.md#auto-discovery-setup
"""

from collections.abc import Callable
from typing import Any

from moto.ec2.models.instance_types import INSTANCE_TYPES

from localcloud.aws.call import backend_of
from localcloud.aws.eks.node_groups import nodes
from localcloud.aws.eks.state import Eks
from localcloud.aws.patching import get_state
from localcloud.kubernetes.nodes.labels import SIMULATED
from localcloud.kubernetes.nodes.machine import Kind

KEY = f"k8s.io/cluster-autoscaler/node-template/taint/{SIMULATED.key}"
VALUE = f"{SIMULATED.value}:{SIMULATED.effect}"


def update_template_tags(account: str, region: str, name: str, has_room: Callable[[Kind], bool]) -> None:
    """Set or remove the tag on a cluster's Auto Scaling groups. The caller must hold the local AWS's lock."""
    cluster = get_state(backend_of("eks", account, region), Eks).clusters[name]
    for node_group in cluster.node_groups.values():
        is_full = not has_room(_get_kind(node_group.types[0]))
        for group in nodes.list_auto_scaling_groups(cluster, node_group):
            if is_full != any(tag["Key"] == KEY for tag in group.tags):
                other_tags = [tag for tag in group.tags if tag["Key"] != KEY]
                group.tags = [*other_tags, _build_tag(group.name)] if is_full else other_tags


def _get_kind(instance_type: str) -> Kind:
    described: Any = INSTANCE_TYPES[instance_type]
    return "gpu" if "GpuInfo" in described else "cpu"


def _build_tag(group: str) -> dict[str, Any]:
    about = {"ResourceId": group, "ResourceType": "auto-scaling-group", "PropagateAtLaunch": False}
    return {**about, "Key": KEY, "Value": VALUE}
