"""Kubeconfigs with client certificates, for programs inside a cluster's namespace."""

import json
from pathlib import Path

from localcloud.kubernetes.pki import Certificate


def format_kubeconfig(cluster: str, server: str, authority: Path, user: str, certificate: Certificate) -> str:
    """Return the text of a kubeconfig with one user. The text is JSON, which is valid YAML."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": cluster, "cluster": {"server": server, "certificate-authority": str(authority)}}],
        "users": [
            {"name": user, "user": {"client-certificate": str(certificate.file), "client-key": str(certificate.key)}},
        ],
        "contexts": [{"name": cluster, "context": {"cluster": cluster, "user": user}}],
        "current-context": cluster,
    }
    return json.dumps(document, indent=1)
