"""The cluster's members (head node and Auto Scaling group), as reported by AWS and never by the nodes themselves."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpumpi_join.cluster_file import MASTER, WORKER, ClusterFile

LEAVING = ("Terminating", "Terminated", "Detaching", "Detached")
"""Prefixes of lifecycle states: https://docs.aws.amazon.com/autoscaling/ec2/userguide/ec2-auto-scaling-lifecycle.html"""
STACK_TAG, ROLE_TAG = "gpumpi:stack", "gpumpi:role"


@dataclass(frozen=True)
class Member:
    """An instance of the cluster."""

    instance_id: str
    role: str
    address: str
    """Private address as EC2 reports it."""
    hostname: str
    """First label of the private DNS name that EC2 reports; empty until the instance runs."""
    addresses: tuple[str, ...]
    """Private addresses of all network interfaces of the instance. Linux may connect to other nodes from any of them."""
    launched: str
    """Launch time in ISO format. If there are two head nodes, the newer one is used."""


def find_members(cluster: ClusterFile, autoscaling: Any, ec2: Any) -> dict[str, Member]:
    """Return all members by instance ID. Raises botocore's ClientError; the caller then keeps the previous members."""
    workers = _list_group_instances(autoscaling, cluster.auto_scaling_group)
    head_node = [
        {"Name": f"tag:{STACK_TAG}", "Values": [cluster.stack]},
        {"Name": f"tag:{ROLE_TAG}", "Values": [MASTER]},
        {"Name": "instance-state-name", "Values": ["pending", "running"]},
    ]
    candidates = [parse_member(instance, MASTER) for instance in _describe_instances(ec2, Filters=head_node)]
    newest = max((candidate for candidate in candidates if candidate), key=lambda candidate: candidate.launched, default=None)
    members = {newest.instance_id: newest} if newest else {}
    if workers:
        filters = [{"Name": "instance-id", "Values": workers}]  # use a filter, because InstanceIds fails for unknown IDs
        for instance in _describe_instances(ec2, Filters=filters):
            member = parse_member(instance, WORKER)
            if member and instance["State"]["Name"] in ("pending", "running"):
                members[member.instance_id] = member
    return members


def find_bucket_writer_role_id(cluster: ClusterFile, member: Member) -> str:
    """Return the ID of the role that allows an instance to write to the bucket."""
    return cluster.master_role_id if member.role == MASTER else cluster.worker_role_id


def _list_group_instances(autoscaling: Any, name: str) -> list[str]:
    ids: list[str] = []
    for page in autoscaling.get_paginator("describe_auto_scaling_groups").paginate(AutoScalingGroupNames=[name]):
        for group in page["AutoScalingGroups"]:
            ids += [node["InstanceId"] for node in group["Instances"] if not node["LifecycleState"].startswith(LEAVING)]
    return ids


def _describe_instances(ec2: Any, **query: Any) -> list[Mapping[str, Any]]:
    pages = ec2.get_paginator("describe_instances").paginate(**query)
    return [instance for page in pages for reservation in page["Reservations"] for instance in reservation["Instances"]]


def parse_member(described: Mapping[str, Any], role: str) -> Member | None:
    address = described.get("PrivateIpAddress")
    if not address:
        return None
    hostname = described.get("PrivateDnsName", "").split(".")[0]
    private = [ip for interface in described.get("NetworkInterfaces", ()) for ip in interface.get("PrivateIpAddresses", ())]
    addresses = tuple(dict.fromkeys([address, *(ip["PrivateIpAddress"] for ip in private)]))
    return Member(described["InstanceId"], role, address, hostname, addresses, str(described["LaunchTime"]))
