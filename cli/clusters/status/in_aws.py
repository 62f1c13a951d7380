"""Read the part of an EKS cluster's status that only AWS knows, such as desired sizes and failed launches."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from cli.aws_queries import explain_query_error
from cli.clusters.status.cluster_status import BlockStatus, PoolStatus, Status
from cli.ec2.failed_launches import MOST_ACTIVITIES, FailedLaunch, find_last_failed_launch
from infra.facts.clients import Clients, Denied, is_error, query
from infra.naming import POOL_TAG, STACK_TAG, Naming

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class EksDescription:
    """An EKS cluster, as described by DescribeCluster."""

    name: str
    state: str
    version: str
    endpoint: str
    certificate_authority: str
    problems: tuple[str, ...]


class EksAccount:
    """Queries about one stack in its AWS account. They raise FactsError if AWS cannot be queried at all."""

    def __init__(self, stack: str, region: str) -> None:
        self.stack, self.region = stack, region
        self.name = Naming(stack).cluster
        self._clients = Clients(region)
        self.unknown: list[str] = []

    def cluster(self) -> EksDescription | None:
        """Return the cluster, or None if it does not exist. Raises Denied."""

        def describe() -> Mapping[str, Any] | None:
            try:
                cluster: Mapping[str, Any] = self._clients.eks.describe_cluster(name=self.name)["cluster"]
            except Exception as error:
                if is_error(error, "ResourceNotFoundException"):
                    return None
                raise
            return cluster

        described = query(self.region, describe)
        if described is None:
            return None
        return EksDescription(
            name=self.name,
            state=described["status"],
            version=described.get("version", ""),
            endpoint=described.get("endpoint", ""),
            certificate_authority=described.get("certificateAuthority", {}).get("data", ""),
            problems=tuple(_list_health_issues(described)),
        )

    def status(self, cluster: EksDescription) -> Status:
        """Return the status that AWS reports."""
        pools: dict[str, PoolStatus] = {}
        for group in self._list_node_groups():
            pool = self._read_pool_status(group)
            pools[pool.name] = _merge_pool_statuses(pools[pool.name], pool) if pool.name in pools else pool
        return Status(
            cluster=cluster.name,
            kind="eks",
            state=cluster.state,
            version=cluster.version,
            address=cluster.endpoint,
            pools=tuple(pools.values()),
            problems=cluster.problems,
            aws_time=self._clients.now(),
            unknown=tuple(dict.fromkeys(self.unknown)),
        )

    def _list_node_groups(self) -> list[Mapping[str, Any]]:
        eks = self._clients.eks
        pages = self._query_aws(lambda: list(eks.get_paginator("list_nodegroups").paginate(clusterName=self.name))) or []
        names = [name for page in pages for name in page["nodegroups"]]
        groups = [self._query_aws(partial(self._describe_node_group, name)) for name in names]
        return [group for group in groups if group and group.get("tags", {}).get(STACK_TAG) == self.stack]

    def _describe_node_group(self, name: str) -> Mapping[str, Any] | None:
        eks = self._clients.eks
        try:
            group: Mapping[str, Any] = eks.describe_nodegroup(clusterName=self.name, nodegroupName=name)["nodegroup"]
        except eks.exceptions.ResourceNotFoundException:
            return None  # the node group was deleted after it was listed
        return group

    def _read_pool_status(self, group: Mapping[str, Any]) -> PoolStatus:
        sizes = group.get("scalingConfig", {})
        names = [entry["name"] for entry in group.get("resources", {}).get("autoScalingGroups", ())]
        describe = self._clients.autoscaling.describe_auto_scaling_groups
        answer = self._query_aws(partial(describe, AutoScalingGroupNames=names)) if names else None
        groups: list[Mapping[str, Any]] = answer["AutoScalingGroups"] if answer else []
        state = group["status"]
        bad_state = (
            [] if state in ("ACTIVE", "CREATING", "UPDATING", "DELETING") and not list(_list_health_issues(group)) else [state]
        )
        return PoolStatus(
            name=group["tags"].get(POOL_TAG, group["nodegroupName"]),
            instance_type=", ".join(group.get("instanceTypes") or ()),
            wanted=sum(entry["DesiredCapacity"] for entry in groups) if groups else sizes.get("desiredSize"),
            min_size=sizes.get("minSize"),
            max_size=sizes.get("maxSize"),
            problems=tuple(f"node group {group['nodegroupName']} is {status}" for status in bad_state)
            + tuple(_list_health_issues(group)),
            last_failed_launch=self._find_last_failed_launch(names),
            capacity_block=self._read_capacity_block(group) if group.get("capacityType") == "CAPACITY_BLOCK" else None,
        )

    def _read_capacity_block(self, group: Mapping[str, Any]) -> BlockStatus | None:
        """Return the Capacity Block that the launch template of a node group references."""
        template = group.get("launchTemplate") or {}

        def read_block() -> BlockStatus | None:
            versions = self._clients.ec2.describe_launch_template_versions(
                LaunchTemplateId=template["id"], Versions=[template["version"]]
            )["LaunchTemplateVersions"]
            target = versions[0]["LaunchTemplateData"]["CapacityReservationSpecification"]["CapacityReservationTarget"]
            ids = [target["CapacityReservationId"]]
            [block] = self._clients.ec2.describe_capacity_reservations(CapacityReservationIds=ids)["CapacityReservations"]
            return BlockStatus(ids[0], block["State"], block["StartDate"], block["EndDate"]) if block.get("EndDate") else None

        return self._query_aws(read_block) if template else None

    def _find_last_failed_launch(self, groups: Iterable[str]) -> FailedLaunch | None:
        describe = self._clients.autoscaling.describe_scaling_activities
        launches = []
        for name in groups:
            answer = self._query_aws(partial(describe, AutoScalingGroupName=name, MaxRecords=MOST_ACTIVITIES))
            launches.append(find_last_failed_launch(answer["Activities"]) if answer else None)
        return max((launch for launch in launches if launch), key=lambda launch: launch.at, default=None)

    def _query_aws(self, question: Callable[[], Answer]) -> Answer | None:
        try:
            return query(self.region, question)
        except Denied as denied:
            self.unknown.append(explain_query_error(denied))
            return None


def _list_health_issues(described: Mapping[str, Any]) -> Iterable[str]:
    """Yield the health issues that EKS reports for a cluster or a node group."""
    for issue in described.get("health", {}).get("issues", ()):
        yield f"{issue.get('code', 'unhealthy')}: {' '.join(str(issue.get('message', '')).split())}"


def _merge_pool_statuses(pool: PoolStatus, other: PoolStatus) -> PoolStatus:
    """Combine the statuses of a pool's old and new node groups during a replacement."""
    launches = [launch for launch in (pool.last_failed_launch, other.last_failed_launch) if launch]
    return PoolStatus(
        name=pool.name,
        instance_type=pool.instance_type,
        wanted=(pool.wanted or 0) + (other.wanted or 0),
        min_size=max(pool.min_size or 0, other.min_size or 0),
        max_size=max(pool.max_size or 0, other.max_size or 0),
        problems=(*pool.problems, *other.problems, "two node groups: one is replacing the other"),
        last_failed_launch=max(launches, key=lambda launch: launch.at, default=None),
        capacity_block=pool.capacity_block or other.capacity_block,
    )
