"""Pod Identity associations: IAM roles for pods that use a given service account.

https://docs.aws.amazon.com/eks/latest/APIReference/API_CreatePodIdentityAssociation.html
https://docs.aws.amazon.com/eks/latest/userguide/pod-id-role.html
"""

import re
import uuid

from moto.moto_api._internal import mock_random

from localcloud.aws.call import Call
from localcloud.aws.eks.errors import (
    build_in_use_error,
    build_invalid_parameter_error,
    build_invalid_request_error,
    build_not_found_error,
)
from localcloud.aws.eks.principals import IAM_PRINCIPAL, find_role, trusts_service
from localcloud.aws.eks.state import Cluster, Record, build_page, check_tags, find_usable_cluster, now
from localcloud.aws.patching import operation

_KUBERNETES_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_SUMMARY = ("clusterName", "namespace", "serviceAccount", "associationArn", "associationId", "ownerArn")


@operation("eks", "CreatePodIdentityAssociation")
def create_pod_identity_association(call: Call) -> Record:
    cluster, params = find_usable_cluster(call), call.params
    for name, limit in (("namespace", 63), ("serviceAccount", 253)):
        if len(params[name]) > limit or not _KUBERNETES_NAME.fullmatch(params[name]):
            raise build_invalid_parameter_error(
                f"The {name} {params[name]!r} is not a valid Kubernetes name", clusterName=cluster.name
            )
    record = add_association(
        call, cluster, params["namespace"], params["serviceAccount"], params["roleArn"], check_tags(params.get("tags", {}))
    )
    record["disableSessionTags"] = params.get("disableSessionTags", False)
    _set_optional_members(record, params)
    return {"association": record}


@operation("eks", "DescribePodIdentityAssociation")
def describe_pod_identity_association(call: Call) -> Record:
    return {"association": _find_association(call, find_usable_cluster(call))}


@operation("eks", "ListPodIdentityAssociations")
def list_pod_identity_associations(call: Call) -> Record:
    filters = {name: call.params[name] for name in ("namespace", "serviceAccount") if name in call.params}
    summaries = [
        {name: record[name] for name in _SUMMARY if name in record}
        for record in find_usable_cluster(call).associations.values()
        if all(record[name] == value for name, value in filters.items())
    ]
    return build_page(call, "associations", summaries)


@operation("eks", "UpdatePodIdentityAssociation")
def update_pod_identity_association(call: Call) -> Record:
    cluster, params = find_usable_cluster(call), call.params
    record = _find_association(call, cluster)
    _check_not_owned_by_addon(record)
    if "roleArn" in params:
        check_role(call, params["roleArn"])
        record["roleArn"] = params["roleArn"]
    if "disableSessionTags" in params:
        record["disableSessionTags"] = params["disableSessionTags"]
    _set_optional_members(record, params)
    record["modifiedAt"] = now()
    return {"association": record}


@operation("eks", "DeletePodIdentityAssociation")
def delete_pod_identity_association(call: Call) -> Record:
    cluster = find_usable_cluster(call)
    record = _find_association(call, cluster)
    _check_not_owned_by_addon(record)
    del cluster.associations[record["associationId"]]
    return {"association": record}


def add_association(
    call: Call,
    cluster: Cluster,
    namespace: str,
    service_account: str,
    role_arn: str,
    tags: dict[str, str],
    owner: str | None = None,
) -> Record:
    """Create an association. `owner` is the ARN of the add-on that owns the association, if any."""
    check_role(call, role_arn)
    for other in cluster.associations.values():
        if (other["namespace"], other["serviceAccount"]) == (namespace, service_account):
            raise build_in_use_error(f"Association already exists: {other['associationId']}", clusterName=cluster.name)
    identifier = "a-" + mock_random.get_random_string(17, lower_case=True)
    record: Record = {
        "clusterName": cluster.name,
        "namespace": namespace,
        "serviceAccount": service_account,
        "roleArn": role_arn,
        "associationArn": cluster.build_arn("podidentityassociation", identifier),
        "associationId": identifier,
        "tags": tags,
        "createdAt": now(),
        "modifiedAt": now(),
        "disableSessionTags": False,
    }
    if owner is not None:
        record["ownerArn"] = owner
    cluster.associations[identifier] = record
    return record


def check_role(call: Call, arn: str) -> None:
    match = IAM_PRINCIPAL.fullmatch(arn)
    if match is None or match["kind"] != "role":
        raise build_invalid_parameter_error(f"Role ARN {arn} is not valid")
    if match["account"] != call.account:
        raise build_invalid_parameter_error(
            "Role provided in the request must be in the cluster's account. For a role of another account, use targetRoleArn"
        )
    role = find_role(call, arn)
    if role is None:
        raise build_invalid_parameter_error("Role provided in the request does not exist.")
    if not trusts_service(role, "pods.eks.amazonaws.com", "sts:AssumeRole", "sts:TagSession"):
        raise build_invalid_parameter_error(
            "Trust policy of the role provided is invalid. Follow the official documentation to resolve the issue."
        )


def _find_association(call: Call, cluster: Cluster) -> Record:
    record = cluster.associations.get(call.params["associationId"])
    if record is None:
        raise build_not_found_error(f"No association found with id: {call.params['associationId']}", clusterName=cluster.name)
    return record


def _check_not_owned_by_addon(record: Record) -> None:
    if "ownerArn" in record:
        raise build_invalid_request_error(
            f"Association {record['associationId']} is owned by {record['ownerArn']}. Change it through its owner."
        )


def _set_optional_members(record: Record, params: Record) -> None:
    """Set the optional members of an association. An empty `targetRoleArn` removes the target role.

    https://docs.aws.amazon.com/eks/latest/userguide/pod-id-assign-target-role.html
    """
    if params.get("policy") and not record["disableSessionTags"]:
        raise build_invalid_parameter_error("A session policy requires disableSessionTags to be true")
    if "policy" in params:
        record["policy"] = params["policy"]
    if "targetRoleArn" in params:
        record.pop("targetRoleArn", None)
        record.pop("externalId", None)
        if params["targetRoleArn"]:
            if not IAM_PRINCIPAL.fullmatch(params["targetRoleArn"]):
                raise build_invalid_parameter_error(f"Target role ARN {params['targetRoleArn']} is not valid")
            record["targetRoleArn"] = params["targetRoleArn"]
            record["externalId"] = f"{record['clusterName']}/{record['namespace']}/{record['serviceAccount']}/{uuid.uuid4()}"
