"""What AWS reports about a stack: instances, AMIs, and resources left after `destroy`."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from cli.aws_queries import query_aws, read_pages
from cli.clusters.acceptance.report import Notebook
from cli.clusters.status.in_aws import EksAccount
from infra.facts import eks
from infra.facts.clients import Clients
from infra.facts.instance_types import InstanceType
from infra.naming import POOL_TAG, STACK_TAG, Naming

EFA = ("efa", "efa-only")
"""`InterfaceType` of EFA interfaces."""
PREFIX = "gpumpi:"


@dataclass(frozen=True)
class Instance:
    """An instance of the stack."""

    id: str
    type: str
    image: str
    pool: str
    address: str
    efa: int
    """Number of EFA interfaces."""


@dataclass(frozen=True)
class Image:
    """An AMI of the stack's instances."""

    name: str
    tags: Mapping[str, str]
    """Tags that start with `gpumpi:`; only AMIs built by amis/ have them."""

    def __str__(self) -> str:
        tags = ", ".join(f"{key}={value}" for key, value in sorted(self.tags.items()))
        return f"{self.name} ({tags or f'no {PREFIX} tags'})"


def list_stack_instances(clients: Clients, stack: str) -> list[Instance]:
    """Return the stack's pending, running and stopping instances, sorted by ID."""
    return describe_instances(clients, {f"tag:{STACK_TAG}": [stack], "instance-state-name": ["pending", "running", "stopping"]})


def list_instances(clients: Clients, ids: Sequence[str]) -> list[Instance]:
    return describe_instances(clients, {"instance-id": list(ids)}) if ids else []


def describe_instances(clients: Clients, attributes: Mapping[str, Sequence[str]]) -> list[Instance]:
    filters = [{"Name": name, "Values": list(values)} for name, values in attributes.items()]
    entries = read_pages(clients.region, clients.ec2, "describe_instances", "Reservations", Filters=filters)
    described = [instance for entry in entries for instance in entry["Instances"]]
    return sorted((parse_instance(instance) for instance in described), key=lambda instance: instance.id)


def parse_instance(described: Mapping[str, Any]) -> Instance:
    tags = {tag["Key"]: tag["Value"] for tag in described.get("Tags", ())}
    interfaces = described.get("NetworkInterfaces", ())
    return Instance(
        described["InstanceId"],
        described["InstanceType"],
        described["ImageId"],
        tags.get(POOL_TAG, ""),
        described.get("PrivateIpAddress") or "",
        sum(interface.get("InterfaceType") in EFA for interface in interfaces),
    )


def read_images(clients: Clients, ids: Sequence[str]) -> dict[str, Image]:
    """Return the AMIs, keyed by ID. Deregistered AMIs are missing, although instances of such AMIs keep running."""
    image_ids = sorted(set(ids))
    if not image_ids:
        return {}
    filters = [{"Name": "image-id", "Values": image_ids}]
    answer = query_aws(clients.region, lambda: clients.ec2.describe_images(Filters=filters))
    tags = {image["ImageId"]: {tag["Key"]: tag["Value"] for tag in image.get("Tags", ())} for image in answer["Images"]}
    own_tags = {id: {key: value for key, value in every.items() if key.startswith(PREFIX)} for id, every in tags.items()}
    return {image["ImageId"]: Image(image.get("Name", ""), own_tags[image["ImageId"]]) for image in answer["Images"]}


def read_instance_type(clients: Clients, name: str) -> InstanceType:
    answer = query_aws(clients.region, lambda: clients.ec2.describe_instance_types(InstanceTypes=[name]))
    return InstanceType.from_ec2(answer["InstanceTypes"][0])


DESTROY: Final = "destroy leaves nothing"
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
"""Maps each kind of resource to the EC2 operation that lists it, and to the keys of the list and of the ID in the response.
AWS deletes a VPC only once it is empty, so a leftover VPC also reveals other leftovers.
"""


def check_destroy(clients: Clients, stack: str, destroy: Callable[[str], None], notes: Notebook) -> None:
    destroy(stack)
    notes.record_evidence(f"pulumi destroy --stack {stack}", "succeeded")
    left = find_leftovers(clients, stack)
    searched = f"ec2 with tag {STACK_TAG}={stack}, eks, autoscaling, efs, fsx, logs, ecr, s3"
    notes.record_evidence(searched, ", ".join(left) or "nothing is left")
    if recreated := find_recreated_log_group(clients, stack):
        notes.record_evidence(recreated, "recreated by EKS for its last audit logs; the next `pulumi up` deletes it")
    if left:
        notes.record_failure(f"left after destroy: {', '.join(left)}")


def find_leftovers(clients: Clients, stack: str) -> list[str]:
    """Return the stack's remaining resources. KMS keys stay scheduled for deletion, as documented."""
    region, naming = clients.region, Naming(stack)
    left = query_aws(region, lambda: find_ec2_leftovers(clients, stack))
    if query_aws(region, lambda: EksAccount(stack, region).cluster()):
        left.append(f"EKS cluster {naming.cluster}")
    systems = ("file system", "describe_file_systems", "FileSystems", "FileSystemId")
    groups = ("Auto Scaling group", "describe_auto_scaling_groups", "AutoScalingGroups", "AutoScalingGroupName")
    tagged = ((clients.autoscaling, *groups), (clients.efs, *systems), (clients.fsx, *systems))
    for client, kind, operation, key, id_key in tagged:
        listed = read_pages(region, client, operation, key)
        left += [f"{kind} {item[id_key]}" for item in listed if has_stack_tag(item.get("Tags", ()), stack)]
    left += [f"log group {name}" for name in list_log_groups(clients, naming)]
    names = [
        repository["repositoryName"] for repository in read_pages(region, clients.ecr, "describe_repositories", "repositories")
    ]
    left += [f"image repository {name}" for name in names if name.startswith(f"{naming.cluster}/")]
    buckets = query_aws(region, lambda: clients.s3.list_buckets()["Buckets"])
    return left + [f"bucket {bucket['Name']}" for bucket in buckets if bucket["Name"].startswith(f"{naming.name('keys')}-")]


def find_recreated_log_group(clients: Clients, stack: str) -> str:
    """Return the log group that EKS has recreated after the cluster's deletion; empty if there is none."""
    name = Naming(stack).control_plane_logs
    return name if query_aws(clients.region, lambda: eks.has_leftover_logs(clients, name)) else ""


def list_log_groups(clients: Clients, naming: Naming) -> list[str]:
    """Return the log groups with the names of the stack, except the one that EKS has recreated."""
    names = (naming.control_plane_logs, naming.flow_logs, naming.job_logs)
    groups = [
        group["logGroupName"]
        for name in names
        for group in read_pages(clients.region, clients.logs, "describe_log_groups", "logGroups", logGroupNamePrefix=name)
    ]
    expected = {*names} - {find_recreated_log_group(clients, naming.stack)}
    return [name for name in groups if name in expected]


def find_ec2_leftovers(clients: Clients, stack: str) -> list[str]:
    """Return EC2 resources that still exist. Each kind is listed by its own operation, because DescribeTags also lists
    deleted resources.
    """
    filters = [{"Name": f"tag:{STACK_TAG}", "Values": [stack]}]
    remaining = []
    for kind, (operation, key, id_key) in KINDS.items():
        for page in list_pages(clients.ec2, operation, filters):
            listed = [instance for entry in page[key] for instance in entry["Instances"]] if key == "Reservations" else page[key]
            remaining += [f"{kind} {resource[id_key]}" for resource in listed if read_state(resource) not in GONE]
    return remaining


def list_pages(ec2: Any, operation: str, filters: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    if ec2.can_paginate(operation):
        return list(ec2.get_paginator(operation).paginate(Filters=filters))
    return [getattr(ec2, operation)(Filters=filters)]


def read_state(described: Mapping[str, Any]) -> str:
    """Return the state of an instance, a NAT gateway, an endpoint or a volume; empty if the kind has none."""
    state = described.get("State", "")
    return str(state["Name"] if isinstance(state, Mapping) else state)


def has_stack_tag(tags: Iterable[Mapping[str, str]], stack: str) -> bool:
    return any(tag["Key"] == STACK_TAG and tag["Value"] == stack for tag in tags)
