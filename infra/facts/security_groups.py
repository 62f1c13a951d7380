"""Queries about security groups: which sources may reach a port, and which groups belong to a stack's nodes."""

from collections.abc import Collection, Mapping
from typing import Any

from infra.facts.clients import Clients


def read_ingress_sources(clients: Clients, group_ids: Collection[str], port: int) -> dict[str, frozenset[str]]:
    """Return the CIDRs, security groups and prefix lists from which each group allows traffic to a TCP port."""
    if not group_ids:
        return {}
    groups = clients.ec2.describe_security_groups(GroupIds=sorted(group_ids))["SecurityGroups"]
    return {group["GroupId"]: _find_sources(group["IpPermissions"], port) for group in groups}


def _find_sources(permissions: list[dict[str, Any]], port: int) -> frozenset[str]:
    sources: set[str] = set()
    for rule in permissions:
        if rule["IpProtocol"] == "-1" or (rule["IpProtocol"] == "tcp" and rule["FromPort"] <= port <= rule["ToPort"]):
            sources.update(source["CidrIp"] for source in rule.get("IpRanges", ()))
            sources.update(source["GroupId"] for source in rule.get("UserIdGroupPairs", ()) if "GroupId" in source)
            sources.update(source["PrefixListId"] for source in rule.get("PrefixListIds", ()))
    return frozenset(sources)


def find_node_security_groups(clients: Clients, *, nodes: Mapping[str, str], cluster: str) -> frozenset[str]:
    """Return the security groups of a stack's nodes: the one tagged `nodes`, and the one that EKS creates for the
    cluster and attaches to its nodes.
    """
    ids: set[str] = set()
    for tags in (nodes, {"aws:eks:cluster-name": cluster}):
        filters = [{"Name": f"tag:{key}", "Values": [value]} for key, value in tags.items()]
        ids.update(group["GroupId"] for group in clients.ec2.describe_security_groups(Filters=filters)["SecurityGroups"])
    return frozenset(ids)
