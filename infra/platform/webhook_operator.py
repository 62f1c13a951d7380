"""Operators that issue their own webhook certificates: JobSet and Kubeflow Trainer."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import pulumi
import pulumi_kubernetes as kubernetes

from infra.naming import COMPONENT
from infra.platform import objects
from infra.platform.objects import Object
from infra.platform.pods import (
    CERTIFICATES,
    CONFIGURATION_FILE,
    RESTRICTED_CONTAINER,
    http_probe,
    of_controller,
    restart_annotation,
)
from infra.platform.site import Site

WEBHOOK_PORT: Final = 9443
HEALTH_PORT: Final = 8081


@dataclass(frozen=True)
class OperatorSpec:
    """An operator, derived from the manifests of its upstream project."""

    component: str
    """Type name of the Pulumi component."""
    namespace: str
    name: str
    """Name of the Deployment."""
    account: str
    labels: dict[str, str]
    image: str
    service: str
    certificate: str
    """Secret in which the operator stores the certificate of its webhooks."""
    configuration_name: str
    configuration: str
    definitions: Sequence[Object]
    permissions: Sequence[Object]
    """Roles of the operator and their bindings."""
    webhooks: Sequence[Object]
    objects: Sequence[Object] = ()
    """Custom resources of the operator, which its webhooks validate."""


class WebhookOperator(pulumi.ComponentResource):
    """Creates:
    - a namespace that rejects privileged pods
    - upstream's custom resource definitions, roles and webhooks
    - a Deployment with a pinned image, requests and probes, and without privileges on the node
    - custom resources of the operator, such as the runtimes of Kubeflow Trainer
    """

    def __init__(
        self,
        name: str,
        spec: OperatorSpec,
        site: Site,
        after: Sequence[pulumi.Resource],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """`after` contains the resources that the operator's pod needs."""
        super().__init__(f"{COMPONENT}:{spec.component}", name, None, opts)
        self._name, self._spec, self._site = name, spec, site
        self._namespace = kubernetes.core.v1.Namespace(
            f"{name}-namespace",
            metadata={"name": spec.namespace, "labels": {**spec.labels, **site.pod_security("restricted")}},
            opts=site.options(self),
        )
        self._definitions = [objects.register(name, crd, site.options(self)) for crd in spec.definitions]
        webhooks = [objects.register(name, hook, site.options(self)) for hook in spec.webhooks]
        needs = [*self._definitions, *webhooks, *self._create_permissions(), self._create_service(), *after]
        self._deployment = self._create_deployment(needs)
        for manifest in spec.objects:
            self._create_object(manifest)
        self.register_outputs({})

    def _inside(self) -> pulumi.ResourceOptions:
        return self._site.options(self, inside=self._namespace)

    def _metadata(self, name: str) -> Any:
        return {"name": name, "namespace": self._spec.namespace, "labels": self._spec.labels}

    def _create_permissions(self) -> list[pulumi.Resource]:
        account = kubernetes.core.v1.ServiceAccount(
            f"{self._name}-account",
            metadata=self._metadata(self._spec.account),
            automount_service_account_token=False,
            opts=self._inside(),
        )
        registered = [
            objects.register(self._name, role, self._inside() if "namespace" in role["metadata"] else self._site.options(self))
            for role in self._spec.permissions
        ]
        return [account, *registered]

    def _create_service(self) -> pulumi.Resource:
        # Do not wait for the service's endpoints: the Deployment that provides them is created after the service.
        metadata: Any = {**self._metadata(self._spec.service), "annotations": {"pulumi.com/skipAwait": "true"}}
        ports = [kubernetes.core.v1.ServicePortArgs(name="https", port=443, target_port=WEBHOOK_PORT)]
        spec = kubernetes.core.v1.ServiceSpecArgs(selector=self._spec.labels, ports=ports)
        return kubernetes.core.v1.Service(f"{self._name}-webhook-service", metadata=metadata, spec=spec, opts=self._inside())

    def _create_deployment(self, needs: Sequence[pulumi.Resource]) -> pulumi.Resource:
        spec, name = self._spec, self._name
        configuration = kubernetes.core.v1.ConfigMap(
            f"{name}-configuration",
            metadata=self._metadata(spec.configuration_name),
            data={CONFIGURATION_FILE: spec.configuration},
            opts=self._inside(),
        )
        # Create the Secret empty: the operator stores its webhook certificate in it.
        secret = kubernetes.core.v1.Secret(f"{name}-certificate", metadata=self._metadata(spec.certificate), opts=self._inside())
        return kubernetes.apps.v1.Deployment(
            f"{name}-deployment",
            metadata=self._metadata(spec.name),
            spec={
                "replicas": 1,
                "selector": {"match_labels": spec.labels},
                "template": {
                    "metadata": {"labels": spec.labels, "annotations": restart_annotation(spec.configuration)},
                    "spec": self._pod(),
                },
            },
            opts=self._site.options(self, self._namespace, configuration, secret, *needs),
        )

    def _pod(self) -> Any:
        spec, site = self._spec, self._site
        return {
            **of_controller(spec.account, site.system_nodes),
            "termination_grace_period_seconds": 10,
            "containers": [
                {
                    "name": "manager",
                    "image": site.image(spec.image),
                    "command": ["/manager"],
                    "args": [f"--config=/{CONFIGURATION_FILE}", "--zap-log-level=2"],
                    "ports": [{"name": "webhook-server", "container_port": WEBHOOK_PORT}],
                    "resources": {"requests": {"cpu": site.cpu(50), "memory": "64Mi"}, "limits": {"memory": "512Mi"}},
                    "liveness_probe": {**http_probe("/healthz", HEALTH_PORT, period=20), "initial_delay_seconds": 15},
                    "readiness_probe": http_probe("/readyz", HEALTH_PORT, period=2),
                    "security_context": RESTRICTED_CONTAINER,
                    "volume_mounts": [
                        {"name": "certificate", "mount_path": CERTIFICATES, "read_only": True},
                        {"name": "configuration", "mount_path": f"/{CONFIGURATION_FILE}", "sub_path": CONFIGURATION_FILE},
                    ],
                }
            ],
            "volumes": [
                {"name": "certificate", "secret": {"secret_name": spec.certificate, "default_mode": 0o444}},
                {"name": "configuration", "config_map": {"name": spec.configuration_name}},
            ],
        }

    def _create_object(self, manifest: Object) -> None:
        kubernetes.apiextensions.CustomResource(
            f"{self._name}-{manifest['metadata']['name']}",
            api_version=manifest["apiVersion"],
            kind=manifest["kind"],
            metadata=manifest["metadata"],
            spec=manifest["spec"],
            opts=self._site.options(self, self._deployment),
        )

    @property
    def deployment(self) -> pulumi.Resource:
        """The operator's Deployment. Once the Deployment is ready, the operator's webhooks respond."""
        return self._deployment
