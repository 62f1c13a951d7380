"""Kubeconfig of an EKS cluster."""

import json


def kubeconfig(*, name: str, endpoint: str, certificate_authority: str, region: str) -> str:
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
