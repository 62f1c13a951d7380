"""Kubeconfig of an EKS cluster, and tokens that authenticate AWS credentials to it, as `aws eks get-token` creates them.

https://github.com/kubernetes-sigs/aws-iam-authenticator#api-authorization-from-outside-a-cluster
"""

import base64
import json
from typing import Final

PREFIX: Final = "k8s-aws-v1."
CLUSTER_HEADER: Final = "x-k8s-aws-id"
URL_SECONDS: Final = 60


def create_token(cluster: str, region: str) -> str:
    """Return a token: a presigned request to STS for the caller's identity. Signing needs no network."""
    import boto3.session  # imported here because it is slow to load, and not needed without a platform
    from botocore.signers import RequestSigner

    session = boto3.session.Session(region_name=region)
    client = session.client("sts")
    signer = RequestSigner(client.meta.service_model.service_id, region, "sts", "v4", session.get_credentials(), session.events)
    request = {
        "method": "GET",
        "url": f"{client.meta.endpoint_url}/?Action=GetCallerIdentity&Version=2011-06-15",
        "body": {},
        "headers": {CLUSTER_HEADER: cluster},
        "context": {},
    }
    url = signer.generate_presigned_url(request, region_name=region, expires_in=URL_SECONDS, operation_name="")
    return PREFIX + base64.urlsafe_b64encode(url.encode()).decode().rstrip("=")


def render_eks_kubeconfig(*, name: str, endpoint: str, certificate_authority: str, region: str) -> str:
    """Return a kubeconfig that authenticates users with their own AWS credentials."""
    arguments = ["eks", "get-token", "--cluster-name", name, "--region", region, "--output", "json"]
    command = {"apiVersion": "client.authentication.k8s.io/v1beta1", "command": "aws", "args": arguments}
    server = {"server": endpoint, "certificate-authority-data": certificate_authority}
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": name,
            "clusters": [{"name": name, "cluster": server}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
            "users": [{"name": name, "user": {"exec": {**command, "interactiveMode": "Never"}}}],
        }
    )
