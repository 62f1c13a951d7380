"""Destroy the stack with Pulumi, then query AWS for leftover resources."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from cli.clusters.acceptance.aws_reads import ask
from cli.clusters.acceptance.checklist import Notebook
from cli.clusters.status.in_aws import EksAccount
from infra.facts import eks
from infra.facts.clients import Clients
from infra.naming import STACK_TAG, Naming

NAME: Final = "destroy leaves nothing"
GONE: Final = ("terminated", "shutting-down", "deleted", "deleting")
"""States in which a resource no longer costs anything. EC2 lists such resources for up to an hour."""
KINDS: Final = {
    "instance": ("describe_instances", "Reservations", "InstanceId"),
    "volume": ("describe_volumes", "Volumes", "VolumeId"),
    "network interface": ("describe_network_interfaces", "NetworkInterfaces", "NetworkInterfaceId"),
    "NAT gateway": ("describe_nat_gateways", "NatGateways", "NatGatewayId"),
    "address": ("describe_addresses", "Addresses", "AllocationId"),
    "endpoint": ("describe_vpc_endpoints", "VpcEndpoints", "VpcEndpointId"),
    "VPC": ("describe_vpcs", "Vpcs", "VpcId"),
    "security group": ("describe_security_groups", "SecurityGroups", "GroupId"),
    "placement group": ("describe_placement_groups", "PlacementGroups", "GroupName"),
    "launch template": ("describe_launch_templates", "LaunchTemplates", "LaunchTemplateId"),
}
"""Kind of resource -> EC2 operation that lists the resources, and the keys of the list and of the ID in the response.
AWS deletes a VPC only once it is empty, so a leftover VPC also reveals other leftovers.
"""


def check(clients: Clients, stack: str, destroy: Callable[[str], None], notes: Notebook) -> None:
    destroy(stack)
    notes.saw(f"pulumi destroy --stack {stack}", "succeeded")
    left = leftovers(clients, stack)
    searched = f"ec2 with tag {STACK_TAG}={stack}, eks, autoscaling, efs, fsx, logs, ecr, s3"
    notes.saw(searched, ", ".join(left) or "nothing is left")
    if recreated := recreated_logs(clients, stack):
        notes.saw(recreated, "recreated by EKS for its last audit logs; the next `pulumi up` deletes it")
    if left:
        notes.fail(f"left after destroy: {', '.join(left)}")


def leftovers(clients: Clients, stack: str) -> list[str]:
    """Return the stack's remaining resources. KMS keys stay scheduled for deletion, as documented."""
    region, naming = clients.region, Naming(stack)
    left = ask(region, lambda: _in_ec2(clients, stack))
    if ask(region, lambda: EksAccount(stack, region).cluster()):
        left.append(f"EKS cluster {naming.cluster}")
    groups = ask(region, lambda: list(clients.autoscaling.get_paginator("describe_auto_scaling_groups").paginate()))
    all_groups = [one for page in groups for one in page["AutoScalingGroups"]]
    left += [f"Auto Scaling group {one['AutoScalingGroupName']}" for one in all_groups if _is_of(one.get("Tags", ()), stack)]
    systems = [*_file_systems(region, clients.efs), *_file_systems(region, clients.fsx)]
    left += [f"file system {one['FileSystemId']}" for one in systems if _is_of(one.get("Tags", ()), stack)]
    left += [f"log group {name}" for name in _log_groups(clients, naming)]
    pages = ask(region, lambda: list(clients.ecr.get_paginator("describe_repositories").paginate()))
    names = [one["repositoryName"] for page in pages for one in page["repositories"]]
    left += [f"image repository {name}" for name in names if name.startswith(f"{naming.cluster}/")]
    buckets = ask(region, lambda: clients.s3.list_buckets()["Buckets"])
    return left + [f"bucket {one['Name']}" for one in buckets if one["Name"].startswith(f"{naming.name('keys')}-")]


def _file_systems(region: str, client: Any) -> list[Mapping[str, Any]]:
    pages = client.get_paginator("describe_file_systems").paginate()
    return ask(region, lambda: [system for page in pages for system in page["FileSystems"]])


def recreated_logs(clients: Clients, stack: str) -> str:
    """Return the log group that EKS has recreated after the cluster's deletion; empty if there is none."""
    name = Naming(stack).control_plane_logs
    return name if ask(clients.region, lambda: eks.has_leftover_logs(clients, name)) else ""


def _log_groups(clients: Clients, naming: Naming) -> list[str]:
    """Return the log groups with the names of the stack, except the one that EKS has recreated."""
    names = (naming.control_plane_logs, naming.flow_logs, naming.job_logs)
    groups = [group for name in names for group in _log_groups_like(clients, name)]
    expected = {*names} - {recreated_logs(clients, naming.stack)}
    return [group["logGroupName"] for group in groups if group["logGroupName"] in expected]


def _log_groups_like(clients: Clients, prefix: str) -> list[Mapping[str, Any]]:
    pages = clients.logs.get_paginator("describe_log_groups").paginate(logGroupNamePrefix=prefix)
    return ask(clients.region, lambda: [group for page in pages for group in page["logGroups"]])


def _in_ec2(clients: Clients, stack: str) -> list[str]:
    """Return EC2 resources that still exist. Each kind is listed by its own operation, because DescribeTags also lists
    deleted resources.
    """
    wanted = [{"Name": f"tag:{STACK_TAG}", "Values": [stack]}]
    found = []
    for kind, (operation, key, id_key) in KINDS.items():
        for page in _pages(clients.ec2, operation, wanted):
            listed = [one for entry in page[key] for one in entry["Instances"]] if key == "Reservations" else page[key]
            found += [f"{kind} {one[id_key]}" for one in listed if _state(one) not in GONE]
    return found


def _pages(ec2: Any, operation: str, wanted: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    if ec2.can_paginate(operation):
        return list(ec2.get_paginator(operation).paginate(Filters=wanted))
    return [getattr(ec2, operation)(Filters=wanted)]


def _state(described: Mapping[str, Any]) -> str:
    """Return the state of an instance, a NAT gateway, an endpoint or a volume; empty if the kind has none."""
    state = described.get("State", "")
    return str(state["Name"] if isinstance(state, Mapping) else state)


def _is_of(tags: Iterable[Mapping[str, str]], stack: str) -> bool:
    return any(tag["Key"] == STACK_TAG and tag["Value"] == stack for tag in tags)
