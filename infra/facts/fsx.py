"""Queries about FSx for Lustre file systems and the buckets linked to them."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from infra.facts.clients import Clients, is_error
from infra.facts.model import LustreFileSystem
from infra.facts.security_groups import read_ingress_sources

LUSTRE: Final = 988
"""The first port that clients need:
https://docs.aws.amazon.com/fsx/latest/LustreGuide/limit-access-security-groups.html
"""


def read_file_system(clients: Clients, file_system_id: str) -> LustreFileSystem | None:
    """Return the file system with this ID and the sources that its security groups admit; None if it does not exist or is
    not a Lustre file system."""
    try:
        described = clients.fsx.describe_file_systems(FileSystemIds=[file_system_id])["FileSystems"]
    except (clients.fsx.exceptions.FileSystemNotFound, clients.fsx.exceptions.BadRequest):
        return None
    return next((_add_admitted_sources(clients, each) for each in described if each["FileSystemType"] == "LUSTRE"), None)


def find_own_file_system(clients: Clients, tags: Mapping[str, str]) -> LustreFileSystem | None:
    """Return the file system that the stack created, found by its tags."""
    for page in clients.fsx.get_paginator("describe_file_systems").paginate():
        for each in page["FileSystems"]:
            has = {tag["Key"]: tag["Value"] for tag in each.get("Tags", ())}
            if each["FileSystemType"] == "LUSTRE" and each["Lifecycle"] != "DELETING" and tags.items() <= has.items():
                return _convert_file_system(clients, each)
    return None


def _add_admitted_sources(clients: Clients, described: Mapping[str, Any]) -> LustreFileSystem:
    file_system, ids = _convert_file_system(clients, described), described.get("NetworkInterfaceIds")
    interfaces = clients.ec2.describe_network_interfaces(NetworkInterfaceIds=ids)["NetworkInterfaces"] if ids else ()
    sources = read_ingress_sources(clients, {group["GroupId"] for each in interfaces for group in each["Groups"]}, LUSTRE)
    return replace(file_system, admitted={file_system.zone: sources})


def read_bucket_region(clients: Clients, bucket: str) -> str | None:
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


def read_key_state(clients: Clients, arn: str) -> str:
    """Return the state of a KMS key, such as `Enabled`; `NotFound` if it does not exist."""
    try:
        return str(clients.kms.describe_key(KeyId=arn)["KeyMetadata"]["KeyState"])
    except clients.kms.exceptions.NotFoundException:
        return "NotFound"


def _convert_file_system(clients: Clients, described: Mapping[str, Any]) -> LustreFileSystem:
    subnet = described["SubnetIds"][0]
    zones = clients.ec2.describe_subnets(SubnetIds=[subnet])["Subnets"]
    return LustreFileSystem(
        id=described["FileSystemId"],
        state=described["Lifecycle"],
        mount_targets={zones[0]["AvailabilityZone"] if zones else "": described["VpcId"]},
        subnet_id=subnet,
        size_gib=described["StorageCapacity"],
        dns_name=described["DNSName"],
        mount_name=described["LustreConfiguration"]["MountName"],
    )
