"""Find the AWS resource that an interrupted create left behind, by the name or tags in its inputs."""

import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

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


def find_by_tags(operation: str, key: str, id_key: str, filters_key: str = "Filters") -> Look:
    """Return a lookup that finds EC2 resources by their tags. EC2 sets tags at creation; the tags include the names of
    the stack and the resource."""

    def look(client: Client, inputs: Inputs) -> Iterator[Remnant]:
        tags = inputs["tags"]
        filters = [{"Name": f"tag:{name}", "Values": [value]} for name, value in tags.items()]
        for described in getattr(client("ec2"), operation)(**{filters_key: filters})[key]:
            if _own_tags(described["Tags"]) == tags:
                yield Remnant(described[id_key], str(described.get("State") or ""))

    return look


def _own_tags(pairs: list[Mapping[str, str]], key: str = "Key", value: str = "Value") -> dict[str, str]:
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


def find_role(client: Client, inputs: Inputs) -> Iterator[Remnant]:
    yield Remnant(client("iam").get_role(RoleName=inputs["name"])["Role"]["RoleName"])


def find_role_policy(client: Client, inputs: Inputs) -> Iterator[Remnant]:
    policy = client("iam").get_role_policy(RoleName=inputs["role"], PolicyName=inputs["name"])
    yield Remnant(f"{policy['RoleName']}:{policy['PolicyName']}")


def find_role_policy_attachment(client: Client, inputs: Inputs) -> Iterator[Remnant]:
    role, policy = inputs["role"], inputs["policyArn"]
    for page in client("iam").get_paginator("list_attached_role_policies").paginate(RoleName=role):
        if any(described["PolicyArn"] == policy for described in page["AttachedPolicies"]):
            yield Remnant(f"{role}/{policy}")


def find_instance_profile(client: Client, inputs: Inputs) -> Iterator[Remnant]:
    yield Remnant(
        client("iam").get_instance_profile(InstanceProfileName=inputs["name"])["InstanceProfile"]["InstanceProfileName"]
    )


def find_instance(client: Client, inputs: Inputs) -> Iterator[Remnant]:
    """Find instances that are not terminated. EC2 still lists terminated instances, with their tags, for an hour."""
    filters = [{"Name": f"tag:{name}", "Values": [value]} for name, value in inputs["tags"].items()]
    filters.append({"Name": "instance-state-name", "Values": ["pending", "running", "stopping", "stopped"]})
    for page in client("ec2").get_paginator("describe_instances").paginate(Filters=filters):
        for reservation in page["Reservations"]:
            for described in reservation["Instances"]:
                if _own_tags(described["Tags"]) == inputs["tags"]:
                    yield Remnant(described["InstanceId"], described["State"]["Name"])


def find_auto_scaling_group(client: Client, inputs: Inputs) -> Iterator[Remnant]:
    for described in client("autoscaling").describe_auto_scaling_groups(AutoScalingGroupNames=[inputs["name"]])[
        "AutoScalingGroups"
    ]:
        yield Remnant(described["AutoScalingGroupName"], described.get("Status", ""))


def find_key(client: Client, inputs: Inputs) -> Iterator[Remnant]:
    kms = client("kms")
    for page in kms.get_paginator("list_keys").paginate():
        for key in page["Keys"]:
            metadata = kms.describe_key(KeyId=key["KeyId"])["KeyMetadata"]
            if metadata["KeyManager"] == "CUSTOMER" and metadata["KeyState"] != "PendingDeletion":
                tags = kms.list_resource_tags(KeyId=key["KeyId"])["Tags"]
                if _own_tags(tags, "TagKey", "TagValue") == inputs["tags"]:
                    yield Remnant(key["KeyId"])


def find_key_alias(client: Client, inputs: Inputs) -> Iterator[Remnant]:
    for page in client("kms").get_paginator("list_aliases").paginate():
        yield from (Remnant(described["AliasName"]) for described in page["Aliases"] if described["AliasName"] == inputs["name"])


def find_log_group(client: Client, inputs: Inputs) -> Iterator[Remnant]:
    for page in client("logs").get_paginator("describe_log_groups").paginate(logGroupNamePrefix=inputs["name"]):
        yield from (
            Remnant(described["logGroupName"]) for described in page["logGroups"] if described["logGroupName"] == inputs["name"]
        )


def find_image_repository(client: Client, inputs: Inputs) -> Iterator[Remnant]:
    for described in client("ecr").describe_repositories(repositoryNames=[inputs["name"]])["repositories"]:
        yield Remnant(described["repositoryName"])


def find_bucket(client: Client, inputs: Inputs) -> Iterator[Remnant]:
    client("s3").head_bucket(Bucket=inputs["bucket"])
    yield Remnant(inputs["bucket"])


def find_file_system(client: Client, inputs: Inputs) -> Iterator[Remnant]:
    for page in client("efs").get_paginator("describe_file_systems").paginate():
        for described in page["FileSystems"]:
            if _own_tags(described["Tags"]) == inputs["tags"]:
                yield Remnant(described["FileSystemId"], described["LifeCycleState"])


def find_mount_target(client: Client, inputs: Inputs) -> Iterator[Remnant]:
    for page in client("efs").get_paginator("describe_mount_targets").paginate(FileSystemId=inputs["fileSystemId"]):
        for described in page["MountTargets"]:
            if described["SubnetId"] == inputs["subnetId"]:
                yield Remnant(described["MountTargetId"], described["LifeCycleState"])


def find_access_point(client: Client, inputs: Inputs) -> Iterator[Remnant]:
    for page in client("efs").get_paginator("describe_access_points").paginate(FileSystemId=inputs["fileSystemId"]):
        for described in page["AccessPoints"]:
            if _own_tags(described["Tags"]) == inputs["tags"]:
                yield Remnant(described["AccessPointId"], described["LifeCycleState"])


def find_lustre_file_system(client: Client, inputs: Inputs) -> Iterator[Remnant]:
    for page in client("fsx").get_paginator("describe_file_systems").paginate():
        for described in page["FileSystems"]:
            if described["Lifecycle"] != "DELETING" and _own_tags(described.get("Tags", [])) == inputs["tags"]:
                yield Remnant(described["FileSystemId"], described["Lifecycle"])


def find_data_repository_association(client: Client, inputs: Inputs) -> Iterator[Remnant]:
    filters = [{"Name": "file-system-id", "Values": [inputs["fileSystemId"]]}]
    for page in client("fsx").get_paginator("describe_data_repository_associations").paginate(Filters=filters):
        for described in page["Associations"]:
            if described["FileSystemPath"] == inputs["fileSystemPath"] and described["Lifecycle"] != "DELETING":
                yield Remnant(described["AssociationId"], described["Lifecycle"])


def find_cluster(client: Client, inputs: Inputs) -> Iterator[Remnant]:
    cluster = client("eks").describe_cluster(name=inputs["name"])["cluster"]
    yield Remnant(cluster["name"], cluster["status"])


def find_addon(client: Client, inputs: Inputs) -> Iterator[Remnant]:
    cluster, addon = inputs["clusterName"], inputs["addonName"]
    described = client("eks").describe_addon(clusterName=cluster, addonName=addon)["addon"]
    yield Remnant(f"{cluster}:{addon}", described["status"])


def find_node_group(client: Client, inputs: Inputs) -> Iterator[Remnant]:
    cluster, group = inputs["clusterName"], inputs["nodeGroupName"]
    described = client("eks").describe_nodegroup(clusterName=cluster, nodegroupName=group)["nodegroup"]
    yield Remnant(f"{cluster}:{group}", described["status"])


def find_access_entry(client: Client, inputs: Inputs) -> Iterator[Remnant]:
    cluster, principal = inputs["clusterName"], inputs["principalArn"]
    client("eks").describe_access_entry(clusterName=cluster, principalArn=principal)
    yield Remnant(f"{cluster}:{principal}")


def find_pod_identity(client: Client, inputs: Inputs) -> Iterator[Remnant]:
    names = {name: inputs[name] for name in ("clusterName", "namespace", "serviceAccount")}
    for described in client("eks").list_pod_identity_associations(**names)["associations"]:
        yield Remnant(described["associationId"])
