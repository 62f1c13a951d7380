"""Resources that launch nodes, and the EKS cluster that they join."""

from typing import Final

from infra.facts.account_limits import CLUSTERS, INTERFACES
from infra.inventory.entry import Charge, Entry, KeyUse, count_as_one
from infra.inventory.lookups import (
    create_describe_lookup,
    create_list_lookup,
    create_tag_lookup,
    find_auto_scaling_group,
    find_instance,
)
from infra.inventory.nodes import HEAD_NODE, LAUNCH_TEMPLATE, NODE_GROUP, WORKERS, read_launched_nodes
from infra.inventory.resources import Inventory, Resource

CLUSTER: Final = "aws:eks/cluster:Cluster"

CONTROL_PLANE_INTERFACES: Final = 4
"""Maximum number of interfaces that EKS creates for a control plane:
https://docs.aws.amazon.com/eks/latest/userguide/network-reqs.html"""

ROLLING: Final = frozenset({"launchTemplate", "version", "releaseVersion", "amiType"})
"""Inputs of a node group. A change to any of them starts a rolling update of the group's nodes."""

POD_IDENTITY: Final = create_list_lookup(
    *("eks", "list_pod_identity_associations", "associations", "associationId"),
    arguments=("clusterName", "namespace", "serviceAccount"),
    same=(),
)


def _count_interfaces(cluster: Resource) -> int:
    return min(CONTROL_PLANE_INTERFACES, len(cluster.inputs["vpcConfig"]["subnetIds"]))


def _list_launching_services(group: Resource, inventory: Inventory) -> tuple[str, ...]:
    """Return the services that launch the nodes: https://docs.aws.amazon.com/eks/latest/userguide/managed-node-groups.html"""
    spot = ("spot.amazonaws.com",) if read_launched_nodes(group, inventory).market == "spot" else ()
    eks_role = ("eks-nodegroup.amazonaws.com",) if group.type == NODE_GROUP else ()
    return ("autoscaling.amazonaws.com", *eks_role, *spot)


ENTRIES: Final = {
    "aws:ec2/placementGroup:PlacementGroup": Entry(
        lookup=create_tag_lookup("describe_placement_groups", "PlacementGroups", "GroupName")
    ),
    LAUNCH_TEMPLATE: Entry(lookup=create_tag_lookup("describe_launch_templates", "LaunchTemplates", "LaunchTemplateId")),
    HEAD_NODE: Entry(
        launches_nodes=True,
        lookup=find_instance,
        replaced="running jobs fail, and files outside the shared folder are deleted",
        deleted="running jobs fail",
    ),
    WORKERS: Entry(
        service_roles=_list_launching_services,
        launches_nodes=True,
        lookup=find_auto_scaling_group,
        replaced="all workers are terminated: running jobs fail",
        deleted="all workers are terminated: running jobs fail",
        rolling=ROLLING,
    ),
    "aws:autoscaling/tag:Tag": Entry(),
    "aws:autoscaling/schedule:Schedule": Entry(),
    CLUSTER: Entry(
        passes_roles_to="eks.amazonaws.com",
        key_use=lambda cluster: KeyUse(("kms:CreateGrant", "kms:DescribeKey")),
        service_roles=lambda cluster, inventory: ("eks.amazonaws.com",),
        charges=lambda cluster: (Charge("EKS control plane", "control plane", "eks-cluster-hour"),),
        units={CLUSTERS: count_as_one, INTERFACES: _count_interfaces},
        exists=lambda cluster, facts: facts.existing.cluster_version is not None,
        lookup=create_describe_lookup("eks", "describe_cluster", "cluster", "name"),
        replaced="all jobs are deleted",
        deleted="all jobs are deleted",
    ),
    NODE_GROUP: Entry(
        passes_roles_to="eks.amazonaws.com",
        service_roles=_list_launching_services,
        launches_nodes=True,
        lookup=create_describe_lookup("eks", "describe_nodegroup", "nodegroup", "clusterName", "nodegroupName=nodeGroupName"),
        replaced="EKS drains its nodes: running jobs restart on the new ones",
        deleted="EKS drains its nodes: running jobs lose them",
        rolling=ROLLING,
    ),
    "aws:eks/addon:Addon": Entry(lookup=create_describe_lookup("eks", "describe_addon", "addon", "clusterName", "addonName")),
    "aws:eks/accessEntry:AccessEntry": Entry(
        lookup=create_describe_lookup("eks", "describe_access_entry", "", "clusterName", "principalArn")
    ),
    "aws:eks/accessPolicyAssociation:AccessPolicyAssociation": Entry(),
    "aws:eks/podIdentityAssociation:PodIdentityAssociation": Entry(passes_roles_to="pods.eks.amazonaws.com", lookup=POD_IDENTITY),
}
