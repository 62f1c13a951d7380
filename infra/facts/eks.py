"""EKS queries: available versions, and the stack's existing cluster and pools."""

import os
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any, TypeVar

from infra.config.messages import format_value
from infra.config.problems import Problem, SettingsError
from infra.facts.clients import Clients, read_pages
from infra.facts.ec2 import read_node_template, read_subnet_zones
from infra.facts.model import AddonVersions, Existing, ExistingPool, NodeTemplate
from infra.naming import ADDONS, PLACEMENT_TAG, POOL_TAG

Answer = TypeVar("Answer")

PARALLEL = 4


def get_current_date() -> date:
    """Return the date to compare with the end of support for Kubernetes versions. Tests must not depend on the day on
    which they run, so GPUMPI_TODAY, such as 2026-11-28, replaces the date. Raises SettingsError if the variable is
    not a date."""
    fixed = os.environ.get("GPUMPI_TODAY")
    try:
        return date.fromisoformat(fixed) if fixed else datetime.now(UTC).date()
    except ValueError:
        fix = "Use one such as 2026-11-28, or unset the variable."
        raise SettingsError([Problem("GPUMPI_TODAY", f"{format_value(fixed)} is not a date. {fix}")]) from None


def parse_minor_version(version: str) -> int:
    """Return the minor version, such as 35 for `1.35`."""
    return int(version.partition(".")[2])


@dataclass(frozen=True)
class Versions:
    """Kubernetes versions."""

    offered: tuple[str, ...] = ()
    extended: frozenset[str] = frozenset()
    """Versions in extended support."""


def read_kubernetes_versions(clients: Clients) -> Versions:
    versions = read_pages(clients.eks, "describe_cluster_versions", "clusterVersions")
    statuses = {each["clusterVersion"]: each.get("versionStatus") for each in versions}
    extended = frozenset(version for version, status in statuses.items() if status == "EXTENDED_SUPPORT")
    return Versions(tuple(sorted(statuses, key=parse_minor_version)), extended)


def read_addon_versions(clients: Clients, kubernetes_version: str) -> dict[str, AddonVersions]:
    """Return the versions of the add-ons for a Kubernetes version. Omits add-ons that EKS does not offer."""
    answers = _read_in_parallel(lambda addon: _query_addon_versions(clients, kubernetes_version, addon), ADDONS)
    return {addon: versions for addon, versions in answers if versions.offered}


def _query_addon_versions(clients: Clients, kubernetes_version: str, addon: str) -> AddonVersions:
    names = {"kubernetesVersion": kubernetes_version, "addonName": addon}
    try:
        addons = read_pages(clients.eks, "describe_addon_versions", "addons", **names)
    except clients.eks.exceptions.ResourceNotFoundException:
        addons = []
    releases = [release for each in addons for release in each["addonVersions"]]
    defaults = [
        release["addonVersion"]
        for release in releases
        for each in release.get("compatibilities", ())
        if each["defaultVersion"] and each["clusterVersion"] == kubernetes_version
    ]
    return AddonVersions(frozenset(release["addonVersion"] for release in releases), next(iter(defaults), None))


def has_leftover_logs(clients: Clients, log_group: str) -> bool:
    """Return whether EKS has recreated the log group of a deleted cluster. EKS delivers the last audit logs minutes after
    the deletion. EKS sets neither a KMS key nor a retention period; this program, and most people, set both."""
    groups = read_pages(clients.logs, "describe_log_groups", "logGroups", logGroupNamePrefix=log_group)
    return any(group["logGroupName"] == log_group and not {"kmsKeyId", "retentionInDays"} & group.keys() for group in groups)


def read_existing_cluster(clients: Clients, name: str) -> Existing:
    """Return the stack's cluster and its pools, if they exist."""
    cluster = _describe_resource(clients, "describe_cluster", name=name)
    if cluster is None:
        return Existing()
    network, groups = cluster["resourcesVpcConfig"], _list_node_groups(clients, name)
    zones = read_subnet_zones(clients, {*network["subnetIds"], *(subnet for group in groups for subnet in group["subnets"])})
    return Existing(
        cluster_version=cluster["version"],
        cluster_vpc_id=network["vpcId"],
        cluster_zones=_list_zones(network["subnetIds"], zones),
        support_type=cluster.get("upgradePolicy", {}).get("supportType"),
        has_public_endpoint=network.get("endpointPublicAccess", False),
        addon_versions=_read_installed_addons(clients, name),
        pools={
            group["tags"][POOL_TAG]: _convert_pool(group, zones, _read_block_template(clients, group))
            for group in groups
            if group["subnets"][0] in zones
        },
    )


def _read_installed_addons(clients: Clients, cluster: str) -> dict[str, str]:
    names = [name for name in read_pages(clients.eks, "list_addons", "addons", clusterName=cluster) if name in ADDONS]
    addons = _read_in_parallel(
        lambda name: _describe_resource(clients, "describe_addon", clusterName=cluster, addonName=name), names
    )
    return {name: addon["addonVersion"] for name, addon in addons if addon}


def _list_node_groups(clients: Clients, cluster: str) -> list[Any]:
    """Return the node groups that are pools of the stack and are not being deleted."""
    names = read_pages(clients.eks, "list_nodegroups", "nodegroups", clusterName=cluster)
    groups = _read_in_parallel(
        lambda name: _describe_resource(clients, "describe_nodegroup", clusterName=cluster, nodegroupName=name), names
    )
    return [group for _, group in groups if group and POOL_TAG in group.get("tags", {}) and group["status"] != "DELETING"]


def _describe_resource(clients: Clients, operation: str, **names: str) -> Any:
    """Return a cluster, node group or add-on; None if it does not exist."""
    try:
        return getattr(clients.eks, operation)(**names)[operation.removeprefix("describe_")]
    except clients.eks.exceptions.ResourceNotFoundException:
        return None


def _read_in_parallel(read: Callable[[str], Answer], names: Collection[str]) -> list[tuple[str, Answer]]:
    with ThreadPoolExecutor(PARALLEL) as threads:
        return list(zip(names, threads.map(read, names), strict=True))


def _read_block_template(clients: Clients, group: Any) -> NodeTemplate | None:
    """Return the launch template of a node group in a Capacity Block; None for other node groups."""
    if group.get("capacityType") != "CAPACITY_BLOCK":
        return None
    return read_node_template(clients, group["launchTemplate"]["id"], group["launchTemplate"]["version"])


def _convert_pool(group: Any, zones: Mapping[str, str], block_template: NodeTemplate | None) -> ExistingPool:
    scaling = group["scalingConfig"]
    return ExistingPool(
        zone=zones[group["subnets"][0]],
        min_size=scaling["minSize"],
        desired_size=scaling["desiredSize"],
        max_size=scaling["maxSize"],
        zones=_list_zones(group["subnets"], zones),
        subnet_ids=frozenset(group["subnets"]),
        instance_type=next(iter(group.get("instanceTypes") or ()), None),
        placement=group["tags"].get(PLACEMENT_TAG),
        failed=group["status"] == "CREATE_FAILED",
        node_group=group["nodegroupName"],
        version=group.get("version"),
        block_template=block_template,
    )


def _list_zones(subnet_ids: Iterable[str], zones: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(sorted({zones[subnet_id] for subnet_id in subnet_ids if subnet_id in zones}))
