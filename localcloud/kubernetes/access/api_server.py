"""kube-apiserver configuration: the local AWS authenticates users and evaluates EKS access policies via webhooks."""

from pathlib import Path
from urllib.parse import urlsplit

import yaml

from localcloud.control import Control

CACHE = "2s"
"""How long the API server caches webhook responses. Users keep access for this long after their access entry is
deleted."""
_TIMEOUT = "10s"


def prepare_webhook_flags(folder: Path, control: Control, region: str, cluster: str) -> list[str]:
    """Write the configuration files of both webhooks into `folder` and return the kube-apiserver flags.

    The flags replace --authorization-mode.
    """
    # The API server ignores the user of a kubeconfig whose server has no TLS, but not the user in the server's URL
    # (ClientConfig in https://github.com/kubernetes/client-go/blob/v0.35.0/tools/clientcmd/client_config.go).
    address = urlsplit(control.url).netloc
    base = f"http://api-server:{control.token}@{address}/local-cloud/kubernetes/{region}/{cluster}"
    tokens, access = folder / "token-review.kubeconfig", folder / "access-review.kubeconfig"
    tokens.write_text(_format_kubeconfig(f"{base}/token-review"))
    access.write_text(_format_kubeconfig(f"{base}/access-review"))
    authorization = folder / "authorization.yaml"
    authorization.write_text(yaml.safe_dump(_build_authorization_config(access)))
    return [
        f"--authentication-token-webhook-config-file={tokens}",
        "--authentication-token-webhook-version=v1",
        f"--authentication-token-webhook-cache-ttl={CACHE}",
        f"--authorization-config={authorization}",
    ]


def _format_kubeconfig(url: str) -> str:
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


def _build_authorization_config(kubeconfig: Path) -> dict[str, object]:
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
                    # Service accounts, nodes and Kubernetes components have no access entries, so only RBAC applies to them.
                    "matchConditions": [{"expression": "!request.user.startsWith('system:')"}],
                },
            },
        ],
    }
