"""EKS state of one account and region. Records are dicts in the format of EKS's Describe responses."""

from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from localcloud.aws import events
from localcloud.aws.call import Call
from localcloud.aws.eks.endpoints import Endpoint
from localcloud.aws.eks.errors import (
    build_in_use_error,
    build_invalid_parameter_error,
    build_invalid_request_error,
    build_not_found_error,
)
from localcloud.aws.patching import get_state

Record = dict[str, Any]


@dataclass(frozen=True)
class UserTemplate:
    """Launch template version used to create a node group. Without a launch template, all fields are empty."""

    id: str | None = None
    name: str | None = None
    version: str | None = None
    """Version number, even if the user specified $Latest or $Default."""
    data: Record = field(default_factory=dict)

    @property
    def image_id(self) -> str | None:
        return self.data.get("ImageId")

    @property
    def instance_type(self) -> str | None:
        return self.data.get("InstanceType")

    @property
    def record(self) -> Record:
        """The launch template in the format of DescribeNodegroup."""
        return {"id": self.id, "name": self.name, "version": self.version}


@dataclass
class NodeGroup:
    record: Record
    token: str
    """The client's idempotency token."""
    uuid: str
    """Part of the names of the resources that EKS creates for the node group."""
    types: list[str]
    """Instance types, preferred type first."""
    template: UserTemplate
    template_id: str | None = None
    """ID of EKS's own launch template, which is based on the user's launch template."""
    profile: str | None = None
    """Name of the instance profile that contains the node role."""
    updates: dict[str, Record] = field(default_factory=dict)
    repairs: dict[str, str] = field(default_factory=dict)
    """Maps the ID of an instance under node auto repair to the repair action."""

    @property
    def name(self) -> str:
        return str(self.record["nodegroupName"])

    @property
    def group_names(self) -> list[str]:
        return [group["name"] for group in self.record["resources"].get("autoScalingGroups", [])]


@dataclass
class Addon:
    record: Record
    token: str
    updates: dict[str, Record] = field(default_factory=dict)


@dataclass
class AccessEntry:
    record: Record
    policies: dict[str, Record] = field(default_factory=dict)
    """Maps each policy ARN to the access policy association."""


@dataclass
class Cluster:
    record: Record
    account: str
    region: str
    token: str
    creator: str | None
    """IAM principal that created the cluster."""
    self_managed_addons: bool
    """Whether vpc-cni, kube-proxy and CoreDNS were installed at creation as self-managed add-ons."""
    endpoint: Endpoint
    network_interfaces: list[str] = field(default_factory=list)
    node_groups: dict[str, NodeGroup] = field(default_factory=dict)
    addons: dict[str, Addon] = field(default_factory=dict)
    access_entries: dict[str, AccessEntry] = field(default_factory=dict)
    associations: dict[str, Record] = field(default_factory=dict)
    """Pod Identity associations, keyed by ID."""
    updates: dict[str, Record] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return str(self.record["name"])

    @property
    def status(self) -> str:
        return str(self.record["status"])

    @property
    def version(self) -> str:
        return str(self.record["version"])

    @property
    def authentication_mode(self) -> str:
        return str(self.record["accessConfig"]["authenticationMode"])

    def progress(self) -> events.Progress:
        """Return the realizer's progress toward the requested state of the cluster."""
        return events.query_progress("cluster", self.name, self.region, self.account)

    def get_node_group_progress(self, group: NodeGroup) -> events.Progress:
        """Return the realizer's progress toward the requested state of a node group's nodes."""
        return events.query_progress("node-group", f"{self.name}/{group.name}", self.region, self.account)

    def get_addon_progress(self, addon: Addon) -> events.Progress:
        """Return the realizer's progress in installing an add-on."""
        return events.query_progress("add-on", f"{self.name}/{addon.record['addonName']}", self.region, self.account)

    def build_arn(self, kind: str, *path: str) -> str:
        """Return the ARN of a resource of this cluster: arn:aws:eks:<region>:<account>:<kind>/<cluster>/..."""
        return "/".join((self.record["arn"].split(":cluster/")[0] + f":{kind}", self.name, *path))


@dataclass
class Eks:
    clusters: dict[str, Cluster] = field(default_factory=dict)


def clusters(call: Call) -> dict[str, Cluster]:
    return get_state(call.backend, Eks).clusters


def find_cluster(call: Call) -> Cluster:
    """Return the cluster specified in the call."""
    name = call.params.get("clusterName") or call.params.get("name") or ""
    cluster = clusters(call).get(name)
    if cluster is None:
        raise build_not_found_error(f"No cluster found for name: {name}.", clusterName=name)
    return cluster


def find_usable_cluster(call: Call) -> Cluster:
    """Return the cluster specified in the call. Raise EKS's error if the cluster is being created or deleted."""
    cluster = find_cluster(call)
    if cluster.status not in ("ACTIVE", "UPDATING"):
        raise build_invalid_request_error(f"Cluster '{cluster.name}' is not in ACTIVE status", clusterName=cluster.name)
    return cluster


def find_node_group(call: Call, cluster: Cluster) -> NodeGroup:
    name = call.params["nodegroupName"]
    group = cluster.node_groups.get(name)
    if group is None:
        raise build_not_found_error(f"No node group found for name: {name}.", clusterName=cluster.name, nodegroupName=name)
    return group


def find_addon(call: Call, cluster: Cluster) -> Addon:
    name = call.params["addonName"]
    addon = cluster.addons.get(name)
    if addon is None:
        raise build_not_found_error(
            f"No addon: {name} found in cluster: {cluster.name}", clusterName=cluster.name, addonName=name
        )
    return addon


def now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)


def build_page(call: Call, member: str, items: Iterable[Any], default_size: int = 100) -> Record:
    """Return one page of a List response. The token is the index of the next page's first item."""
    everything = list(items)
    token = call.params.get("nextToken") or "0"
    if not token.isdigit() or int(token) > len(everything):
        raise build_invalid_parameter_error("Invalid nextToken provided")
    start = int(token)
    end = start + int(call.params.get("maxResults") or default_size)
    answer: Record = {member: everything[start:end]}
    if end < len(everything):
        answer["nextToken"] = str(end)
    return answer


def check_tags(tags: dict[str, str]) -> dict[str, str]:
    """https://docs.aws.amazon.com/eks/latest/userguide/eks-using-tags.html#tag-restrictions"""
    if len(tags) > 50:
        raise build_invalid_parameter_error("Too many tags: a resource can have at most 50")
    for key, value in tags.items():
        if key.lower().startswith("aws:"):
            raise build_invalid_parameter_error(f"Tag key {key} is invalid: the prefix aws: is reserved")
        if not 1 <= len(key) <= 128 or len(value) > 256:
            raise build_invalid_parameter_error(f"Tag {key} is invalid: keys have 1 to 128 characters, values at most 256")
    return dict(tags)


def check_not_updating(owner: str, updates: dict[str, Record], update_type: str) -> None:
    """Raise ResourceInUseException while an update is in progress.

    https://docs.aws.amazon.com/eks/latest/APIReference/API_UpdateClusterConfig.html
    """
    for update in updates.values():
        if update["status"] == "InProgress":
            raise build_in_use_error(f"Cannot {update_type} because {owner} currently has update {update['id']} in progress")


def publish_cluster(cluster: Cluster, action: events.Action) -> None:
    details = {} if action == "gone" else deepcopy(cluster.record)
    events.publish_event(events.Event("cluster", action, cluster.name, cluster.region, cluster.account, details))


def publish_update(cluster: Cluster, update: Record) -> None:
    """Publish the start of an update of the cluster."""
    events.publish_event(events.Event("cluster", "updating", cluster.name, cluster.region, cluster.account, deepcopy(update)))


def publish_node_group(cluster: Cluster, group: NodeGroup, action: events.Action) -> None:
    details = {} if action == "gone" else deepcopy(group.record)
    events.publish_event(
        events.Event("node-group", action, f"{cluster.name}/{group.name}", cluster.region, cluster.account, details)
    )


def publish_addon(cluster: Cluster, addon: Addon, action: events.Action) -> None:
    """Publish an add-on event.

    Callers publish no event when an add-on is deleted with `preserve`, so the add-on's software stays in the cluster.
    """
    details = {} if action == "gone" else deepcopy(addon.record)
    name = f"{cluster.name}/{addon.record['addonName']}"
    events.publish_event(events.Event("add-on", action, name, cluster.region, cluster.account, details))
