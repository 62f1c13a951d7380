"""Quotas and usage of an account in a Region, such as those of VPCs, network interfaces and volumes. Only `plan` reads them."""

from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from infra.facts.account import read_quota_value
from infra.facts.clients import Clients, build_filter, query, read_pages, try_query
from infra.naming import STACK_TAG


@dataclass(frozen=True)
class Limit:
    """A quota, and how much of it the account uses."""

    name: str
    service: str
    code: str
    counted_by: tuple[str, ...] = ()
    """Operations that return the usage, such as `ec2:DescribeVpcs`."""
    count: Callable[[Clients], int] = field(default=lambda clients: 0, compare=False)
    """Reads the usage. NAT gateways are counted by zone, and nodes by node group."""
    quota_is_in_summary: bool = False
    """Whether `iam:GetAccountSummary` also returns the quota. Service Quotas lists IAM's quotas only in us-east-1."""
    unit: str = ""
    scale: int = 1
    """Usage is counted in this unit, the quota in multiples of it: `scale` is that multiple."""


def _count_addresses(clients: Clients) -> int:
    return len(clients.ec2.describe_addresses()["Addresses"])


def _count_clusters(clients: Clients) -> int:
    return len(read_pages(clients.eks, "list_clusters", "clusters"))


def _count_roles(clients: Clients) -> int:
    return int(clients.iam.get_account_summary()["SummaryMap"]["Roles"])


def _count_gp3_gib(clients: Clients) -> int:
    volumes = read_pages(clients.ec2, "describe_volumes", "Volumes", Filters=[build_filter("volume-type", ["gp3"])])
    return sum(volume["Size"] for volume in volumes)


def _build_vpc_limit(name: str, code: str, operation: str, key: str) -> Limit:
    """Return a quota of VPC whose usage an operation of EC2 lists."""
    return Limit(name, "vpc", code, (f"ec2:Describe{key}",), lambda clients: len(read_pages(clients.ec2, operation, key)))


VPCS: Final = _build_vpc_limit("VPCs per Region", "L-F678F1CE", "describe_vpcs", "Vpcs")
GATEWAYS: Final = _build_vpc_limit("Internet gateways per Region", "L-A4707A72", "describe_internet_gateways", "InternetGateways")
ADDRESSES: Final = Limit("EC2-VPC Elastic IPs", "ec2", "L-0263D0A3", ("ec2:DescribeAddresses",), _count_addresses)
NAT_GATEWAYS: Final = Limit(
    "NAT gateways per Availability Zone", "vpc", "L-FE5A380F", ("ec2:DescribeNatGateways", "ec2:DescribeSubnets")
)
INTERFACES: Final = _build_vpc_limit(
    "Network interfaces per Region", "L-DF5E4CA3", "describe_network_interfaces", "NetworkInterfaces"
)
STORAGE: Final = Limit(
    "Storage for General Purpose SSD (gp3) volumes",
    "ebs",
    "L-7A658B76",
    ("ec2:DescribeVolumes",),
    _count_gp3_gib,
    unit="GiB",
    scale=1024,
)
"""EC2 returns volume sizes in GiB, but Service Quotas returns the quota in TiB:
https://docs.aws.amazon.com/ebs/latest/userguide/ebs-resource-quotas.html"""
CLUSTERS: Final = Limit("EKS clusters", "eks", "L-1194D53C", ("eks:ListClusters",), _count_clusters)
NODES: Final = Limit("Nodes per managed node group", "eks", "L-BD136A63")
ROLES: Final = Limit("IAM roles", "iam", "L-FE177D64", ("iam:GetAccountSummary",), _count_roles, quota_is_in_summary=True)
LIMITS: Final = (VPCS, GATEWAYS, ADDRESSES, NAT_GATEWAYS, INTERFACES, STORAGE, CLUSTERS, NODES, ROLES)

LIVE_GATEWAYS: Final = ("pending", "available", "deleting")
"""NAT gateways in these states count against the quota:
https://docs.aws.amazon.com/vpc/latest/userguide/amazon-vpc-limits.html"""
SERVICE_ROLES: Final = {
    "eks.amazonaws.com": "AWSServiceRoleForAmazonEKS",
    "eks-nodegroup.amazonaws.com": "AWSServiceRoleForAmazonEKSNodegroup",
    "autoscaling.amazonaws.com": "AWSServiceRoleForAutoScaling",
    "spot.amazonaws.com": "AWSServiceRoleForEC2Spot",
    "elasticfilesystem.amazonaws.com": "AWSServiceRoleForAmazonElasticFileSystem",
    "fsx.amazonaws.com": "AWSServiceRoleForAmazonFSx",
}
"""Maps each service to its service-linked role."""


@dataclass(frozen=True)
class Used:
    """A quota's value and the account's usage. Each of them is None if it could not be read."""

    allowed: float | None
    used: int | None
    reason: str = ""


@dataclass(frozen=True)
class AccountLimits:
    limits: Mapping[Limit, Used] = field(default_factory=dict)
    own_addresses: int | None = 0
    """Elastic IPs of the stack; None if they could not be read."""
    nat_gateways: Mapping[str, int] = field(default_factory=dict)
    """Maps each zone to the number of NAT gateways that are not the stack's."""
    missing_roles: frozenset[str] = frozenset()
    """Services whose service-linked role does not exist."""
    roles_unknown: str = ""
    """Reason why service-linked roles could not be read."""


def read_account_limits(region: str, stack: str, services: frozenset[str]) -> AccountLimits:
    """Query quotas and usage in parallel. If a value could not be read, the result contains the reason instead."""
    clients = query(region, lambda: Clients(region))
    with ThreadPoolExecutor(len(LIMITS) * 2 + 3) as threads:
        allowed = {limit: threads.submit(try_query, region, partial(_read_limit_value, clients, limit)) for limit in LIMITS}
        used = {limit: threads.submit(try_query, region, partial(limit.count, clients)) for limit in LIMITS}
        own = threads.submit(try_query, region, lambda: _count_stack_addresses(clients, stack))
        gateways = threads.submit(try_query, region, lambda: _count_other_nat_gateways(clients.ec2, stack))
        roles = threads.submit(try_query, region, lambda: _find_missing_roles(clients, services))
        limits = {limit: _combine_usage(allowed[limit].result(), used[limit].result()) for limit in LIMITS}
        zones, zones_unknown = gateways.result()
        limits[NAT_GATEWAYS] = _combine_usage(allowed[NAT_GATEWAYS].result(), (None if zones is None else 0, zones_unknown))
        missing, reason = roles.result()
    return AccountLimits(limits, own.result()[0], zones or {}, missing if missing is not None else frozenset(), reason)


def _combine_usage(allowed: tuple[Any, str], used: tuple[Any, str]) -> Used:
    reason = allowed[1] or used[1] or ("" if allowed[0] is not None else "AWS reports no value")
    return Used(allowed[0], used[0], reason)


def _read_limit_value(clients: Clients, limit: Limit) -> float | None:
    if limit.quota_is_in_summary:
        return float(clients.iam.get_account_summary()["SummaryMap"]["RolesQuota"])
    value = read_quota_value(clients, limit.service, limit.code)
    return None if value is None else value * limit.scale


def _count_stack_addresses(clients: Clients, stack: str) -> int:
    return len(clients.ec2.describe_addresses(Filters=[build_filter(f"tag:{STACK_TAG}", [stack])])["Addresses"])


def _count_other_nat_gateways(ec2: Any, stack: str) -> dict[str, int]:
    """Return the number of NAT gateways in each zone that do not belong to the stack."""
    gateways = read_pages(ec2, "describe_nat_gateways", "NatGateways", Filter=[build_filter("state", LIVE_GATEWAYS)])
    foreign = [gateway for gateway in gateways if {"Key": STACK_TAG, "Value": stack} not in gateway.get("Tags", ())]
    if not foreign:
        return {}
    zones = {subnet["SubnetId"]: subnet["AvailabilityZone"] for subnet in read_pages(ec2, "describe_subnets", "Subnets")}
    return dict(Counter(zones[gateway["SubnetId"]] for gateway in foreign if gateway["SubnetId"] in zones))


def _find_missing_roles(clients: Clients, services: frozenset[str]) -> frozenset[str]:
    return frozenset(service for service in services if not _role_exists(clients, SERVICE_ROLES[service]))


def _role_exists(clients: Clients, role: str) -> bool:
    try:
        clients.iam.get_role(RoleName=role)
    except clients.iam.exceptions.NoSuchEntityException:
        return False
    return True
