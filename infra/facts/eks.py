"""EKS queries: available versions, and the stack's existing cluster and pools."""

import os
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

from infra.config.messages import shown
from infra.config.problems import Problem, SettingsError
from infra.facts.clients import Clients
from infra.facts.ec2 import node_template, subnet_zones
from infra.facts.model import AddonVersions, Existing, ExistingPool, NodeTemplate
from infra.naming import ADDONS, PLACEMENT_TAG, POOL_TAG

PARALLEL = 4


def today() -> date:
    """Return the date to compare with the end of support for Kubernetes versions. Tests must not depend on the day they run,
    so GPUMPI_TODAY replaces it, such as 2026-11-28. Raises SettingsError if the variable is not a date."""
    fixed = os.environ.get("GPUMPI_TODAY")
    try:
        return date.fromisoformat(fixed) if fixed else datetime.now(UTC).date()
    except ValueError:
        fix = "Use one such as 2026-11-28, or unset the variable."
        raise SettingsError([Problem("GPUMPI_TODAY", f"{shown(fixed)} is not a date. {fix}")]) from None


def minor(version: str) -> int:
    """Return the minor version, such as 35 for `1.35`."""
    return int(version.partition(".")[2])


@dataclass(frozen=True)
class Versions:
    """Kubernetes versions."""

    offered: tuple[str, ...] = ()
    extended: frozenset[str] = frozenset()
    """Versions in extended support."""


def kubernetes_versions(clients: Clients) -> Versions:
    pages = clients.eks.get_paginator("describe_cluster_versions").paginate()
    statuses = {each["clusterVersion"]: each.get("versionStatus") for page in pages for each in page["clusterVersions"]}
    extended = frozenset(version for version, status in statuses.items() if status == "EXTENDED_SUPPORT")
    return Versions(tuple(sorted(statuses, key=minor)), extended)


def addon_versions(clients: Clients, kubernetes_version: str) -> dict[str, AddonVersions]:
    """Return the versions of the add-ons for a Kubernetes version. Omits add-ons that EKS does not offer."""
    with ThreadPoolExecutor(PARALLEL) as threads:
        versions = threads.map(lambda addon: _addon_versions(clients, kubernetes_version, addon), ADDONS)
        return {addon: answer for addon, answer in zip(ADDONS, versions, strict=True) if answer.offered}


def _addon_versions(clients: Clients, kubernetes_version: str, addon: str) -> AddonVersions:
    pages = clients.eks.get_paginator("describe_addon_versions").paginate(kubernetesVersion=kubernetes_version, addonName=addon)
    try:
        releases = [release for page in pages for each in page["addons"] for release in each["addonVersions"]]
    except clients.eks.exceptions.ResourceNotFoundException:
        releases = []
    defaults = [
        release["addonVersion"]
        for release in releases
        for each in release.get("compatibilities", ())
        if each["defaultVersion"] and each["clusterVersion"] == kubernetes_version
    ]
    return AddonVersions(frozenset(release["addonVersion"] for release in releases), next(iter(defaults), None))


def has_leftover_logs(clients: Clients, log_group: str) -> bool:
    """Return whether EKS has recreated the log group of a deleted cluster. EKS delivers the last audit logs minutes after
    the deletion. EKS sets neither a KMS key nor a retention period; this program, and most people, set one."""
    pages = clients.logs.get_paginator("describe_log_groups").paginate(logGroupNamePrefix=log_group)
    groups = (group for page in pages for group in page["logGroups"] if group["logGroupName"] == log_group)
    return any(not {"kmsKeyId", "retentionInDays"} & group.keys() for group in groups)


def existing(clients: Clients, name: str) -> Existing:
    """Return the stack's cluster and its pools, if they exist."""
    try:
        cluster = clients.eks.describe_cluster(name=name)["cluster"]
    except clients.eks.exceptions.ResourceNotFoundException:
        return Existing()
    network, groups = cluster["resourcesVpcConfig"], _node_groups(clients, name)
    zones = subnet_zones(clients, {*network["subnetIds"], *(subnet for group in groups for subnet in group["subnets"])})
    return Existing(
        cluster_version=cluster["version"],
        cluster_vpc_id=network["vpcId"],
        cluster_zones=_zones(network["subnetIds"], zones),
        support_type=cluster.get("upgradePolicy", {}).get("supportType"),
        has_public_endpoint=network.get("endpointPublicAccess", False),
        addon_versions=_installed_addons(clients, name),
        pools={
            group["tags"][POOL_TAG]: _pool(group, zones, _block_template(clients, group))
            for group in groups
            if group["subnets"][0] in zones
        },
    )


def _installed_addons(clients: Clients, cluster: str) -> dict[str, str]:
    pages = clients.eks.get_paginator("list_addons").paginate(clusterName=cluster)
    names = [name for page in pages for name in page["addons"] if name in ADDONS]
    with ThreadPoolExecutor(PARALLEL) as threads:
        versions = zip(names, threads.map(lambda name: _installed_version(clients, cluster, name), names), strict=True)
        return {name: version for name, version in versions if version}


def _installed_version(clients: Clients, cluster: str, addon: str) -> str | None:
    """Return the version of an add-on; None if it no longer exists."""
    try:
        return str(clients.eks.describe_addon(clusterName=cluster, addonName=addon)["addon"]["addonVersion"])
    except clients.eks.exceptions.ResourceNotFoundException:
        return None


def _node_groups(clients: Clients, cluster: str) -> list[Any]:
    """Return the node groups that are pools of the stack."""
    pages = clients.eks.get_paginator("list_nodegroups").paginate(clusterName=cluster)
    names = [name for page in pages for name in page["nodegroups"]]
    with ThreadPoolExecutor(PARALLEL) as threads:
        return [group for group in threads.map(lambda name: _node_group(clients, cluster, name), names) if group]


def _node_group(clients: Clients, cluster: str, name: str) -> Any:
    """Return a node group; None if it is not a pool, is being deleted or no longer exists."""
    try:
        group = clients.eks.describe_nodegroup(clusterName=cluster, nodegroupName=name)["nodegroup"]
    except clients.eks.exceptions.ResourceNotFoundException:
        return None
    return group if POOL_TAG in group.get("tags", {}) and group["status"] != "DELETING" else None


def _block_template(clients: Clients, group: Any) -> NodeTemplate | None:
    """Return the launch template of a node group in a Capacity Block; None for other node groups."""
    if group.get("capacityType") != "CAPACITY_BLOCK":
        return None
    return node_template(clients, group["launchTemplate"]["id"], group["launchTemplate"]["version"])


def _pool(group: Any, zones: Mapping[str, str], block_template: NodeTemplate | None) -> ExistingPool:
    scaling = group["scalingConfig"]
    return ExistingPool(
        zone=zones[group["subnets"][0]],
        min_size=scaling["minSize"],
        desired_size=scaling["desiredSize"],
        max_size=scaling["maxSize"],
        zones=_zones(group["subnets"], zones),
        subnet_ids=frozenset(group["subnets"]),
        instance_type=next(iter(group.get("instanceTypes") or ()), None),
        placement=group["tags"].get(PLACEMENT_TAG),
        failed=group["status"] == "CREATE_FAILED",
        node_group=group["nodegroupName"],
        version=group.get("version"),
        block_template=block_template,
    )


def _zones(subnet_ids: Iterable[str], zones: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(sorted({zones[subnet_id] for subnet_id in subnet_ids if subnet_id in zones}))
