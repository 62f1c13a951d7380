"""Job namespaces, isolated from nodes and other namespaces."""

from collections.abc import Sequence
from typing import Any, Final

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
from infra.platform import admission, objects, queue
from infra.platform.site import Site

INSTANCE_METADATA: Final = "169.254.169.254/32"
"""Address of the instance metadata service, which returns the credentials of the node role."""

SMALL_CPU_MILLIS: Final = 100
SMALL_MEMORY: Final = "256Mi"

OBJECT_LIMITS: Final = {
    # Records of ended jobs stay for 90 days. The job controller's memory was measured with 10,000 records.
    **dict.fromkeys(("configmaps", "pods"), 20_000),
    # A job has one or two objects of each of these kinds. Ended jobs count against the quota until they are deleted.
    **dict.fromkeys(("secrets", "services", "jobs.batch", "statefulsets.apps"), 10_000),
    # Jobs do not need these kinds, but users can create them.
    **dict.fromkeys(
        (
            *("persistentvolumeclaims", "replicationcontrollers", "serviceaccounts", "horizontalpodautoscalers.autoscaling"),
            *("daemonsets.apps", "deployments.apps", "replicasets.apps", "cronjobs.batch"),
            *("ingresses.networking.k8s.io", "networkpolicies.networking.k8s.io", "poddisruptionbudgets.policy"),
            *("roles.rbac.authorization.k8s.io", "rolebindings.rbac.authorization.k8s.io"),
        ),
        1000,
    ),
}
"""Maps each kind to the maximum number of objects in a job namespace. A script of one user cannot fill the API server's
database, which all teams share.

Custom resources have no limit: Kubernetes counts a new kind only up to five minutes after its definition was installed, and
would reject its objects until then."""
SYSTEM_PRIORITIES: Final = ("system-node-critical", "system-cluster-critical")
"""Priority classes whose pods preempt those of all jobs. Since Kubernetes 1.17, every namespace may use them:
https://kubernetes.io/docs/concepts/policy/resource-quotas/#limit-priority-class-consumption-by-default"""


class Namespaces(pulumi.ComponentResource):
    """Creates:
    - priority classes for jobs, which never preempt a running job
    - namespaces that enforce Pod Security (`restricted` or `baseline`), each with a network policy (jobs can reach each other and
      external addresses; no ingress from elsewhere), a limit range (small default requests), quotas (number of objects;
      no pods with a priority class of the system), a service account without a token, a queue, and a ConfigMap with the
      key bucket's name"""

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
        self._create_quota(namespace, "objects", {"hard": _build_object_counts()}, inside)
        self._create_quota(namespace, "no-system-priority", _build_priority_quota(), inside)
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

    def _create_quota(self, namespace: str, quota: str, spec: Any, inside: pulumi.ResourceOptions) -> None:
        # Do not wait until Kubernetes has counted the objects: until then, the API server does not enforce the quota.
        metadata: Any = {"name": quota, "namespace": namespace, "annotations": {"pulumi.com/skipAwait": "true"}}
        kubernetes.core.v1.ResourceQuota(f"{self._name}-{namespace}-{quota}", metadata=metadata, spec=spec, opts=inside)

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


def _build_object_counts() -> dict[str, str]:
    """https://kubernetes.io/docs/concepts/policy/resource-quotas/#quota-on-object-count"""
    return {f"count/{kind}": admission.format_count(limit) for kind, limit in OBJECT_LIMITS.items()}


def _build_priority_quota() -> Any:
    """https://kubernetes.io/docs/concepts/policy/resource-quotas/#resource-quota-per-priorityclass"""
    scope = {"scope_name": "PriorityClass", "operator": "In", "values": list(SYSTEM_PRIORITIES)}
    return {"hard": {"pods": "0"}, "scope_selector": {"match_expressions": [scope]}}
