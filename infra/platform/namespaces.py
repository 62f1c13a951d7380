"""Job namespaces, isolated from nodes and other namespaces."""

from collections.abc import Sequence
from typing import Final

import pulumi
import pulumi_kubernetes as kubernetes

from infra.naming import (
    ANYWHERE,
    COMPONENT,
    JOB_SERVICE_ACCOUNT,
    JOBS_LABEL,
    KEY_BUCKET_CONFIG,
    KEY_BUCKET_KEY,
    PRIORITIES,
    QUEUE_NAME,
)
from infra.platform import objects, queue
from infra.platform.site import Site

INSTANCE_METADATA: Final = "169.254.169.254/32"
"""Address of the instance metadata service, which returns the credentials of the node role."""

SMALL_CPU_MILLIS: Final = 100
SMALL_MEMORY: Final = "256Mi"


class Namespaces(pulumi.ComponentResource):
    """Creates:
    - priority classes for jobs, which never preempt a running job
    - namespaces that enforce Pod Security (`restricted` or `baseline`), each with a network policy (jobs can reach each other and
      external addresses; no ingress from elsewhere), a limit range (small default requests), a service account without
      a token, a queue, and a ConfigMap with the key bucket's name"""

    def __init__(
        self,
        name: str,
        site: Site,
        key_bucket: pulumi.Input[str] | None,
        after: Sequence[pulumi.Resource],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """`key_bucket` is the bucket, if any, through which job pods exchange public keys. `after` must outlive the
        namespaces and their pods: the queue and operator have to remove finalizers of jobs, and pods have to unmount
        their volumes."""
        super().__init__(f"{COMPONENT}:Namespaces", name, None, opts)
        self._name, self._site, self._key_bucket, self._after = name, site, key_bucket, after
        for priority, value in PRIORITIES.items():
            kubernetes.scheduling.v1.PriorityClass(
                f"{name}-{priority}",
                metadata={"name": priority},
                value=value,
                preemption_policy="Never",
                global_default=False,
                description="Sets the job's place in the queue; never preempts running pods.",
                opts=site.options(self),
            )
        self.namespaces = [
            (space.name, self._create_namespace(space.name, space.pod_security)) for space in site.description.namespaces
        ]
        """Name and resource of each namespace."""
        self.register_outputs({})

    def _create_namespace(self, namespace: str, pod_security: str) -> kubernetes.core.v1.Namespace:
        site = self._site
        labels = {JOBS_LABEL: "true", **site.build_pod_security_labels(pod_security, warn="restricted")}
        created = kubernetes.core.v1.Namespace(
            f"{self._name}-{namespace}",
            metadata={"name": namespace, "labels": labels},
            opts=site.options(self, *self._after),
        )
        inside = site.options(self, inside=created)
        kubernetes.core.v1.ServiceAccount(
            f"{self._name}-{namespace}-account",
            metadata={"name": JOB_SERVICE_ACCOUNT, "namespace": namespace},
            automount_service_account_token=False,
            opts=inside,
        )
        kubernetes.core.v1.LimitRange(
            f"{self._name}-{namespace}-limits",
            metadata={"name": "small-by-default", "namespace": namespace},
            # No default limits: Kubernetes would reject a container that sets no limit and requests more memory than
            # the default limit.
            spec={
                "limits": [
                    {
                        "type": "Container",
                        "default_request": {"cpu": site.cpu(SMALL_CPU_MILLIS), "memory": SMALL_MEMORY},
                    }
                ]
            },
            opts=inside,
        )
        self._create_network_policy(namespace, inside)
        if self._key_bucket is not None:
            kubernetes.core.v1.ConfigMap(
                f"{self._name}-{namespace}-key-bucket",
                metadata={"name": KEY_BUCKET_CONFIG, "namespace": namespace},
                data={KEY_BUCKET_KEY: self._key_bucket},
                opts=inside,
            )
        if site.settings.queue:
            metadata = {"name": QUEUE_NAME, "namespace": namespace}
            local = {"apiVersion": queue.API, "kind": "LocalQueue", "metadata": metadata, "spec": {"clusterQueue": QUEUE_NAME}}
            objects.register_custom_resource(f"{self._name}-{namespace}-queue", local, inside)
        return created

    def _create_network_policy(self, namespace: str, inside: pulumi.ResourceOptions) -> None:
        """Allow traffic among the jobs of a namespace, because MPI uses arbitrary ports. Allow egress (data sets,
        packages, AWS) except to the instance metadata service, which returns the node's credentials."""
        kubernetes.networking.v1.NetworkPolicy(
            f"{self._name}-{namespace}-network-policy",
            metadata={"name": "jobs-among-themselves", "namespace": namespace},
            spec={
                "pod_selector": {},
                "policy_types": ["Ingress", "Egress"],
                "ingress": [{"from_": [{"pod_selector": {}}]}],
                "egress": [
                    {"to": [{"pod_selector": {}}]},
                    {"to": [{"ip_block": {"cidr": ANYWHERE, "except_": [INSTANCE_METADATA]}}]},
                ],
            },
            opts=inside,
        )
