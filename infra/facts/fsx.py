"""Queries about FSx for Lustre file systems and the buckets linked to them."""

from collections.abc import Mapping
from typing import Any, Final

from infra.facts.clients import Clients, is_error
from infra.facts.model import LustreFileSystem
from infra.facts.security_groups import sources

LUSTRE: Final = 988
"""The first port that clients need:
https://docs.aws.amazon.com/fsx/latest/LustreGuide/limit-access-security-groups.html
"""


def file_system(clients: Clients, file_system_id: str) -> LustreFileSystem | None:
    """Return the file system with this ID; None if it does not exist or is not a Lustre file system."""
    try:
        found = clients.fsx.describe_file_systems(FileSystemIds=[file_system_id])["FileSystems"]
    except (clients.fsx.exceptions.FileSystemNotFound, clients.fsx.exceptions.BadRequest):
        return None
    return next((_described(clients, one) for one in found if one["FileSystemType"] == "LUSTRE"), None)


def own_file_system(clients: Clients, tags: Mapping[str, str]) -> LustreFileSystem | None:
    """Return the file system that the stack created, found by its tags."""
    for page in clients.fsx.get_paginator("describe_file_systems").paginate():
        for one in page["FileSystems"]:
            has = {tag["Key"]: tag["Value"] for tag in one.get("Tags", ())}
            if one["FileSystemType"] == "LUSTRE" and one["Lifecycle"] != "DELETING" and tags.items() <= has.items():
                return _described(clients, one)
    return None


def admitted(clients: Clients, found: LustreFileSystem) -> dict[str, frozenset[str]]:
    """Return the sources from which the file system's security groups allow Lustre traffic, keyed by security group."""
    if not found.interface_ids:
        return {}
    interfaces = clients.ec2.describe_network_interfaces(NetworkInterfaceIds=list(found.interface_ids))["NetworkInterfaces"]
    ids = sorted({group["GroupId"] for one in interfaces for group in one["Groups"]})
    described = clients.ec2.describe_security_groups(GroupIds=ids)["SecurityGroups"] if ids else []
    return {one["GroupId"]: sources(one["IpPermissions"], LUSTRE) for one in described}


def bucket_region(clients: Clients, bucket: str) -> str | None:
    """Return the Region of a bucket, or None if it does not exist."""
    from botocore.exceptions import ClientError  # slow to import

    try:
        answer = clients.s3.head_bucket(Bucket=bucket)
    except ClientError as error:
        if is_error(error, "404", "NoSuchBucket", "NotFound"):
            return None
        elsewhere = error.response.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("x-amz-bucket-region")
        if elsewhere is None:
            raise
        return str(elsewhere)
    headers = answer["ResponseMetadata"]["HTTPHeaders"]
    return str(answer.get("BucketRegion") or headers.get("x-amz-bucket-region") or clients.region)


def key_state(clients: Clients, arn: str) -> str:
    """Return the state of a KMS key, such as `Enabled`; `NotFound` if it does not exist."""
    try:
        return str(clients.kms.describe_key(KeyId=arn)["KeyMetadata"]["KeyState"])
    except clients.kms.exceptions.NotFoundException:
        return "NotFound"


def _described(clients: Clients, one: Mapping[str, Any]) -> LustreFileSystem:
    subnet = one["SubnetIds"][0]
    lustre = one["LustreConfiguration"]
    zones = clients.ec2.describe_subnets(SubnetIds=[subnet])["Subnets"]
    return LustreFileSystem(
        id=one["FileSystemId"],
        state=one["Lifecycle"],
        vpc_id=one["VpcId"],
        subnet_id=subnet,
        zone=zones[0]["AvailabilityZone"] if zones else "",
        size_gib=one["StorageCapacity"],
        deployment=lustre["DeploymentType"],
        dns_name=one["DNSName"],
        mount_name=lustre["MountName"],
        interface_ids=tuple(one.get("NetworkInterfaceIds", ())),
    )
