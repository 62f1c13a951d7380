"""How an API server is told to ask the local AWS who somebody is and what EKS's access policies let them do."""

from pathlib import Path

import yaml

CACHE = "2s"
"""How long the API server remembers an answer: so long somebody whose entry was removed still gets in."""
_TIMEOUT = "10s"


def flags(folder: Path, endpoint: str, region: str, cluster: str) -> list[str]:
    """Write the files that describe both webhooks into `folder`; what kube-apiserver is to be started with.

    They stand for --authorization-mode. `endpoint` is the local AWS as the API server reaches it.
    """
    base = f"{endpoint}/local-cloud/kubernetes/{region}/{cluster}"
    tokens, access = folder / "token-review.kubeconfig", folder / "access-review.kubeconfig"
    tokens.write_text(_kubeconfig(f"{base}/token-review"))
    access.write_text(_kubeconfig(f"{base}/access-review"))
    authorization = folder / "authorization.yaml"
    authorization.write_text(yaml.safe_dump(_authorization(access)))
    return [
        f"--authentication-token-webhook-config-file={tokens}",
        "--authentication-token-webhook-version=v1",
        f"--authentication-token-webhook-cache-ttl={CACHE}",
        f"--authorization-config={authorization}",
    ]


def _kubeconfig(url: str) -> str:
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "local-aws", "cluster": {"server": url}}],
            "users": [{"name": "api-server"}],
            "contexts": [{"name": "webhook", "context": {"cluster": "local-aws", "user": "api-server"}}],
            "current-context": "webhook",
        }
    )


def _authorization(kubeconfig: Path) -> dict[str, object]:
    """https://kubernetes.io/docs/reference/access-authn-authz/authorization/#configuring-the-api-server-using-an-authorization-config-file"""
    return {
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "AuthorizationConfiguration",
        "authorizers": [
            {"type": "Node", "name": "node"},
            {"type": "RBAC", "name": "rbac"},
            {
                "type": "Webhook",
                "name": "eks-access-policies",
                "webhook": {
                    "authorizedTTL": CACHE,
                    "unauthorizedTTL": CACHE,
                    "timeout": _TIMEOUT,
                    "subjectAccessReviewVersion": "v1",
                    "matchConditionSubjectAccessReviewVersion": "v1",
                    "failurePolicy": "NoOpinion",
                    "connectionInfo": {"type": "KubeConfigFile", "kubeConfigFile": str(kubeconfig)},
                    # service accounts, nodes and Kubernetes' own parts have no access entry: RBAC alone decides about them
                    "matchConditions": [{"expression": "!request.user.startsWith('system:')"}],
                },
            },
        ],
    }
