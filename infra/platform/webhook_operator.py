"""Operators that issue their own webhook certificates: Kueue, JobSet and Kubeflow Trainer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pulumi
import pulumi_kubernetes as kubernetes
import yaml

from infra.naming import COMPONENT
from infra.platform import network_policies, objects
from infra.platform.objects import Object
from infra.platform.pods import (
    CERTIFICATES,
    CONFIGURATION_FILE,
    build_container,
    build_controller_pod_settings,
    build_http_probe,
    build_restart_annotation,
    create_deployment,
)
from infra.platform.site import Site

WEBHOOK_PORT: Final = 9443
HEALTH_PORT: Final = 8081


@dataclass(frozen=True, kw_only=True)
class OperatorSpec:
    """An operator, derived from the manifests of its upstream project."""

    component: str
    """Type name of the Pulumi component."""
    namespace: str
    name: str
    """Name of the Deployment and the service account."""
    labels: dict[str, str]
    image: str
    service: str
    certificate: str
    """Secret in which the operator stores the certificate of its webhooks."""
    configuration_name: str
    configuration: Mapping[str, Any]
    definitions: Sequence[Object]
    roles: Sequence[Object]
    webhooks: Sequence[Object]
    """Webhook configurations, which call the operator's service."""
    objects: Sequence[Object] = ()
    """Custom resources of the operator, which its webhooks validate."""
    # pod
    size: tuple[int, str, str] = (50, "64Mi", "512Mi")
    """CPU in millicores, memory, and memory limit."""
    metrics_port: int | None = None
    annotations: Mapping[str, str] = field(default_factory=dict)
    """Annotations whose changes restart the operator, in addition to the annotation of its configuration."""
    deployment: str = "deployment"
    """Last part of the name of the Deployment's Pulumi resource."""


class WebhookOperator(pulumi.ComponentResource):
    """Creates:
    - a namespace that rejects privileged pods, and whose pods accept only webhook calls and, from Prometheus, requests
      for metrics
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
        """`after` contains the resources that the operator's pod needs, in addition to nodes."""
        super().__init__(f"{COMPONENT}:{spec.component}", name, None, opts)
        self._name, self._spec, self._site = name, spec, site
        self._namespace = kubernetes.core.v1.Namespace(
            f"{name}-namespace",
            metadata={"name": spec.namespace, "labels": {**spec.labels, **site.build_pod_security_labels("restricted")}},
            opts=site.options(self),
        )
        network_policies.create_ingress_policy(
            f"{name}-ingress",
            spec.namespace,
            self._build_resource_options(),
            webhook_ports=[WEBHOOK_PORT],
            metrics_ports=[spec.metrics_port] if spec.metrics_port else [],
        )
        definitions = [
            objects.register_object(name, objects.remove_descriptions(crd), site.options(self)) for crd in spec.definitions
        ]
        webhooks = [objects.register_object(name, self._set_webhook_service(hook), site.options(self)) for hook in spec.webhooks]
        # The operator needs its permissions, and waits until webhooks and definitions contain its certificate.
        needs = [*definitions, *webhooks, *self._create_permissions(), self._create_service(), *site.node_groups, *after]
        self.deployment = self._create_deployment(needs)
        """The operator's Deployment. Once it is ready, the operator's webhooks respond."""
        self._create_objects()
        self.register_outputs({})

    def _build_resource_options(self) -> pulumi.ResourceOptions:
        return self._site.options(self, inside=self._namespace)

    def _build_metadata(self, name: str) -> Any:
        return {"name": name, "namespace": self._spec.namespace, "labels": self._spec.labels}

    def _set_webhook_service(self, configuration: Object) -> Object:
        for webhook in configuration["webhooks"]:
            webhook["clientConfig"]["service"] |= {"name": self._spec.service, "namespace": self._spec.namespace}
        return configuration

    def _create_permissions(self) -> list[pulumi.Resource]:
        spec, name = self._spec, self._name
        created: list[pulumi.Resource] = [
            kubernetes.core.v1.ServiceAccount(
                f"{name}-account",
                metadata=self._build_metadata(spec.name),
                automount_service_account_token=False,
                opts=self._build_resource_options(),
            )
        ]
        for role in spec.roles:
            options = self._build_resource_options() if role["kind"] == "Role" else self._site.options(self)
            binding = objects.build_role_binding(role, spec.name, spec.namespace)
            created += [objects.register_object(name, role, options), objects.register_object(name, binding, options)]
        return created

    def _create_service(self) -> pulumi.Resource:
        # Do not wait for the service's endpoints: the Deployment that provides them is created after the service.
        metadata: Any = {**self._build_metadata(self._spec.service), "annotations": {"pulumi.com/skipAwait": "true"}}
        ports = [kubernetes.core.v1.ServicePortArgs(name="https", port=443, target_port=WEBHOOK_PORT)]
        spec = kubernetes.core.v1.ServiceSpecArgs(selector=self._spec.labels, ports=ports)
        return kubernetes.core.v1.Service(
            f"{self._name}-webhook-service", metadata=metadata, spec=spec, opts=self._build_resource_options()
        )

    def _create_deployment(self, needs: Sequence[pulumi.Resource]) -> pulumi.Resource:
        spec, name = self._spec, self._name
        text = yaml.safe_dump(dict(spec.configuration), sort_keys=False)
        configuration = kubernetes.core.v1.ConfigMap(
            f"{name}-configuration",
            metadata=self._build_metadata(spec.configuration_name),
            data={CONFIGURATION_FILE: text},
            opts=self._build_resource_options(),
        )
        # Create the Secret empty: the operator stores its webhook certificate in it.
        secret = kubernetes.core.v1.Secret(
            f"{name}-certificate", metadata=self._build_metadata(spec.certificate), opts=self._build_resource_options()
        )
        return create_deployment(
            f"{name}-{spec.deployment}",
            self._build_metadata(spec.name),
            self._build_pod(),
            self._site.options(self, self._namespace, configuration, secret, *needs),
            annotations={**build_restart_annotation(text), **spec.annotations},
        )

    def _build_pod(self) -> Any:
        spec, site = self._spec, self._site
        ports = {"webhook-server": WEBHOOK_PORT, **({"metrics": spec.metrics_port} if spec.metrics_port else {})}
        return {
            **build_controller_pod_settings(spec.name, site.system_nodes),
            "termination_grace_period_seconds": 10,
            "containers": [
                build_container(
                    site,
                    "manager",
                    spec.image,
                    spec.size,
                    command=["/manager"],
                    args=[f"--config=/{CONFIGURATION_FILE}", "--zap-log-level=2"],
                    ports=[{"name": name, "container_port": port} for name, port in ports.items()],
                    liveness_probe={**build_http_probe("/healthz", HEALTH_PORT, period=20), "initial_delay_seconds": 15},
                    readiness_probe=build_http_probe("/readyz", HEALTH_PORT, period=2),
                    volume_mounts=[
                        {"name": "certificate", "mount_path": CERTIFICATES, "read_only": True},
                        {"name": "configuration", "mount_path": f"/{CONFIGURATION_FILE}", "sub_path": CONFIGURATION_FILE},
                    ],
                )
            ],
            "volumes": [
                {"name": "certificate", "secret": {"secret_name": spec.certificate, "default_mode": 0o444}},
                {"name": "configuration", "config_map": {"name": spec.configuration_name}},
            ],
        }

    def _create_objects(self) -> None:
        for manifest in self._spec.objects:
            name = f"{self._name}-{manifest['metadata']['name']}"
            objects.register_custom_resource(name, manifest, self._site.options(self, self.deployment))
