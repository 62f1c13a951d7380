"""Quotas and usage of an account in a Region, such as those of VPCs, network interfaces and volumes. Only `plan` reads them."""

from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from infra.facts.account import quota_value
from infra.facts.clients import Clients, Denied, query
from infra.facts.model import FactsError
from infra.naming import STACK_TAG


@dataclass(frozen=True)
class Limit:
    """A quota, and the API operations that return how much of it the account uses."""

    name: str
    service: str
    code: str
    counted_by: tuple[str, ...]
    """Operations, such as `ec2:DescribeVpcs`."""
    quota_is_in_summary: bool = False
    """Whether `iam:GetAccountSummary` also returns the quota. Service Quotas lists IAM's quotas only in us-east-1."""
    unit: str = ""
    scale: int = 1
    """Usage is counted in this unit, the quota in multiples of it: `scale` is that multiple."""


VPCS: Final = Limit("VPCs per Region", "vpc", "L-F678F1CE", ("ec2:DescribeVpcs",))
GATEWAYS: Final = Limit("Internet gateways per Region", "vpc", "L-A4707A72", ("ec2:DescribeInternetGateways",))
ADDRESSES: Final = Limit("EC2-VPC Elastic IPs", "ec2", "L-0263D0A3", ("ec2:DescribeAddresses",))
NAT_GATEWAYS: Final = Limit(
    "NAT gateways per Availability Zone", "vpc", "L-FE5A380F", ("ec2:DescribeNatGateways", "ec2:DescribeSubnets")
)
INTERFACES: Final = Limit("Network interfaces per Region", "vpc", "L-DF5E4CA3", ("ec2:DescribeNetworkInterfaces",))
STORAGE: Final = Limit(
    "Storage for General Purpose SSD (gp3) volumes", "ebs", "L-7A658B76", ("ec2:DescribeVolumes",), unit="GiB", scale=1024
)
"""EC2 returns volume sizes in GiB, but Service Quotas returns the quota in TiB:
https://docs.aws.amazon.com/ebs/latest/userguide/ebs-resource-quotas.html"""
CLUSTERS: Final = Limit("EKS clusters", "eks", "L-1194D53C", ("eks:ListClusters",))
NODES: Final = Limit("Nodes per managed node group", "eks", "L-BD136A63", ())
ROLES: Final = Limit("IAM roles", "iam", "L-FE177D64", ("iam:GetAccountSummary",), quota_is_in_summary=True)
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
"""Service -> its service-linked role."""


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
    """Zone -> number of NAT gateways that are not the stack's."""
    missing_roles: frozenset[str] = frozenset()
    """Services whose service-linked role does not exist."""
    roles_unknown: str = ""
    """Reason why service-linked roles could not be read."""


def read(region: str, stack: str, services: frozenset[str]) -> AccountLimits:
    """Query quotas and usage in parallel. If a value could not be read, the result contains the reason instead."""
    clients = query(region, lambda: Clients(region))
    _ = clients.ec2, clients.eks, clients.iam, clients.quotas
    with ThreadPoolExecutor(len(LIMITS) * 2 + 3) as threads:
        allowed = {limit: threads.submit(_tried, region, partial(_allowed, clients, limit)) for limit in LIMITS}
        used = {limit: threads.submit(_tried, region, partial(_used, clients, limit)) for limit in LIMITS}
        own = threads.submit(_tried, region, lambda: _own_addresses(clients, stack))
        gateways = threads.submit(_tried, region, lambda: _nat_gateways(clients.ec2, stack))
        roles = threads.submit(_tried, region, lambda: _missing(clients, services))
        limits = {limit: _combined(allowed[limit].result(), used[limit].result()) for limit in LIMITS}
        zones, zones_unknown = gateways.result()
        limits[NAT_GATEWAYS] = _combined(allowed[NAT_GATEWAYS].result(), (None if zones is None else 0, zones_unknown))
        missing, reason = roles.result()
    return AccountLimits(limits, own.result()[0], zones or {}, missing if missing is not None else frozenset(), reason)


def _tried(region: str, call: Callable[[], Any]) -> tuple[Any, str]:
    try:
        return query(region, call), ""
    except Denied as denied:
        return None, f"you may not call {denied}"
    except FactsError as error:
        return None, str(error)


def _combined(allowed: tuple[Any, str], used: tuple[Any, str]) -> Used:
    reason = allowed[1] or used[1] or ("" if allowed[0] is not None else "AWS reports no value")
    return Used(allowed[0], used[0], reason)


def _allowed(clients: Clients, limit: Limit) -> float | None:
    if limit.quota_is_in_summary:
        return float(clients.iam.get_account_summary()["SummaryMap"]["RolesQuota"])
    value = quota_value(clients, limit.service, limit.code)
    return None if value is None else value * limit.scale


def _used(clients: Clients, limit: Limit) -> int:
    match limit:
        case _ if limit is VPCS:
            return _count(clients.ec2, "describe_vpcs", "Vpcs")
        case _ if limit is GATEWAYS:
            return _count(clients.ec2, "describe_internet_gateways", "InternetGateways")
        case _ if limit is ADDRESSES:
            return len(clients.ec2.describe_addresses()["Addresses"])
        case _ if limit is INTERFACES:
            return _count(clients.ec2, "describe_network_interfaces", "NetworkInterfaces")
        case _ if limit is STORAGE:
            return _gp3_gib(clients.ec2)
        case _ if limit is CLUSTERS:
            return _count(clients.eks, "list_clusters", "clusters")
        case _ if limit is ROLES:
            return int(clients.iam.get_account_summary()["SummaryMap"]["Roles"])
    return 0


def _own_addresses(clients: Clients, stack: str) -> int:
    return len(clients.ec2.describe_addresses(Filters=[{"Name": f"tag:{STACK_TAG}", "Values": [stack]}])["Addresses"])


def _nat_gateways(ec2: Any, stack: str) -> dict[str, int]:
    """Return the number of NAT gateways of others in each zone."""
    pages = ec2.get_paginator("describe_nat_gateways").paginate(Filter=[{"Name": "state", "Values": list(LIVE_GATEWAYS)}])
    own = {"Key": STACK_TAG, "Value": stack}
    foreign = [gateway for page in pages for gateway in page["NatGateways"] if own not in gateway.get("Tags", ())]
    if not foreign:
        return {}
    subnets = ec2.get_paginator("describe_subnets").paginate()
    zones = {subnet["SubnetId"]: subnet["AvailabilityZone"] for page in subnets for subnet in page["Subnets"]}
    return dict(Counter(zones[gateway["SubnetId"]] for gateway in foreign if gateway["SubnetId"] in zones))


def _count(client: Any, operation: str, key: str) -> int:
    return sum(len(page[key]) for page in client.get_paginator(operation).paginate())


def _gp3_gib(ec2: Any) -> int:
    pages = ec2.get_paginator("describe_volumes").paginate(Filters=[{"Name": "volume-type", "Values": ["gp3"]}])
    return sum(volume["Size"] for page in pages for volume in page["Volumes"])


def _missing(clients: Clients, services: frozenset[str]) -> frozenset[str]:
    return frozenset(service for service in services if not _exists(clients, SERVICE_ROLES[service]))


def _exists(clients: Clients, role: str) -> bool:
    try:
        clients.iam.get_role(RoleName=role)
    except clients.iam.exceptions.NoSuchEntityException:
        return False
    return True
