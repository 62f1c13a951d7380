"""Storage classes with which users claim volumes of their own."""

from collections.abc import Mapping, Sequence
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes

from infra.naming import COMPONENT
from infra.platform.site import Site


class ClaimClasses(pulumi.ComponentResource):
    """Creates:
    - for each job namespace a storage class, whose volumes belong to the namespace's own user
    - in each job namespace a quota that rejects claims on the classes of other namespaces
    """

    def __init__(
        self,
        name: str,
        site: Site,
        classes: Mapping[str, Mapping[str, Any]],
        needs: Sequence[pulumi.Resource],
        namespaces: Sequence[tuple[str, kubernetes.core.v1.Namespace]],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """`classes`: job namespace -> its class. `needs`: resources that mounts depend on. `namespaces`: name and Pulumi resource
        of each job namespace."""
        super().__init__(f"{COMPONENT}:ClaimClasses", name, None, opts)
        for namespace, spec in classes.items():
            arguments: Any = spec
            kubernetes.storage.v1.StorageClass(f"{name}-{namespace}-class", **arguments, opts=site.options(self, *needs))
        for namespace, resource in namespaces:
            others = [str(spec["metadata"]["name"]) for owner, spec in classes.items() if owner != namespace]
            if others:
                metadata: Any = {
                    "name": "no-foreign-storage-class",
                    "namespace": namespace,
                    # Do not wait until Kubernetes has counted the claims: until then, the API server does not enforce the quota.
                    "annotations": {"pulumi.com/skipAwait": "true"},
                }
                kubernetes.core.v1.ResourceQuota(
                    f"{name}-{namespace}-quota",
                    metadata=metadata,
                    spec={"hard": {_format_quota_key(storage_class): "0" for storage_class in others}},
                    opts=site.options(self, inside=resource),
                )
        self.register_outputs({})


def _format_quota_key(storage_class: str) -> str:
    """https://kubernetes.io/docs/concepts/policy/resource-quotas/#quota-for-storage"""
    return f"{storage_class}.storageclass.storage.k8s.io/persistentvolumeclaims"
