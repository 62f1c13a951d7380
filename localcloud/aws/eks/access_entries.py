"""Access entries: IAM principals that can use a cluster's Kubernetes API, with their user names and groups.

https://docs.aws.amazon.com/eks/latest/userguide/access-entries.html, .../creating-access-entries.html
"""

import uuid

from localcloud.aws.call import Call
from localcloud.aws.eks import access_policies
from localcloud.aws.eks.errors import (
    build_in_use_error,
    build_invalid_parameter_error,
    build_invalid_request_error,
    build_not_found_error,
)
from localcloud.aws.eks.principals import IAM_PRINCIPAL, principal_exists
from localcloud.aws.eks.state import AccessEntry, Cluster, Record, build_page, check_tags, find_usable_cluster, now
from localcloud.aws.patching import operation

RESERVED = ("amazon:", "aws:", "eks:", "iam:", "system:")
"""Prefixes that EKS rejects in user names and groups of an access entry."""
NODE_USER = "system:node:{{EC2PrivateDNSName}}"
NODE_GROUPS = {
    "EC2_LINUX": ["system:nodes"],
    "EC2_WINDOWS": ["eks:kube-proxy-windows", "system:nodes"],
    "FARGATE_LINUX": ["system:node-proxier", "system:nodes"],
    "HYBRID_LINUX": ["system:nodes"],
    "HYPERPOD_LINUX": ["system:nodes"],
    "EC2": ["system:nodes"],
}
"""Maps each type of access entry for nodes to the Kubernetes groups. EKS, not the user, sets the user name and groups of such
entries."""
TYPES = ("STANDARD", *NODE_GROUPS)


@operation("eks", "CreateAccessEntry")
def create_access_entry(call: Call) -> Record:
    cluster, arn, kind = _find_cluster(call), call.params["principalArn"], call.params.get("type", "STANDARD")
    _check_principal(call, arn)
    if kind not in TYPES:
        raise build_invalid_parameter_error(
            f"The type {kind} is not valid. Valid types are: {', '.join(TYPES)}", clusterName=cluster.name
        )
    if arn in cluster.access_entries:
        raise build_in_use_error(
            "The specified access entry resource is already in use on this cluster.", clusterName=cluster.name
        )
    username, groups = call.params.get("username"), call.params.get("kubernetesGroups", [])
    if kind != "STANDARD":
        if username or groups:
            raise build_invalid_parameter_error(f"An access entry of type {kind} cannot have a username or Kubernetes groups")
        if ":role/" not in arn:
            raise build_invalid_parameter_error(f"An access entry of type {kind} must have an IAM role as its principal")
        username, groups = NODE_USER, NODE_GROUPS[kind]
    else:
        _check_names(username, groups)
    entry = _add_entry(
        cluster, arn, kind, username or _build_default_username(arn), groups, check_tags(call.params.get("tags", {}))
    )
    return {"accessEntry": entry.record}


@operation("eks", "DescribeAccessEntry")
def describe_access_entry(call: Call) -> Record:
    return {"accessEntry": _find_entry(call, _find_cluster(call)).record}


@operation("eks", "ListAccessEntries")
def list_access_entries(call: Call) -> Record:
    policy = call.params.get("associatedPolicyArn")
    entries = sorted(_find_cluster(call).access_entries.items())
    return build_page(call, "accessEntries", [arn for arn, entry in entries if policy is None or policy in entry.policies])


@operation("eks", "UpdateAccessEntry")
def update_access_entry(call: Call) -> Record:
    record = _find_entry(call, _find_cluster(call)).record
    username, groups = call.params.get("username"), call.params.get("kubernetesGroups")
    if record["type"] != "STANDARD":
        raise build_invalid_request_error(f"An access entry of type {record['type']} cannot be updated")
    _check_names(username, groups or [])
    record["username"] = username or record["username"]
    record["kubernetesGroups"] = record["kubernetesGroups"] if groups is None else groups
    record["modifiedAt"] = now()
    return {"accessEntry": record}


@operation("eks", "DeleteAccessEntry")
def delete_access_entry(call: Call) -> Record:
    cluster = _find_cluster(call)
    entry = _find_entry(call, cluster)
    del cluster.access_entries[entry.record["principalArn"]]
    return {}


@operation("eks", "AssociateAccessPolicy")
def associate_access_policy(call: Call) -> Record:
    cluster, policy, scope = _find_cluster(call), call.params["policyArn"], call.params["accessScope"]
    entry = _find_entry(call, cluster)
    if policy not in access_policies.ARNS:
        raise build_invalid_parameter_error(f"The policyArn {policy} is not valid. List valid ones with 'list-access-policies'.")
    kind = entry.record["type"]
    if kind != "STANDARD" and not (kind == "EC2" and policy == access_policies.AUTO_NODE):
        raise build_invalid_request_error(f"Access policies cannot be associated with an access entry of type {kind}")
    association = associate_policy(entry, policy, _check_scope(scope))
    return {"clusterName": cluster.name, "principalArn": entry.record["principalArn"], "associatedAccessPolicy": association}


@operation("eks", "DisassociateAccessPolicy")
def disassociate_access_policy(call: Call) -> Record:
    entry = _find_entry(call, _find_cluster(call))
    if entry.policies.pop(call.params["policyArn"], None) is None:
        raise build_not_found_error(
            f"The policyArn {call.params['policyArn']} is not associated with the specified principalArn."
        )
    return {}


@operation("eks", "ListAssociatedAccessPolicies")
def list_associated_access_policies(call: Call) -> Record:
    cluster = _find_cluster(call)
    entry = _find_entry(call, cluster)
    answer = build_page(call, "associatedAccessPolicies", entry.policies.values())
    return answer | {"clusterName": cluster.name, "principalArn": entry.record["principalArn"]}


def add_creator_entry(cluster: Cluster) -> None:
    """Add the access entry that makes the cluster's creator an admin, if requested."""
    arn = cluster.creator
    if (
        arn is None
        or not cluster.record["accessConfig"]["bootstrapClusterCreatorAdminPermissions"]
        or arn in cluster.access_entries
    ):
        return
    entry = _add_entry(cluster, arn, "STANDARD", _build_default_username(arn), [], {})
    associate_policy(entry, access_policies.CLUSTER_ADMIN, {"type": "cluster", "namespaces": []})


def add_node_entry(cluster: Cluster, role_arn: str) -> None:
    """Add the access entry that lets nodes of a managed node group join the cluster.

    As on EKS, the entry outlives the node group.
    """
    if cluster.authentication_mode != "CONFIG_MAP" and role_arn not in cluster.access_entries:
        _add_entry(cluster, role_arn, "EC2_LINUX", NODE_USER, NODE_GROUPS["EC2_LINUX"], {})


def associate_policy(entry: AccessEntry, policy: str, scope: Record) -> Record:
    """Associate an access policy, or replace its scope if it is already associated."""
    since = entry.policies.get(policy, {}).get("associatedAt", now())
    entry.policies[policy] = {"policyArn": policy, "accessScope": scope, "associatedAt": since, "modifiedAt": now()}
    return entry.policies[policy]


def _add_entry(cluster: Cluster, arn: str, kind: str, username: str, groups: list[str], tags: dict[str, str]) -> AccessEntry:
    principal, account, name = arn.split(":")[5].split("/", 1)[0], arn.split(":")[4], arn.rsplit("/", 1)[-1]
    record: Record = {
        "clusterName": cluster.name,
        "principalArn": arn,
        "kubernetesGroups": list(groups),
        "accessEntryArn": cluster.build_arn("access-entry", principal, account, name, str(uuid.uuid4())),
        "createdAt": now(),
        "modifiedAt": now(),
        "tags": tags,
        "username": username,
        "type": kind,
    }
    cluster.access_entries[arn] = AccessEntry(record)
    return cluster.access_entries[arn]


def _find_cluster(call: Call) -> Cluster:
    cluster = find_usable_cluster(call)
    if cluster.authentication_mode == "CONFIG_MAP":
        raise build_invalid_request_error(
            "The cluster's authentication mode must be set to one of [API, API_AND_CONFIG_MAP] to perform this operation.",
            clusterName=cluster.name,
        )
    return cluster


def _find_entry(call: Call, cluster: Cluster) -> AccessEntry:
    entry = cluster.access_entries.get(call.params["principalArn"])
    if entry is None:
        raise build_not_found_error(
            "The specified principalArn could not be found. "
            "You can view your available access entries with 'list-access-entries'.",
            clusterName=cluster.name,
        )
    return entry


def _check_principal(call: Call, arn: str) -> None:
    """Check that the principal is an IAM user or role, not an account's root user or a role session."""
    if not IAM_PRINCIPAL.fullmatch(arn):
        raise build_invalid_parameter_error("The principalArn parameter format is not valid")
    if ":role/aws-service-role/" in arn:
        raise build_invalid_parameter_error(
            "The caller is not allowed to modify access entries with a principalArn value of a Service Linked Role"
        )
    if not principal_exists(call, arn):
        raise build_invalid_parameter_error("The specified principalArn is invalid: invalid principal.")


def _check_names(username: str | None, groups: list[str]) -> None:
    for prefix in RESERVED:
        if username is not None and username.startswith(prefix):
            raise build_invalid_parameter_error(f"The username {username} is invalid, it cannot start with {prefix}")
        for group in groups:
            if group.startswith(prefix):
                raise build_invalid_parameter_error(
                    f"The kubernetes group name {group} is invalid, it cannot start with {prefix}"
                )


def _build_default_username(arn: str) -> str:
    match = IAM_PRINCIPAL.fullmatch(arn)
    if match is not None and match["kind"] == "role":
        return f"arn:aws:sts::{match['account']}:assumed-role/{match['name']}/{{{{SessionName}}}}"
    return arn


def _check_scope(scope: Record) -> Record:
    kind, namespaces = scope.get("type"), scope.get("namespaces") or []
    if kind not in ("cluster", "namespace"):
        raise build_invalid_parameter_error(f"The access scope type {kind} is not valid. Valid types are: cluster, namespace")
    if kind == "namespace" and not namespaces:
        raise build_invalid_parameter_error("An access scope of type namespace requires at least one namespace")
    if kind == "cluster" and namespaces:
        raise build_invalid_parameter_error("An access scope of type cluster cannot have namespaces")
    return {"type": kind, "namespaces": namespaces}
