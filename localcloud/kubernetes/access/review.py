"""The API server's two webhooks: authentication (TokenReview) and EKS's access policies (SubjectAccessReview).

Access policies are evaluated in addition to RBAC, as on EKS: docs/adr/0010-access-policies-by-webhook.md
"""

import logging
from datetime import UTC, datetime
from typing import Any
from xml.etree import ElementTree

from moto.core.request import Request

from localcloud.aws import control_actions, gateway, identity, listening, transport
from localcloud.aws.account import ACCOUNT
from localcloud.aws.call import backend_of
from localcloud.aws.ec2 import instance_calls
from localcloud.aws.eks.state import Cluster, Eks
from localcloud.aws.patching import get_state
from localcloud.kubernetes.access import entries, policies
from localcloud.kubernetes.access.entries import Identity
from localcloud.kubernetes.access.token import CLUSTER_HEADER, IdentityRequest, InvalidToken, parse

log = logging.getLogger(__name__)

PATH = "kubernetes/{region}/{cluster}"
CANONICAL_ARN = "canonicalArn"
"""Key of the IAM principal's ARN in the user's `extra` field. The webhook for SubjectAccessReviews looks up the access
entry by this ARN."""


@control_actions.action("POST", f"{PATH}/token-review")
def review_token(body: Any, region: str, cluster: str) -> Any:
    answer = {"apiVersion": body["apiVersion"], "kind": "TokenReview"}
    try:
        user = authenticate(_get_cluster(region, cluster), body["spec"]["token"], datetime.now(UTC))
    except InvalidToken as error:
        log.info("%s: refused: %s", cluster, error)
        return answer | {"status": {"authenticated": False, "error": str(error)}}
    return answer | {"status": {"authenticated": True, "user": user}}


@control_actions.action("POST", f"{PATH}/access-review")
def review_access(body: Any, region: str, cluster: str) -> Any:
    policy = authorize(_get_cluster(region, cluster), body["spec"])
    status = {"allowed": policy is not None, "reason": f"EKS access policy {policy}" if policy else ""}
    return {"apiVersion": body["apiVersion"], "kind": "SubjectAccessReview", "status": status}


def authenticate(cluster: Cluster, token: str, now: datetime) -> dict[str, Any]:
    """Return the Kubernetes user that a token authenticates. Raises InvalidToken."""
    request = parse(token)
    if not listening.is_own_address(request.host):
        raise InvalidToken(f"the token is for STS at {request.host}, which is not this local cloud's endpoint")
    request.check_expiry(now)
    _verify_signature(cluster, request)
    who = _query_sts_identity(request, cluster.name)
    name, groups = _map_to_user(cluster, who)
    role_or_user_id = who.user_id.split(":")[0]
    return {
        "username": name,
        "uid": f"aws-iam-authenticator:{who.principal.account}:{role_or_user_id}",
        "groups": groups,
        "extra": {
            "accessKeyId": [who.access_key],
            "arn": [who.arn],
            CANONICAL_ARN: [who.principal.arn],
            "principalId": [role_or_user_id],
            "sessionName": [who.session or ""],
        },
    }


def authorize(cluster: Cluster, spec: dict[str, Any]) -> str | None:
    """Return the name of the access policy that allows the request in a SubjectAccessReview; None means no opinion."""
    for arn in spec.get("extra", {}).get(CANONICAL_ARN, []):
        who = entries.parse_principal(arn)
        entry = entries.find_access_entry(cluster.access_entries.values(), who) if who is not None else None
        if entry is not None and (allowing := policies.find_allowing_policy(entry.policies.values(), spec)):
            return allowing
    return None


def _get_cluster(region: str, name: str) -> Cluster:
    cluster = get_state(backend_of("eks", ACCOUNT, region), Eks).clusters.get(name)
    if cluster is None:
        raise ValueError(f"cluster {name} does not exist in {region}")
    return cluster


def _verify_signature(cluster: Cluster, request: IdentityRequest) -> None:
    """Check the signature with the secret key from the local IAM: only the server checks the signatures of requests."""
    key = backend_of("iam", ACCOUNT, request.region).access_keys.get(request.access_key)
    session = backend_of("sts", ACCOUNT, request.region).get_assumed_role_from_access_key(request.access_key)
    if key is None or identity.find_session_token(key, session) != request.session_token:
        raise InvalidToken("the security token included in the request is invalid")
    request.check_signature(key.secret_access_key, cluster.name)


def _query_sts_identity(request: IdentityRequest, cluster: str) -> Identity:
    sent = Request.from_primitives("GET", request.url, {"host": request.host, CLUSTER_HEADER: cluster})
    status, _, body = gateway.handle_request("sts", sent, lambda: transport.forward_by_path("sts", sent))
    elements = {element.tag.rsplit("}", 1)[-1]: element.text or "" for element in ElementTree.fromstring(body).iter()}
    if status != 200:
        raise InvalidToken(f"STS returned {status}: {elements.get('Message', '')}")
    who = entries.parse_identity(elements["Arn"], elements["UserId"], request.access_key)
    if who is None:
        raise InvalidToken(f"{elements['Arn']} is not an IAM user or role")
    return who


def _map_to_user(cluster: Cluster, who: Identity) -> tuple[str, list[str]]:
    """Return the caller's Kubernetes user name and groups. Raises InvalidToken if the caller has no access."""
    if cluster.authentication_mode == "CONFIG_MAP":
        # On EKS, the cluster creator is an administrator, although no API lists this permission. The local cloud does not
        # evaluate the ConfigMap aws-auth.
        if who.principal == entries.parse_principal(cluster.creator or ""):
            return "kubernetes-admin", ["system:masters"]
        raise InvalidToken(
            f"{who.principal.arn} did not create the cluster; with authentication mode CONFIG_MAP only its creator has access"
        )
    entry = entries.find_access_entry(cluster.access_entries.values(), who.principal)
    if entry is None:
        raise InvalidToken(f"{who.principal.arn} has no access entry in cluster {cluster.name}")
    record = entry.record
    name = entries.render_username(record["username"], who, lambda instance: _find_private_dns_name(cluster, instance))
    if name is None:
        raise InvalidToken(
            f"{who.arn} is not the session of an EC2 instance, which access entries of type {record['type']} require"
        )
    return name, list(record["kubernetesGroups"])


def _find_private_dns_name(cluster: Cluster, instance_id: str) -> str | None:
    """Return the private DNS name of the instance with this ID; None if there is no such instance."""
    instances = instance_calls.list_instances(backend_of("ec2", cluster.account, cluster.region))
    return next((str(instance.private_dns_name) for instance in instances if instance.id == instance_id), None)
