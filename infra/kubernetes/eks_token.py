"""Tokens that authenticate this program's AWS credentials to an EKS cluster, as `aws eks get-token` creates them.

https://github.com/kubernetes-sigs/aws-iam-authenticator#api-authorization-from-outside-a-cluster
"""

import base64
from typing import Final

PREFIX: Final = "k8s-aws-v1."
CLUSTER_HEADER: Final = "x-k8s-aws-id"
URL_SECONDS: Final = 60


def token(cluster: str, region: str) -> str:
    """Return a token: a presigned request to STS for the caller's identity. Signing needs no network."""
    import boto3.session  # slow to load, and not needed without a platform
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
