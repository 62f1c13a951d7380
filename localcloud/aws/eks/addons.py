"""Add-ons: https://docs.aws.amazon.com/eks/latest/APIReference/API_CreateAddon.html

An add-on with a Deployment is DEGRADED (InsufficientNumberOfReplicas) while no node can run the Deployment.
"""

import uuid

from localcloud.aws import durations
from localcloud.aws.call import Call
from localcloud.aws.eks import addon_catalog, addon_configuration, pod_identity, updates
from localcloud.aws.eks.addon_catalog import CatalogAddon
from localcloud.aws.eks.errors import build_in_use_error, build_invalid_parameter_error, build_not_emulated_error
from localcloud.aws.eks.node_groups import nodes
from localcloud.aws.eks.principals import IAM_PRINCIPAL
from localcloud.aws.eks.state import (
    Addon,
    Cluster,
    Record,
    build_page,
    check_not_updating,
    check_tags,
    find_addon,
    find_cluster,
    find_usable_cluster,
    now,
    publish_addon,
)
from localcloud.aws.patching import operation

RESOLVE_CONFLICTS = ("OVERWRITE", "NONE", "PRESERVE")
NAMESPACE = "kube-system"
_NO_REPLICAS: Record = {
    "code": "InsufficientNumberOfReplicas",
    "message": "The add-on is unhealthy because it doesn't have the desired number of replicas.",
    "resourceIds": [],
}


@operation("eks", "CreateAddon")
def create_addon(call: Call) -> Record:
    cluster, params = find_usable_cluster(call), call.params
    name, token = params["addonName"], params.get("clientRequestToken", "")
    existing = cluster.addons.get(name)
    if existing is not None:
        if token and token == existing.token:
            return {"addon": existing.record}
        raise build_in_use_error("Addon already exists.", clusterName=cluster.name, addonName=name)
    offered = addon_catalog.find(name)
    if params.get("namespaceConfig", {}).get("namespace", NAMESPACE) != NAMESPACE:
        raise build_not_emulated_error(f"add-ons outside namespace {NAMESPACE}")
    version = params.get("addonVersion", offered.default(cluster.version))
    _check_addon_params(cluster, offered, version, params)
    record: Record = {
        "addonName": name,
        "clusterName": cluster.name,
        "addonVersion": version,
        "addonArn": cluster.build_arn("addon", name, str(uuid.uuid4())),
        "health": {"issues": []},
        "createdAt": now(),
        "modifiedAt": now(),
        "tags": check_tags(params.get("tags", {})),
        "owner": offered.owner,
        "publisher": "eks",
        "namespaceConfig": {"namespace": NAMESPACE},
    }
    for field in ("serviceAccountRoleArn", "configurationValues"):
        if params.get(field):
            record[field] = params[field]
    _create_pod_identities(call, cluster, record, params.get("podIdentityAssociations", []))
    addon = Addon(record, token)
    cluster.addons[name] = addon
    durations.schedule(
        record,
        "status",
        "CREATING",
        lambda: _finish_creation(cluster, addon),
        "eks-addon",
        gate=lambda: cluster.get_addon_progress(addon).done,
        fail=lambda reason: _mark_failed(addon, "CREATE_FAILED", reason),
    )
    publish_addon(cluster, addon, "created")
    return {"addon": record}


@operation("eks", "DescribeAddon")
def describe_addon(call: Call) -> Record:
    cluster = find_cluster(call)
    addon = find_addon(call, cluster)
    if addon.record["status"] in ("ACTIVE", "DEGRADED"):
        addon.record["status"] = _update_health(cluster, addon)
    return {"addon": addon.record}


@operation("eks", "ListAddons")
def list_addons(call: Call) -> Record:
    return build_page(call, "addons", sorted(find_cluster(call).addons))


@operation("eks", "UpdateAddon")
def update_addon(call: Call) -> Record:
    cluster, params = find_usable_cluster(call), call.params
    addon = find_addon(call, cluster)
    record, offered = addon.record, addon_catalog.find(addon.record["addonName"])
    version = str(params.get("addonVersion") or record["addonVersion"])
    _check_addon_params(cluster, offered, version, params, is_update=True)
    check_not_updating(f"addon {offered.name}", addon.updates, "AddonUpdate")
    if record["status"] not in ("ACTIVE", "DEGRADED", "CREATE_FAILED", "UPDATE_FAILED"):
        raise build_in_use_error(
            f"Addon {offered.name} cannot be updated as it is currently in {record['status']} state", addonName=offered.name
        )
    associations = params.get("podIdentityAssociations")
    if associations is not None:
        for association in associations:
            pod_identity.check_role(call, association["roleArn"])

    def finish_update(_: Record) -> None:
        record["addonVersion"] = version
        for field in ("serviceAccountRoleArn", "configurationValues"):
            if field in params:
                record[field] = params[field]
        if associations is not None:
            _delete_pod_identities(cluster, record)
            _create_pod_identities(call, cluster, record, associations)
        record.update(modifiedAt=now(), status=_update_health(cluster, addon))
        publish_addon(cluster, addon, "changed")

    update = updates.start_update(
        addon.updates,
        "AddonUpdate",
        {
            "AddonVersion": params.get("addonVersion"),
            "ServiceAccountRoleArn": params.get("serviceAccountRoleArn"),
            "ResolveConflicts": params.get("resolveConflicts"),
            "ConfigurationValues": params.get("configurationValues"),
            "PodIdentityAssociations": associations,
        },
        "eks-addon",
        finish_update,
        failed=lambda: record.update(status="UPDATE_FAILED"),
    )
    record["status"] = "UPDATING"
    return {"update": update}


@operation("eks", "DeleteAddon")
def delete_addon(call: Call) -> Record:
    """Delete the add-on. With `preserve`, the add-on's software stays in the cluster."""
    cluster = find_usable_cluster(call)
    addon = find_addon(call, cluster)
    record = addon.record
    check_not_updating(f"addon {record['addonName']}", addon.updates, "delete")

    def finish_deletion() -> None:
        _delete_pod_identities(cluster, record)
        if cluster.addons.get(record["addonName"]) is addon:
            del cluster.addons[record["addonName"]]
            if not call.params.get("preserve"):
                publish_addon(cluster, addon, "gone")

    durations.schedule(
        record,
        "status",
        "DELETING",
        "DELETED",
        "eks-addon-delete",
        then=finish_deletion,
        fail=lambda reason: _mark_failed(addon, "DELETE_FAILED", reason),
    )
    return {"addon": record}


def _check_addon_params(cluster: Cluster, offered: CatalogAddon, version: str, params: Record, is_update: bool = False) -> None:
    members = {"clusterName": cluster.name, "addonName": offered.name}
    if not offered.supports(version, cluster.version) and not (is_update and "addonVersion" not in params):
        raise build_invalid_parameter_error("Addon version specified is not supported", **members)
    if params.get("resolveConflicts", "NONE") not in RESOLVE_CONFLICTS:
        raise build_invalid_parameter_error(
            f"resolveConflicts {params['resolveConflicts']} is not valid. Valid values are: {', '.join(RESOLVE_CONFLICTS)}",
            **members,
        )
    if params.get("configurationValues"):
        addon_configuration.check_configuration(offered.name, params["configurationValues"])
    role = params.get("serviceAccountRoleArn")
    if role and ":role/" not in (role if IAM_PRINCIPAL.fullmatch(role) else ""):
        raise build_invalid_parameter_error(f"Service account role ARN {role} is not valid", **members)
    for association in params.get("podIdentityAssociations", []):
        if association["serviceAccount"] != offered.service_account:
            raise build_invalid_parameter_error(
                f"The service account {association['serviceAccount']} is not supported by add-on {offered.name}", **members
            )


def _create_pod_identities(call: Call, cluster: Cluster, record: Record, associations: list[Record]) -> None:
    created = [
        pod_identity.add_association(
            call, cluster, NAMESPACE, item["serviceAccount"], item["roleArn"], {}, owner=record["addonArn"]
        )
        for item in associations
    ]
    if created:
        record["podIdentityAssociations"] = [association["associationArn"] for association in created]


def _delete_pod_identities(cluster: Cluster, record: Record) -> None:
    for arn in record.pop("podIdentityAssociations", []):
        cluster.associations.pop(arn.rsplit("/", 1)[-1], None)


def _finish_creation(cluster: Cluster, addon: Addon) -> str:
    if problem := cluster.get_addon_progress(addon).problem:
        _mark_failed(addon, "CREATE_FAILED", problem)
        return "CREATE_FAILED"
    return _update_health(cluster, addon)


def _mark_failed(addon: Addon, status: str, reason: str) -> None:
    """https://docs.aws.amazon.com/eks/latest/APIReference/API_AddonIssue.html"""
    issue = {"code": "InternalFailure", "message": reason, "resourceIds": []}
    addon.record.update(status=status, health={"issues": [issue]})


def _update_health(cluster: Cluster, addon: Addon) -> str:
    """Set the health of an installed add-on and return its status. Health and status depend on whether a node can run
    the add-on's Deployment."""
    needs_nodes = addon_catalog.CATALOG[addon.record["addonName"]].needs_nodes
    healthy = not needs_nodes or nodes.can_run_deployments(cluster)
    addon.record["health"]["issues"] = [] if healthy else [_NO_REPLICAS]
    return "ACTIVE" if healthy else "DEGRADED"
