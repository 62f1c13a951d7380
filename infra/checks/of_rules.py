"""Checks built from the rules in `infra.validation`, which also stop `pulumi up`."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from infra import validation
from infra.checks.model import Answer, unknown
from infra.config.preflight import Examined
from infra.config.problems import Problem
from infra.facts import Facts
from infra.inventory.bill import Bill
from infra.settings.stack import Settings
from infra.validation import (
    access,
    budget,
    capacity,
    capacity_blocks,
    cluster,
    ec2_cluster,
    encryption,
    endpoints,
    jobs,
    lustre,
    moves,
    network,
    node_types,
    platform,
    pools,
    quotas,
    storage,
    subnets,
    zones,
)

STACK_FILE: Final = "stack file"
"""Name of the check that collects the problems from all rules that need no data from AWS."""
RESERVATIONS: Final = "reservations and Capacity Blocks"
BUDGET: Final = "budget"


@dataclass(frozen=True)
class Group:
    """A check that consists of validation rules."""

    name: str
    operations: tuple[str, ...]
    """AWS operations that the rules depend on."""
    rules: tuple[Any, ...]
    unread: tuple[str, ...] = ()
    """Prefixes of sentences in `Facts.unchecked`. If a sentence matches and no rule fails, the result is unknown."""


GROUPS: Final = (
    Group(
        "instance types and zones",
        ("ec2:DescribeInstanceTypes", "ec2:DescribeInstanceTypeOfferings", "ec2:DescribeAvailabilityZones"),
        (
            network.zones_exist,
            pools.types_exist,
            pools.types_have_gpus,
            pools.efa,
            pools.architectures,
            node_types.supported,
            node_types.launchers,
            node_types.workers,
            zones.of_pools,
            zones.of_system,
            ec2_cluster.head_node_zone,
        ),
    ),
    Group(
        "vCPU quotas",
        ("servicequotas:GetServiceQuota", "ec2:DescribeInstances", "ec2:DescribeCapacityReservations"),
        (quotas.enough,),
        ("vCPU quota", "running instances"),
    ),
    Group("node groups per cluster", ("servicequotas:GetServiceQuota",), (quotas.node_groups,), ("quota of node groups",)),
    Group(
        RESERVATIONS,
        ("ec2:DescribeCapacityReservations",),
        (capacity.purchase, capacity.reservations, capacity.reservation_sizes, capacity_blocks.with_nodes),
    ),
    Group("placement groups", ("ec2:DescribePlacementGroups",), (pools.placement_groups, pools.stale_placement)),
    Group("AMIs", ("ec2:DescribeImages",), (pools.images, ec2_cluster.ami, lustre.ami)),
    Group(
        "VPC endpoint services",
        ("ec2:DescribeVpcEndpointServices",),
        (endpoints.offered,),
        ("services that offer VPC endpoints",),
    ),
    Group(
        "existing VPC",
        (
            *("ec2:DescribeVpcs", "ec2:DescribeVpcAttribute", "ec2:DescribeSubnets", "ec2:DescribeRouteTables"),
            "ec2:DescribeVpcEndpoints",
        ),
        (subnets.existing_vpc, subnets.existing_subnets, subnets.routes_out),
        ("VPC endpoints of the existing VPC",),
    ),
    Group("free addresses in subnets", ("ec2:DescribeSubnets",), (subnets.enough_addresses,)),
    Group(
        "existing file system",
        (
            "elasticfilesystem:DescribeFileSystems",
            "elasticfilesystem:DescribeMountTargets",
            "elasticfilesystem:DescribeMountTargetSecurityGroups",
        ),
        (storage.existing_file_system, storage.nodes_can_mount),
        ("security groups of",),
    ),
    Group(
        "FSx for Lustre",
        (
            "fsx:DescribeFileSystems",
            "ec2:DescribeNetworkInterfaces",
            "ec2:DescribeSecurityGroups",
            "ec2:DescribeSubnets",
        ),
        (lustre.existing_file_system, lustre.nodes_can_mount, lustre.own_file_system),
    ),
    Group("bucket linked to FSx", ("s3:HeadBucket",), (lustre.bucket,), ("bucket ",)),
    Group("key of FSx", ("kms:DescribeKey",), (lustre.usable_key,), ("key of FSx",)),
    Group(
        "default key of EBS",
        ("ec2:GetEbsDefaultKmsKeyId", "kms:DescribeKey", "kms:GetKeyPolicy", "kms:ListGrants"),
        (encryption.default_key,),
        ("whether Auto Scaling may use",),
    ),
    Group(
        "Kubernetes version and add-ons",
        ("eks:DescribeClusterVersions", "eks:DescribeAddonVersions"),
        (cluster.offered_version, cluster.offered_addons),
        ("Kubernetes versions", "add-on versions"),
    ),
    Group(
        "cluster admins",
        ("sts:GetCallerIdentity", "iam:GetRole", "iam:GetUser"),
        (access.caller, access.admins_exist),
        ("the IAM role behind the caller", "whether arn:"),
    ),
    Group("changes of the existing cluster", ("eks:DescribeCluster", "ec2:DescribeSubnets"), (moves.vpc, moves.zones)),
    Group("upstream manifests", (), (platform.manifests, platform.reachable)),
    Group(BUDGET, ("pricing:GetProducts", "ec2:DescribeSpotPriceHistory"), (budget.within,)),
    Group("jobs fit their pools", (), (jobs.in_cluster,)),
)
"""Every rule that needs data from AWS belongs to exactly one group."""

KUBERNETES_ONLY: Final = frozenset(
    {
        "node groups per cluster",
        "Kubernetes version and add-ons",
        "cluster admins",
        "changes of the existing cluster",
        "upstream manifests",
    }
)


def answers(examined: Examined[Settings, Facts]) -> Iterator[Answer]:
    """Yield the result of each check, based on the problems that `validate` and `pulumi up` report."""
    settings, facts = examined.settings, examined.facts
    groups = [group for group in GROUPS if settings is not None and _applies(group, settings)]
    by_group = {group.name: _found(group, examined) for group in groups}
    attributed = {problem for found in by_group.values() for problem in found}
    rest = [problem for problem in (*examined.problems, *examined.warnings) if problem not in attributed]
    yield _answer(STACK_FILE, rest)
    for group in groups:
        if group.name == BUDGET:
            continue  # `of_budget` compares the budget with the bill, even without data from AWS
        if facts is None:
            yield unknown(group.name, examined.not_queried or "AWS was not queried")
            continue
        unread = [sentence for sentence in facts.unchecked if sentence.startswith(group.unread)] if group.unread else []
        answer = _answer(group.name, by_group[group.name])
        yield unknown(group.name, *unread) if unread and answer.verdict == "yes" else answer


def of_budget(settings: Settings, bill: Bill) -> Iterator[Answer]:
    """Compare the planned cluster's bill with the budget."""
    if settings.budget.is_set:
        yield _answer(BUDGET, list(budget.of_bill(settings, bill)))


def _applies(group: Group, settings: Settings) -> bool:
    """Return whether the stack uses the feature that the group checks."""
    parts = {
        "existing VPC": settings.network.is_existing,
        "free addresses in subnets": settings.network.is_existing,
        "existing file system": settings.storage.existing_file_system_id is not None,
        "FSx for Lustre": settings.storage.lustre is not None,
        "bucket linked to FSx": settings.storage.lustre is not None and settings.storage.lustre.data_repository is not None,
        "key of FSx": settings.storage.lustre is not None and settings.storage.lustre.kms_key_arn is not None,
        "VPC endpoint services": settings.network.has_interface_endpoints and not settings.network.is_existing,
        RESERVATIONS: any(pool.is_reserved for pool in settings.pools),
        "placement groups": any(pool.own_placement_group for pool in settings.pools),
        "AMIs": not settings.is_eks or any(pool.ami_id for pool in settings.pools),
        "jobs fit their pools": bool(settings.jobs),
        "upstream manifests": settings.installs_platform,
    }
    return parts.get(group.name, True) and (settings.is_eks or group.name not in KUBERNETES_ONLY)


def _found(group: Group, examined: Examined[Settings, Facts]) -> list[Problem]:
    """Return the problems from the group's rules, limited to problems that `validate` reports."""
    settings, facts = examined.settings, examined.facts
    if settings is None or facts is None:
        return []
    reported = {*examined.problems, *examined.warnings}
    of_target = {*validation.WITH_FACTS, *(validation.WITH_FACTS_EKS if settings.is_eks else validation.WITH_FACTS_EC2)}
    return [problem for rule in group.rules if rule in of_target for problem in rule(settings, facts) if problem in reported]


def _answer(name: str, problems: list[Problem]) -> Answer:
    errors = tuple(str(problem) for problem in problems if problem.is_error)
    warnings = tuple(str(problem) for problem in problems if not problem.is_error)
    return Answer(name, "no" if errors else "yes", errors, warnings)
