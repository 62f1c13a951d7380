"""Kubeflow's MPI operator: turns an MPIJob into a launcher and workers connected by SSH."""

from typing import Final

import pulumi

from infra.naming import COMPONENT, MPI_OPERATOR_NAMESPACE
from infra.platform import network_policies, objects
from infra.platform.pods import USER
from infra.platform.site import Site
from infra.versions import MPI_OPERATOR_MANIFEST

HEALTH_PORT: Final = 8080
"""Port of `/healthz`, which reports whether the leader renews its lease."""

MORE_ARGUMENTS: Final = (
    "--kube-api-qps=50",
    "--kube-api-burst=100",
    "--controller-queue-rate-limit=500",
    "--controller-queue-burst=1000",
    "--threadiness=4",
)
"""At upstream's limit of 5 requests per second, creating the pods of a job with 64 workers takes half a minute. And each
change of a pod uses up one entry of the controller's queue, which upstream limits to 10 entries per second for all jobs:
several hundred starting workers delay every job by minutes (docs/measurements/kubernetes.md). Entries of the same job are merged,
so a higher limit does not cause more work.
https://github.com/kubeflow/mpi-operator/blob/v0.8.2/pkg/controller/mpi_job_controller.go (enqueueMPIJob)"""

RESUME: Final = {"apiGroups": ["batch"], "resources": ["jobs/status"], "verbs": ["update"]}
"""Permission that upstream's role lacks. Without this permission, an MPIJob that the queue has evicted never starts
again. The operator clears the start time of the launcher's Job before it resumes the Job.
https://github.com/kubeflow/mpi-operator/blob/v0.8.2/pkg/controller/mpi_job_controller.go (syncHandler)"""
RBAC: Final = ("ServiceAccount", "ClusterRole", "ClusterRoleBinding")


class MpiOperator(pulumi.ComponentResource):
    """Creates:
    - upstream's namespace (which rejects privileged pods and ingress), custom resource definition and roles
    - upstream's Deployment with a pinned image, resource requests and probes, and without privileges on the node
    """

    def __init__(self, name: str, site: Site, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(f"{COMPONENT}:MpiOperator", name, None, opts)
        upstream = site.manifests.get_objects(MPI_OPERATOR_MANIFEST)
        (namespace,) = objects.select_by_kind(upstream, "Namespace")
        namespace["metadata"].setdefault("labels", {}).update(site.build_pod_security_labels("restricted"))
        namespace_resource = objects.register_object(name, namespace, site.options(self))
        network_policies.create_ingress_policy(
            f"{name}-ingress", MPI_OPERATOR_NAMESPACE, site.options(self, inside=namespace_resource)
        )
        (definition,) = objects.select_by_kind(upstream, "CustomResourceDefinition")
        crd = objects.register_object(name, objects.remove_descriptions(definition), site.options(self))
        permissions = [
            objects.register_object(
                name, item, site.options(self, inside=namespace_resource if kind == "ServiceAccount" else None)
            )
            for kind in RBAC
            for item in map(_add_resume_permission, objects.select_by_kind(upstream, kind))
        ]
        (deployment,) = objects.select_by_kind(upstream, "Deployment")
        self._adapt_pod(deployment["spec"]["template"]["spec"], site)
        # The operator needs its permissions, and exits if the custom resource definition is missing.
        needs = (crd, *permissions, *site.node_groups)
        self.deployment = objects.register_object(name, deployment, site.options(self, namespace_resource, *needs))
        self.register_outputs({})

    def _adapt_pod(self, pod: objects.Object, site: Site) -> None:
        pod["nodeSelector"] = dict(site.system_nodes)
        pod["priorityClassName"] = "system-cluster-critical"
        pod["automountServiceAccountToken"] = True
        pod["securityContext"] = {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        }
        (container,) = pod["containers"]
        probe = {"httpGet": {"path": "/healthz", "port": HEALTH_PORT}, "periodSeconds": 10, "timeoutSeconds": 5}
        container |= {
            "image": site.image(f"docker.io/{container['image']}"),
            "args": [*container["args"], *MORE_ARGUMENTS],
            "resources": {"requests": {"cpu": site.cpu(100), "memory": "128Mi"}, "limits": {"memory": "512Mi"}},
            "livenessProbe": {**probe, "initialDelaySeconds": 10},
            "readinessProbe": {**probe, "periodSeconds": 2},
            "securityContext": {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            },
        }
        pod["containers"] = [container]


def _add_resume_permission(manifest: objects.Object) -> objects.Object:
    """Return an upstream object. If the object is the operator's ClusterRole, add the permission to resume MPIJobs."""
    is_operators = (manifest["kind"], manifest["metadata"]["name"]) == ("ClusterRole", "mpi-operator")
    return {**manifest, "rules": [*manifest["rules"], RESUME]} if is_operators else manifest
