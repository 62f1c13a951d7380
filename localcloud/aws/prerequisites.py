"""Resources that a stack uses but does not create: reservations, VPC, file system, AMI, IAM principals.

On AWS, these resources exist before the stack. `POST /local-cloud/prerequisites` creates them, given the stack's region
and its `gpumpi:` settings (keys without the prefix). Existing resources stay unchanged.
"""

import copy
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from localcloud.aws.account import ACCOUNT
from localcloud.aws.call import backend_of
from localcloud.aws.ec2 import capacity_reservations, images, instance_types, networks, placement_groups
from localcloud.aws.fsx import seeding

VPC_CIDR = "10.50.0.0/16"
ACCOUNT_TRUST_POLICY = json.dumps(
    {
        "Version": "2012-10-17",
        "Statement": [{"Effect": "Allow", "Principal": {"AWS": f"arn:aws:iam::{ACCOUNT}:root"}, "Action": "sts:AssumeRole"}],
    }
)


def create_prerequisites(region: str, values: Mapping[str, Any]) -> list[str]:
    """Create the missing resources and return their ids and names."""
    return [
        *_create_principals(values.get("target", {}).get("admins", [])),
        *_create_ami(region, values.get("target", {})),
        *_create_network(region, values.get("network", {}), values.get("storage", {})),
        *_create_fsx_resources(region, values.get("network", {}), values.get("storage", {}).get("fsx", "none")),
        *(name for pool in values.get("pools", []) for name in _create_pool_resources(region, pool)),
    ]


def _create_principals(arns: Sequence[str]) -> Iterator[str]:
    iam = backend_of("iam", ACCOUNT, "us-east-1")
    for arn in arns:
        kind, _, path_and_name = arn.split(":", 5)[5].partition("/")
        path, _, name = f"/{path_and_name}".rpartition("/")
        if kind == "role" and not any(role.name == name for role in iam.roles.values()):
            iam.create_role(name, ACCOUNT_TRUST_POLICY, f"{path}/", None, "", [], "3600")
            yield arn
        elif kind == "user" and name not in iam.users:
            iam.create_user("us-east-1", name, f"{path}/")
            yield arn


def _create_ami(region: str, target: Mapping[str, Any]) -> Iterator[str]:
    """Create the AMI for an EC2 cluster (without Kubernetes). On AWS, users build this AMI with amis/.

    The AMI has the id that the stack file specifies, if any. Otherwise, the stack finds the AMI by its tags.
    """
    if target.get("kind") != "ec2":
        return
    ec2, tags = backend_of("ec2", ACCOUNT, region), {"gpumpi:ami": "ec2", "gpumpi:openmpi": str(target.get("openmpi", 5))}
    image, named = images.make_own_image(ec2, tags), target.get("amiId")
    if named is None and not any(
        ami.owner_id == ACCOUNT and tags.items() <= _read_tags(ami).items() for ami in ec2.amis.values()
    ):
        ec2.amis[image.id] = image
        yield str(image.id)
    elif named is not None and named not in ec2.amis:
        image.id = named
        ec2.amis[named] = image
        yield str(named)


def _read_tags(image: Any) -> dict[str, str]:
    return {tag["key"]: tag["value"] for tag in image.get_tags()}


def _create_network(region: str, network: Mapping[str, Any], storage: Mapping[str, Any]) -> Iterator[str]:
    """Create the VPC with its private subnets in different zones, and a public subnet with a NAT gateway.

    If the settings name an EFS file system, also create it, with a mount target in each private subnet.
    """
    vpc_id, efs = network.get("vpcId"), storage.get("efs", {})
    if vpc_id is None or vpc_id in backend_of("ec2", ACCOUNT, region).vpcs:
        return
    zones = (f"{region}{letter}" for letter in "abcdef")
    private = [
        networks.SeededSubnet(subnet_id, zone, f"10.50.{16 * place}.0/20")
        for place, (subnet_id, zone) in enumerate(zip(network.get("subnetIds", []), zones, strict=False), start=1)
    ]
    public = networks.SeededSubnet("subnet-0ffffffffffffffff", f"{region}a", "10.50.0.0/24", public=True)
    file_system = None if efs == "none" else efs.get("fileSystemId")
    networks.seed_network(vpc_id, VPC_CIDR, [public, *private], file_system_id=file_system)
    yield from (name for name in (vpc_id, public.id, *(subnet.id for subnet in private), file_system) if name)


def _create_fsx_resources(region: str, network: Mapping[str, Any], fsx: Any) -> Iterator[str]:
    """Create the FSx for Lustre resources that the settings name.

    These are the user's KMS key, the bucket of the data repository, and the existing file system in the first private
    subnet.
    """
    if fsx == "none":
        return
    if arn := fsx.get("kmsKeyArn"):
        yield from _create_key(region, arn)
    path = fsx.get("dataRepository", {}).get("path", "")
    bucket, s3 = path.removeprefix("s3://").partition("/")[0], backend_of("s3", ACCOUNT, region)
    if bucket and bucket not in s3.buckets:
        s3.create_bucket(bucket, region)
        yield bucket
    file_system_id = fsx.get("fileSystemId")
    if file_system_id and file_system_id not in backend_of("fsx", ACCOUNT, region).file_systems:
        seeding.seed_file_system(region, file_system_id, network["subnetIds"][0], VPC_CIDR)
        yield file_system_id


def _create_key(region: str, arn: str) -> Iterator[str]:
    """Create a KMS key with this ARN. Its key policy lets IAM policies grant access to it."""
    kms = backend_of("kms", ACCOUNT, region)
    name = arn.rpartition("/")[2]
    if name not in kms.keys:
        key = kms.create_key(None, "ENCRYPT_DECRYPT", "SYMMETRIC_DEFAULT", "the user's key", None)
        kms.keys[name] = kms.keys.pop(key.id)
        key.id, key.arn = name, arn
        yield arn


def _create_pool_resources(region: str, pool: Mapping[str, Any]) -> Iterator[str]:
    ec2 = backend_of("ec2", ACCOUNT, region)
    group, image = pool.get("placementGroup", "auto"), pool.get("amiId")
    if group not in ("auto", "none") and not any(existing.name == group for existing in placement_groups.list_groups(ec2)):
        yield placement_groups.seed_group(ec2, group)
    if image is not None and image not in ec2.amis:
        ec2.amis[image] = copy.copy(next(gpu_image for gpu_image in ec2.amis.values() if "nvidia" in gpu_image.name))
        ec2.amis[image].id = image
        yield image
    capacity = pool.get("capacity", {})
    kind, zones = capacity.get("kind"), instance_types.find_offered_zones(region).get(pool["instanceType"], ())
    if kind not in ("targeted-odcr", "capacity-block") or not zones:
        return
    reservations = {reservation.id: reservation for reservation in capacity_reservations.list_reservations(ec2)}
    reservation_id, resource_group = capacity.get("reservationId"), capacity.get("resourceGroupArn")
    if reservation_id in reservations or any(
        reservation.resource_group_arn == resource_group for reservation in reservations.values() if resource_group
    ):
        return
    yield capacity_reservations.seed_reservation(
        pool["instanceType"],
        pool.get("zone") or min(zones),
        pool["maxSize"],
        reservation_id=reservation_id,
        kind="capacity-block" if kind == "capacity-block" else "default",
        match="targeted",
        resource_group_arn=resource_group,
    )
