"""Seeding of a VPC, subnets and a file system with given ids, for stacks that use an existing network."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from localcloud.aws.account import ACCOUNT
from localcloud.aws.call import backend_of
from localcloud.aws.ec2 import nat_gateways

SHARED_TAGS = {"gpumpi:shared": "true"}
"""Tags with which the owner of a file system shares it and its security group with stacks: docs/iam/README.md."""


@dataclass(frozen=True)
class SeededSubnet:
    id: str
    zone: str
    cidr: str
    public: bool = False


def seed_network(
    vpc_id: str,
    cidr: str,
    subnets: Sequence[SeededSubnet],
    *,
    dns: bool = True,
    file_system_id: str | None = None,
    encrypted: bool = True,
    account: str = ACCOUNT,
) -> None:
    """Add a VPC to the account, as if it had been created earlier.

    Public subnets get a route to an internet gateway. Private subnets get a route to a NAT gateway in the first public
    subnet, if there is one. With `file_system_id`, also create an EFS file system with a mount target in each zone that
    has a private subnet. The security group of the mount targets allows NFS from the VPC's addresses.
    """
    region = subnets[0].zone[:-1]
    ec2 = backend_of("ec2", account, region)
    with _force_next_id("moto.ec2.models.vpcs.random_vpc_id", vpc_id):
        vpc = ec2.create_vpc(cidr)
    vpc.enable_dns_hostnames = vpc.enable_dns_support = dns
    for subnet in subnets:
        with _force_next_id("moto.ec2.models.subnets.random_subnet_id", subnet.id):
            created = ec2.create_subnet(vpc_id, subnet.cidr, availability_zone=subnet.zone)
        created.default_for_az, created.map_public_ip_on_launch = False, subnet.public
    _create_default_routes(
        ec2, vpc_id, [subnet for subnet in subnets if subnet.public], [subnet for subnet in subnets if not subnet.public]
    )
    if file_system_id is not None:
        group = _seed_security_group(ec2, vpc_id, cidr)
        _seed_file_system(backend_of("efs", account, region), file_system_id, subnets, encrypted, group)


@contextmanager
def _force_next_id(maker: str, next_id: str) -> Iterator[None]:
    with patch(maker, return_value=next_id):
        yield


def _create_default_routes(ec2: Any, vpc_id: str, public: Sequence[SeededSubnet], private: Sequence[SeededSubnet]) -> None:
    if not public:
        return
    gateway = ec2.create_internet_gateway()
    ec2.attach_internet_gateway(gateway.id, vpc_id)
    table = ec2.create_route_table(vpc_id, [])
    ec2.create_route(table.id, "0.0.0.0/0", gateway_id=gateway.id)
    for subnet in public:
        ec2.associate_route_table(table.id, None, subnet.id)
    nat = nat_gateways.create(ec2, ec2.get_subnet(public[0].id), ec2.allocate_address("vpc"))
    for subnet in private:
        table = ec2.create_route_table(vpc_id, [])
        ec2.create_route(table.id, "0.0.0.0/0", nat_gateway_id=nat.id)
        ec2.associate_route_table(table.id, None, subnet.id)


def _seed_security_group(ec2: Any, vpc_id: str, cidr: str) -> str:
    group = ec2.create_security_group("file-system", "Mount targets", vpc_id=vpc_id)
    ec2.authorize_security_group_ingress(group.id, "tcp", "2049", "2049", [{"CidrIp": cidr}])
    ec2.create_tags([group.id], SHARED_TAGS)
    return str(group.id)


def _seed_file_system(efs: Any, file_system_id: str, subnets: Sequence[SeededSubnet], encrypted: bool, group: str) -> None:
    created = efs.create_file_system(file_system_id, "generalPurpose", encrypted, "", "elastic", 0, "", False, [])
    del efs.file_systems_by_id[created.file_system_id]
    created.file_system_arn = created.file_system_arn.replace(created.file_system_id, file_system_id)
    created.file_system_id = file_system_id
    efs.file_systems_by_id[file_system_id] = created
    efs.tagging_service.tag_resource(file_system_id, [{"Key": key, "Value": value} for key, value in SHARED_TAGS.items()])
    zones: set[str] = set()
    for subnet in subnets:
        if not subnet.public and subnet.zone not in zones:
            zones.add(subnet.zone)
            efs.create_mount_target(file_system_id, subnet.id, security_groups=[group])
