"""Issue credentials for a pod, as the API operation AssumeRoleForPodIdentity does:
https://docs.aws.amazon.com/eks/latest/APIReference/API_auth_AssumeRoleForPodIdentity.html"""

import uuid
from dataclasses import dataclass
from datetime import timedelta

from localcloud.aws import sts
from localcloud.aws.call import backend_of
from localcloud.aws.eks import callers, joining
from localcloud.aws.eks.state import Cluster, Eks, Record
from localcloud.aws.patching import get_state

SERVICE = "pods.eks.amazonaws.com"
ROLE_TIME = timedelta(hours=6)
TARGET_ROLE_TIME = timedelta(hours=1)
"""Maximum session duration for role chaining: https://docs.aws.amazon.com/IAM/latest/UserGuide/id_roles.html"""


class CredentialsRefused(Exception):
    """EKS rejects the request for credentials. The message contains EKS's error code and the reason."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(f"({code}): {message}")
        self.status = status


@dataclass(frozen=True)
class Pod:
    """The pod to which a service account token is bound."""

    namespace: str
    service_account: str
    name: str
    uid: str
    node: str = ""
    """Name of the pod's node; empty if the API server does not report it."""


def find_association(account: str, region: str, cluster: str, namespace: str, service_account: str) -> Record | None:
    """Return a service account's Pod Identity association. Callers of this module's functions must hold the gateway's
    lock."""
    eks_cluster = _find_cluster(account, region, cluster)
    if eks_cluster is None:
        return None
    owner = (namespace, service_account)
    return next(
        (record for record in eks_cluster.associations.values() if (record["namespace"], record["serviceAccount"]) == owner), None
    )


def assume_pod_role(account: str, region: str, cluster: str, pod: Pod) -> dict[str, str]:
    """Return credentials in the format that AWS SDKs expect. Raises CredentialsRefused."""
    record = find_association(account, region, cluster, pod.namespace, pod.service_account)
    eks_cluster = _find_cluster(account, region, cluster)
    if record is None or eks_cluster is None:
        who = f"service account {pod.service_account} in namespace {pod.namespace}"
        raise CredentialsRefused(404, "ResourceNotFoundException", f"There is no association for {who} in cluster {cluster}")
    node = joining.find_node(eks_cluster, pod.node) if pod.node else None
    if node is not None and (problem := joining.find_credentials_problem(eks_cluster, node)):
        raise CredentialsRefused(500, "InternalServerException", problem)
    tags = {} if record.get("disableSessionTags") else _build_session_tags(eks_cluster, pod)
    role, name, subnets = (
        record["roleArn"],
        _build_session_name(cluster, pod),
        eks_cluster.record["resourcesVpcConfig"]["subnetIds"],
    )
    # AWS does not document aws:SourceArn for Pod Identity, so a condition on it never holds.
    source = {"aws:sourceaccount": account}
    try:
        session = sts.open_session(
            region, role, ("Service", SERVICE), name=name, lifetime=ROLE_TIME, tags=tags, context=source, subnets=subnets
        )
        if target := record.get("targetRoleArn"):
            context = {"sts:externalid": record["externalId"], "aws:principalarn": role}
            session = sts.open_session(
                region,
                target,
                ("AWS", role),
                name=name,
                lifetime=TARGET_ROLE_TIME,
                tags=tags,
                context=context,
                subnets=subnets,
            )
    except sts.NotTrusted as role_arn:
        text = f"Unauthorized Exception! EKS does not have permissions to assume {role_arn}"
        raise CredentialsRefused(400, "AccessDeniedException", text) from None
    if node is not None:
        callers.set_calling_instance(session, node.id)
    return {
        "AccessKeyId": session.access_key_id,
        "SecretAccessKey": session.secret_access_key,
        "Token": session.session_token,
        "AccountId": session.account_id,
        "Expiration": session.expiration.strftime("%Y-%m-%dT%H:%M:%SZ"),
    }


def _build_session_tags(cluster: Cluster, pod: Pod) -> dict[str, str]:
    """https://docs.aws.amazon.com/eks/latest/userguide/pod-id-abac.html"""
    return {
        "eks-cluster-arn": cluster.record["arn"],
        "eks-cluster-name": cluster.name,
        "kubernetes-namespace": pod.namespace,
        "kubernetes-service-account": pod.service_account,
        "kubernetes-pod-name": pod.name,
        "kubernetes-pod-uid": pod.uid,
    }


def _build_session_name(cluster: str, pod: Pod) -> str:
    """Return a session name of at most 64 characters."""
    return f"eks-{cluster[:12]}-{pod.name[:10]}-{uuid.uuid4()}"[:64]


def _find_cluster(account: str, region: str, name: str) -> Cluster | None:
    return get_state(backend_of("eks", account, region), Eks).clusters.get(name)
