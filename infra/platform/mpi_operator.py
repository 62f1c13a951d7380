"""Kubeflow's MPI operator: an MPIJob becomes a launcher and workers that reach each other by SSH."""

from dataclasses import dataclass
from typing import Final

import pulumi

from infra.facts.manifests import Manifests
from infra.naming import COMPONENT
from infra.platform import objects
from infra.platform.pods import USER
from infra.platform.site import Site
from infra.versions import MPI_OPERATOR_MANIFEST

HEALTH_PORT: Final = 8080
"""Of `/healthz`, which tells whether the leader's lease is renewed."""

MORE_ARGUMENTS: Final = ("--kube-api-qps=50", "--kube-api-burst=100", "--threadiness=4")
"""Upstream's 5 requests a second make the pods of a job of 64 workers in half a minute."""

RBAC: Final = ("ServiceAccount", "ClusterRole", "ClusterRoleBinding")


@dataclass(frozen=True)
class MpiOperatorArgs:
    site: Site
    manifests: Manifests
    after: tuple[pulumi.Resource, ...] = ()
    """What its pod needs to run: nodes."""


class MpiOperator(pulumi.ComponentResource):
    """Creates:
    - upstream's namespace (which refuses privileged pods), custom resource definition and roles
    - upstream's Deployment with a pinned image, requests, probes and without rights on the node
    """

    def __init__(self, name: str, args: MpiOperatorArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(f"{COMPONENT}:MpiOperator", name, None, opts)
        site, upstream = args.site, args.manifests.of(MPI_OPERATOR_MANIFEST)
        (namespace,) = objects.of_kind(upstream, "Namespace")
        namespace["metadata"].setdefault("labels", {}).update(site.pod_security("restricted"))
        home = objects.register(name, namespace, site.options(self))
        (definition,) = objects.of_kind(upstream, "CustomResourceDefinition")
        self._definition = objects.register(name, objects.without_prose(definition), site.options(self))
        rights = [
            objects.register(name, one, site.options(self, inside=home if kind == "ServiceAccount" else None))
            for kind in RBAC
            for one in objects.of_kind(upstream, kind)
        ]
        (deployment,) = objects.of_kind(upstream, "Deployment")
        self._adapt(deployment["spec"]["template"]["spec"], site)
        # it ends at once where the definition is missing, and can do nothing without its rights
        needs = (self._definition, *rights, *args.after)
        self._deployment = objects.register(name, deployment, site.options(self, home, *needs))
        self.register_outputs({})

    def _adapt(self, pod: objects.Object, site: Site) -> None:
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

    @property
    def definition(self) -> pulumi.Resource:
        """What must be there before an MPIJob."""
        return self._definition

    @property
    def deployment(self) -> pulumi.Resource:
        return self._deployment
