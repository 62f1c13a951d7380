"""Resources that launch nodes, and the EKS cluster that they join."""

from functools import partial
from typing import Final

from infra.facts.account_limits import CLUSTERS, INTERFACES
from infra.facts.model import Facts
from infra.inventory.entry import Charge, Entry, KeyUse, actions, count_one
from infra.inventory.lookups import (
    find_access_entry,
    find_addon,
    find_auto_scaling_group,
    find_by_tags,
    find_cluster,
    find_instance,
    find_node_group,
    find_pod_identity,
)
from infra.inventory.nodes import HEAD_NODE, LAUNCH_TEMPLATE, NODE_GROUP, WORKERS, launched_nodes
from infra.inventory.resources import Inventory, Resource

ec2 = partial(actions, "ec2")
autoscaling = partial(actions, "autoscaling")
eks = partial(actions, "eks")
CLUSTER: Final = "aws:eks/cluster:Cluster"
EC2_SERVICE: Final = "ec2.amazonaws.com"

CONTROL_PLANE_INTERFACES: Final = 4
"""Maximum number of interfaces that EKS creates for a control plane:
https://docs.aws.amazon.com/eks/latest/userguide/network-reqs.html"""

ROLLING: Final = frozenset({"launchTemplate", "version", "releaseVersion", "amiType"})
"""Inputs of a node group. A change to any of them starts a rolling update of the group's nodes."""


def _count_interfaces(cluster: Resource) -> int:
    return min(CONTROL_PLANE_INTERFACES, len(cluster.inputs["vpcConfig"]["subnetIds"]))


def _roles_of_group(group: Resource, inventory: Inventory) -> tuple[str, ...]:
    """Return the services that launch the nodes: https://docs.aws.amazon.com/eks/latest/userguide/managed-node-groups.html"""
    spot = ("spot.amazonaws.com",) if launched_nodes(group, inventory).market == "spot" else ()
    eks_role = ("eks-nodegroup.amazonaws.com",) if group.type == NODE_GROUP else ()
    return ("autoscaling.amazonaws.com", *eks_role, *spot)


def _has_cluster(resource: Resource, facts: Facts) -> bool:
    return facts.existing.cluster_version is not None


ENTRIES: Final = {
    "aws:ec2/placementGroup:PlacementGroup": Entry(
        create=ec2("CreatePlacementGroup CreateTags"),
        read=ec2("DescribePlacementGroups"),
        update=ec2("CreateTags DeleteTags"),
        delete=ec2("DeletePlacementGroup"),
        lookup=find_by_tags("describe_placement_groups", "PlacementGroups", "GroupName"),
    ),
    LAUNCH_TEMPLATE: Entry(
        create=ec2("CreateLaunchTemplate CreateTags RunInstances"),
        read=ec2("DescribeLaunchTemplates DescribeLaunchTemplateVersions"),
        update=ec2("CreateLaunchTemplateVersion CreateTags DeleteTags ModifyLaunchTemplate"),
        delete=ec2("DeleteLaunchTemplate"),
        lookup=find_by_tags("describe_launch_templates", "LaunchTemplates", "LaunchTemplateId"),
    ),
    HEAD_NODE: Entry(
        create=ec2("RunInstances CreateTags MonitorInstances"),
        read=ec2(
            "DescribeInstances DescribeInstanceAttribute DescribeInstanceCreditSpecifications DescribeInstanceTypes "
            "DescribeTags DescribeVolumes"
        ),
        update=ec2("CreateTags DeleteTags ModifyInstanceAttribute ModifyInstanceMetadataOptions StartInstances StopInstances"),
        delete=ec2("TerminateInstances"),
        launches_nodes=True,
        lookup=find_instance,
        replaced="running jobs fail, and files outside the shared folder are deleted",
        deleted="running jobs fail",
    ),
    WORKERS: Entry(
        create=autoscaling("CreateAutoScalingGroup PutLifecycleHook UpdateAutoScalingGroup"),
        read=autoscaling("DescribeAutoScalingGroups DescribeLifecycleHooks"),
        update=autoscaling("CreateOrUpdateTags DeleteTags DescribeScalingActivities UpdateAutoScalingGroup"),
        delete=autoscaling("DeleteAutoScalingGroup UpdateAutoScalingGroup"),
        service_roles=_roles_of_group,
        launches_nodes=True,
        lookup=find_auto_scaling_group,
        replaced="all workers are terminated: running jobs fail",
        deleted="all workers are terminated: running jobs fail",
        rolling=ROLLING,
    ),
    "aws:autoscaling/tag:Tag": Entry(
        create=autoscaling("CreateOrUpdateTags"),
        read=autoscaling("DescribeTags"),
        update=autoscaling("CreateOrUpdateTags DeleteTags"),
        delete=autoscaling("DeleteTags"),
    ),
    "aws:autoscaling/schedule:Schedule": Entry(
        create=autoscaling("PutScheduledUpdateGroupAction"),
        read=autoscaling("DescribeScheduledActions"),
        update=autoscaling("PutScheduledUpdateGroupAction DeleteScheduledAction"),
        delete=autoscaling("DeleteScheduledAction"),
    ),
    CLUSTER: Entry(
        create=eks("CreateCluster TagResource"),
        read=eks("DescribeCluster"),
        update=eks("AssociateEncryptionConfig DescribeUpdate TagResource UntagResource UpdateClusterConfig UpdateClusterVersion"),
        delete=eks("DeleteCluster"),
        passes_roles_to="eks.amazonaws.com",
        key_use=lambda cluster: KeyUse(("kms:CreateGrant", "kms:DescribeKey")),
        service_roles=lambda cluster, inventory: ("eks.amazonaws.com",),
        charges=lambda cluster: (Charge("EKS control plane", "control plane", "eks-cluster-hour"),),
        units={CLUSTERS: count_one, INTERFACES: _count_interfaces},
        exists=_has_cluster,
        lookup=find_cluster,
        replaced="all jobs are deleted",
        deleted="all jobs are deleted",
    ),
    NODE_GROUP: Entry(
        create=eks("CreateNodegroup TagResource"),
        read=eks("DescribeNodegroup"),
        update=eks("DescribeUpdate TagResource UntagResource UpdateNodegroupConfig UpdateNodegroupVersion"),
        delete=eks("DeleteNodegroup"),
        passes_roles_to="eks.amazonaws.com",
        service_roles=_roles_of_group,
        launches_nodes=True,
        lookup=find_node_group,
        replaced="EKS drains its nodes: running jobs restart on the new ones",
        deleted="EKS drains its nodes: running jobs lose them",
        rolling=ROLLING,
    ),
    "aws:eks/addon:Addon": Entry(
        create=eks("CreateAddon TagResource"),
        read=eks("DescribeAddon"),
        update=eks("DescribeUpdate TagResource UntagResource UpdateAddon"),
        delete=eks("DeleteAddon"),
        lookup=find_addon,
    ),
    "aws:eks/accessEntry:AccessEntry": Entry(
        create=eks("CreateAccessEntry TagResource"),
        read=eks("DescribeAccessEntry"),
        update=eks("TagResource UntagResource UpdateAccessEntry"),
        delete=eks("DeleteAccessEntry"),
        lookup=find_access_entry,
    ),
    "aws:eks/accessPolicyAssociation:AccessPolicyAssociation": Entry(
        create=eks("AssociateAccessPolicy"),
        read=eks("ListAssociatedAccessPolicies"),
        update=eks("DisassociateAccessPolicy"),
        delete=eks("DisassociateAccessPolicy"),
    ),
    "aws:eks/podIdentityAssociation:PodIdentityAssociation": Entry(
        create=eks("CreatePodIdentityAssociation TagResource"),
        read=eks("DescribePodIdentityAssociation"),
        update=eks("TagResource UntagResource UpdatePodIdentityAssociation"),
        delete=eks("DeletePodIdentityAssociation"),
        passes_roles_to="pods.eks.amazonaws.com",
        lookup=find_pod_identity,
    ),
}
