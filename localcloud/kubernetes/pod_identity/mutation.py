"""Create the patch that EKS applies to pods with a Pod Identity association:
https://github.com/aws/amazon-eks-pod-identity-webhook

Unlike EKS's patch, this patch also sets AWS_ENDPOINT_URL, so that SDKs in pods use the local AWS.
"""

from collections.abc import Mapping, Sequence
from typing import Any

AUDIENCE = "pods.eks.amazonaws.com"
VOLUME = "eks-pod-identity-token"
FOLDER = f"/var/run/secrets/{AUDIENCE}/serviceaccount"
TOKEN_SECONDS = 86400
SKIP_CONTAINERS = "eks.amazonaws.com/skip-containers"
"""Annotation that lists the containers to leave unchanged."""
Json = dict[str, Any]


def build_environment_variables(region: str, aws_url: str) -> Mapping[str, str]:
    return {
        "AWS_STS_REGIONAL_ENDPOINTS": "regional",
        "AWS_DEFAULT_REGION": region,
        "AWS_REGION": region,
        "AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://169.254.170.23/v1/credentials",
        "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": f"{FOLDER}/{VOLUME}",
        "AWS_ENDPOINT_URL": aws_url,
    }


def build_patch(pod: Mapping[str, Any], region: str, aws_url: str) -> list[Json]:
    """Return a JSON patch that keeps the pod's own settings. The patch is empty if the pod is already patched."""
    spec, annotations = pod["spec"], pod.get("metadata", {}).get("annotations") or {}
    skipped = {name.strip() for name in annotations.get(SKIP_CONTAINERS, "").split(",")}
    operations: list[Json] = []
    for field in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(field) or ()):
            if container["name"] not in skipped:
                operations += _patch_container(f"/spec/{field}/{index}", container, build_environment_variables(region, aws_url))
    if all(volume["name"] != VOLUME for volume in spec.get("volumes") or ()):
        operations += _patch_list("/spec/volumes", spec.get("volumes"), [_build_token_volume()])
    return operations


def _patch_container(path: str, container: Mapping[str, Any], variables: Mapping[str, str]) -> list[Json]:
    own = {variable["name"] for variable in container.get("env") or ()}
    missing = [{"name": name, "value": value} for name, value in variables.items() if name not in own]
    operations = _patch_list(f"{path}/env", container.get("env"), missing)
    mounts = container.get("volumeMounts")
    if all(mount["name"] != VOLUME for mount in mounts or ()):
        operations += _patch_list(f"{path}/volumeMounts", mounts, [{"name": VOLUME, "mountPath": FOLDER, "readOnly": True}])
    return operations


def _patch_list(path: str, existing: Sequence[Any] | None, more: Sequence[Any]) -> list[Json]:
    if not existing:
        return [{"op": "add", "path": path, "value": list(more)}] if more else []
    return [{"op": "add", "path": f"{path}/-", "value": item} for item in more]


def _build_token_volume() -> Json:
    token = {"audience": AUDIENCE, "expirationSeconds": TOKEN_SECONDS, "path": VOLUME}
    return {"name": VOLUME, "projected": {"defaultMode": 420, "sources": [{"serviceAccountToken": token}]}}
