"""Find the AWS resource that an interrupted create left behind, by the name or tags in its inputs."""

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from infra.facts.clients import read_pages

Inputs = Mapping[str, Any]
Client = Callable[[str], Any]
"""Function that returns the boto3 client for a service name."""


@dataclass(frozen=True)
class Remnant:
    """A resource that exists in AWS."""

    id: str
    """The resource's ID in Pulumi."""
    status: str = ""


Look = Callable[[Client, Inputs], Iterator[Remnant]]
"""Lookup that yields every resource that a create with these inputs may have left behind. If there is none, the lookup
yields nothing or raises an AWS error with a code in `MISSING`."""

MISSING: Final = (
    "404",
    "FileSystemNotFound",
    "NoSuchBucket",
    "NoSuchEntity",
    "RepositoryNotFoundException",
    "ResourceNotFoundException",
)


def create_tag_lookup(operation: str, key: str, id_key: str, filters_key: str = "Filters") -> Look:
    """Return a lookup that finds EC2 resources by their tags. EC2 sets tags at creation; the tags include the names of
    the stack and the resource."""

    def find_tagged(client: Client, inputs: Inputs) -> Iterator[Remnant]:
        for described in getattr(client("ec2"), operation)(**{filters_key: _build_tag_filters(inputs)})[key]:
            if _select_own_tags(described["Tags"]) == inputs["tags"]:
                yield Remnant(described[id_key], str(described.get("State") or ""))

    return find_tagged


def create_describe_lookup(service: str, operation: str, key: str, *arguments: str) -> Look:
    """Return a lookup that describes a resource by the values that identify it. `key`: key of the status in the answer.

    Arguments, as in `create_list_lookup`, are `ARGUMENT=INPUT`, or `NAME` if both have the same name.
    """

    def find_by_description(client: Client, inputs: Inputs) -> Iterator[Remnant]:
        values = _select_inputs(inputs, arguments)
        answer = getattr(client(service), operation)(**values)
        yield Remnant(":".join(values.values()), answer.get(key, {}).get("status", ""))

    return find_by_description


def create_list_lookup(
    service: str, operation: str, key: str, *keys: str, arguments: Sequence[str] = (), same: Sequence[str] | None = None
) -> Look:
    """Return a lookup that lists resources, and finds those with the values of the inputs in `same`. Without `same`,
    the tags must be equal. `keys`: keys of the ID and, if there is one, of the status in a listed resource.
    """

    def find_in_list(client: Client, inputs: Inputs) -> Iterator[Remnant]:
        for described in read_pages(client(service), operation, key, **_select_inputs(inputs, arguments)):
            if same is None:
                is_own = _select_own_tags(described.get("Tags", [])) == inputs["tags"]
            else:
                is_own = _select_inputs(inputs, same).items() <= described.items()
            remnant = Remnant(*(described[name] for name in keys))
            if is_own and remnant.status != "DELETING":
                yield remnant

    return find_in_list


def _select_inputs(inputs: Inputs, arguments: Sequence[str]) -> dict[str, Any]:
    return {argument.partition("=")[0]: inputs[argument.rpartition("=")[2]] for argument in arguments}


def _build_tag_filters(inputs: Inputs) -> list[dict[str, Any]]:
    return [{"Name": f"tag:{name}", "Values": [value]} for name, value in inputs["tags"].items()]


def _select_own_tags(pairs: list[Mapping[str, str]], key: str = "Key", value: str = "Value") -> dict[str, str]:
    """Return the tags that the program set, without the tags that AWS added."""
    return {described[key]: described[value] for described in pairs if not described[key].startswith("aws:")}


def find_route(client: Client, inputs: Inputs) -> Iterator[Remnant]:
    table, destination = inputs["routeTableId"], inputs["destinationCidrBlock"]
    filters = [{"Name": "route-table-id", "Values": [table]}]
    for described in client("ec2").describe_route_tables(Filters=filters)["RouteTables"]:
        if any(route.get("DestinationCidrBlock") == destination for route in described["Routes"]):
            # https://github.com/hashicorp/terraform-provider-aws/blob/main/internal/service/ec2/vpc_route.go
            yield Remnant(f"r-{table}{zlib.crc32(destination.encode())}")


def find_route_table_association(client: Client, inputs: Inputs) -> Iterator[Remnant]:
    filters = [{"Name": "route-table-id", "Values": [inputs["routeTableId"]]}]
    for table in client("ec2").describe_route_tables(Filters=filters)["RouteTables"]:
        for described in table["Associations"]:
            if described.get("SubnetId") == inputs["subnetId"]:
                yield Remnant(described["RouteTableAssociationId"])


def find_role_policy_attachment(client: Client, inputs: Inputs) -> Iterator[Remnant]:
    role, policy = inputs["role"], inputs["policyArn"]
    attached = read_pages(client("iam"), "list_attached_role_policies", "AttachedPolicies", RoleName=role)
    if any(described["PolicyArn"] == policy for described in attached):
        yield Remnant(f"{role}/{policy}")


def find_instance(client: Client, inputs: Inputs) -> Iterator[Remnant]:
    """Find instances that are not terminated. EC2 still lists terminated instances, with their tags, for an hour."""
    alive = {"Name": "instance-state-name", "Values": ["pending", "running", "stopping", "stopped"]}
    filters = [*_build_tag_filters(inputs), alive]
    for reservation in read_pages(client("ec2"), "describe_instances", "Reservations", Filters=filters):
        for described in reservation["Instances"]:
            if _select_own_tags(described["Tags"]) == inputs["tags"]:
                yield Remnant(described["InstanceId"], described["State"]["Name"])


def find_auto_scaling_group(client: Client, inputs: Inputs) -> Iterator[Remnant]:
    groups = client("autoscaling").describe_auto_scaling_groups(AutoScalingGroupNames=[inputs["name"]])["AutoScalingGroups"]
    yield from (Remnant(described["AutoScalingGroupName"], described.get("Status", "")) for described in groups)


def find_kms_key(client: Client, inputs: Inputs) -> Iterator[Remnant]:
    kms = client("kms")
    for key in read_pages(kms, "list_keys", "Keys"):
        metadata = kms.describe_key(KeyId=key["KeyId"])["KeyMetadata"]
        if metadata["KeyManager"] == "CUSTOMER" and metadata["KeyState"] != "PendingDeletion":
            tags = kms.list_resource_tags(KeyId=key["KeyId"])["Tags"]
            if _select_own_tags(tags, "TagKey", "TagValue") == inputs["tags"]:
                yield Remnant(key["KeyId"])


def find_image_repository(client: Client, inputs: Inputs) -> Iterator[Remnant]:
    for described in client("ecr").describe_repositories(repositoryNames=[inputs["name"]])["repositories"]:
        yield Remnant(described["repositoryName"])


def find_data_repository_association(client: Client, inputs: Inputs) -> Iterator[Remnant]:
    filters = [{"Name": "file-system-id", "Values": [inputs["fileSystemId"]]}]
    for described in read_pages(client("fsx"), "describe_data_repository_associations", "Associations", Filters=filters):
        if described["FileSystemPath"] == inputs["fileSystemPath"] and described["Lifecycle"] != "DELETING":
            yield Remnant(described["AssociationId"], described["Lifecycle"])


find_log_group: Final = create_list_lookup(
    *("logs", "describe_log_groups", "logGroups", "logGroupName"),
    arguments=["logGroupNamePrefix=name"],
    same=["logGroupName=name"],
)
_FILES: Final = ("FileSystemId=fileSystemId",)
_STATE: Final = "LifeCycleState"
find_bucket: Final = create_describe_lookup("s3", "head_bucket", "", "Bucket=bucket")
find_file_system: Final = create_list_lookup("efs", "describe_file_systems", "FileSystems", "FileSystemId", _STATE)
find_lustre_file_system: Final = create_list_lookup("fsx", "describe_file_systems", "FileSystems", "FileSystemId", "Lifecycle")
find_access_point: Final = create_list_lookup(
    "efs", "describe_access_points", "AccessPoints", "AccessPointId", _STATE, arguments=_FILES
)
find_mount_target: Final = create_list_lookup(
    "efs", "describe_mount_targets", "MountTargets", "MountTargetId", _STATE, arguments=_FILES, same=("SubnetId=subnetId",)
)
