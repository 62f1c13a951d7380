"""Kueue: admits all pods of a job at once, or none."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import pulumi
import pulumi_kubernetes as kubernetes
import yaml

from infra.facts.manifests import Manifests
from infra.jobs.cluster import PoolDescription
from infra.naming import COMPONENT, QUEUE_NAME, QUEUE_NAMESPACE
from infra.platform import admission, kueue_upstream, objects
from infra.platform.pods import (
    CERTIFICATES,
    CONFIGURATION_FILE,
    RESTRICTED_CONTAINER,
    http_probe,
    of_controller,
    restart_annotation,
)
from infra.platform.site import Site
from infra.versions import KUEUE

API: Final = "kueue.x-k8s.io/v1beta2"
IMAGE: Final = f"registry.k8s.io/kueue/kueue:{KUEUE}"
LABELS: Final = {"app.kubernetes.io/name": "kueue", "control-plane": "controller-manager"}
# default names in Kueue's own configuration
ACCOUNT: Final = "kueue-controller-manager"
CERTIFICATE_SECRET: Final = "kueue-webhook-server-cert"


@dataclass(frozen=True)
class QueueArgs:
    site: Site
    manifests: Manifests
    pools: Sequence[PoolDescription]
    mpi_jobs: bool
    train_jobs: bool
    """Whether Trainer and JobSet are installed."""
    strict: bool
    """Strict FIFO: no job overtakes a job that waits ahead of it."""
    start_attempts: int
    """0 for no limit."""
    after: tuple[pulumi.Resource, ...] = ()
    """Resources that must exist before the controller starts: its node groups, and the operators of TrainJobs."""


class Queue(pulumi.ComponentResource):
    """Creates:
    - Kueue's custom resource definitions, roles, webhooks (for job namespaces only) and controller
    - a resource flavor for each pool, and one cluster queue with the quota of all pools at maximum size
    """

    def __init__(self, name: str, args: QueueArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(f"{COMPONENT}:Queue", name, None, opts)
        self._name, self._args, self._site = name, args, args.site
        self._namespace = kubernetes.core.v1.Namespace(
            f"{name}-namespace",
            metadata={"name": QUEUE_NAMESPACE, "labels": {**LABELS, **args.site.pod_security("restricted")}},
            opts=self._options(),
        )
        definitions = [objects.register(name, crd, self._options()) for crd in kueue_upstream.definitions(args.manifests)]
        webhooks = [objects.register(name, hook, self._options()) for hook in kueue_upstream.webhooks(args.manifests)]
        # The controller needs its permissions, and waits until the webhooks and definitions contain its certificate.
        needs = [*definitions, *webhooks, *self._create_permissions(), self._create_service()]
        self._controller = self._create_controller(needs)
        self._cluster_queue = self._create_queue()
        self.register_outputs({})

    def _options(self, *after: pulumi.Resource) -> pulumi.ResourceOptions:
        return self._site.options(self, *after)

    def _inside(self, *after: pulumi.Resource) -> pulumi.ResourceOptions:
        return self._site.options(self, *after, inside=self._namespace)

    def _create_permissions(self) -> list[pulumi.Resource]:
        name, inside = self._name, self._inside()
        account = kubernetes.core.v1.ServiceAccount(
            f"{name}-account",
            metadata={"name": ACCOUNT, "namespace": QUEUE_NAMESPACE, "labels": LABELS},
            automount_service_account_token=False,
            opts=inside,
        )
        created: list[pulumi.Resource] = [account]
        for role in kueue_upstream.cluster_roles(self._args.manifests):
            created.append(objects.register(name, role, self._options()))
            created.append(objects.register(name, objects.binding(role, ACCOUNT, QUEUE_NAMESPACE), self._options()))
        for role in kueue_upstream.namespace_roles():
            created.append(objects.register(name, role, inside))
            created.append(objects.register(name, objects.binding(role, ACCOUNT, QUEUE_NAMESPACE), inside))
        return created

    def _create_service(self) -> pulumi.Resource:
        return kubernetes.core.v1.Service(
            f"{self._name}-webhook-service",
            metadata={
                "name": kueue_upstream.WEBHOOK_SERVICE,
                "namespace": QUEUE_NAMESPACE,
                "labels": LABELS,
                # Do not wait for endpoints: the controller is created after the service.
                "annotations": {"pulumi.com/skipAwait": "true"},
            },
            spec={"selector": LABELS, "ports": [{"name": "https", "port": 443, "target_port": admission.WEBHOOK_PORT}]},
            opts=self._inside(),
        )

    def _create_controller(self, needs: Sequence[pulumi.Resource]) -> pulumi.Resource:
        content = admission.configuration(
            mpi_jobs=self._args.mpi_jobs, start_attempts=self._args.start_attempts, strict=self._args.strict
        )
        text = yaml.safe_dump(dict(content), sort_keys=False)
        configuration = kubernetes.core.v1.ConfigMap(
            f"{self._name}-configuration",
            metadata={"name": "kueue-manager-config", "namespace": QUEUE_NAMESPACE, "labels": LABELS},
            data={CONFIGURATION_FILE: text},
            opts=self._inside(),
        )
        secret = kubernetes.core.v1.Secret(
            f"{self._name}-certificate",
            metadata={"name": CERTIFICATE_SECRET, "namespace": QUEUE_NAMESPACE, "labels": LABELS},
            opts=self._inside(),  # Kueue fills it
        )
        return kubernetes.apps.v1.Deployment(
            f"{self._name}-controller",
            metadata={"name": "kueue-controller-manager", "namespace": QUEUE_NAMESPACE, "labels": LABELS},
            spec={
                "replicas": 1,
                "selector": {"match_labels": LABELS},
                "template": {
                    "metadata": {"labels": LABELS, "annotations": self._restarts(text)},
                    "spec": self._pod(),
                },
            },
            opts=self._options(self._namespace, configuration, secret, *needs, *self._args.after),
        )

    def _restarts(self, configuration: str) -> dict[str, str]:
        """Return annotations whose change restarts the controller.

        A running controller can take two minutes to notice new custom resource definitions. Until then, it treats the
        Jobs of a JobSet as independent jobs, and suspends them whenever JobSet resumes them.
        Source: kubernetes-sigs/kueue@v0.16.1:pkg/controller/jobframework/setup.go
        """
        return restart_annotation(configuration) | ({"gpumpi.io/kinds": "JobSet,TrainJob"} if self._args.train_jobs else {})

    def _pod(self) -> Any:
        site = self._site
        return {
            **of_controller(ACCOUNT, site.system_nodes),
            "termination_grace_period_seconds": 10,
            "containers": [
                {
                    "name": "manager",
                    "image": site.image(IMAGE),
                    "command": ["/manager"],
                    "args": [f"--config=/{CONFIGURATION_FILE}", "--zap-log-level=2"],
                    "ports": [
                        {"name": "webhook-server", "container_port": admission.WEBHOOK_PORT},
                        {"name": "metrics", "container_port": admission.METRICS_PORT},
                    ],
                    "resources": {"requests": {"cpu": site.cpu(500), "memory": "512Mi"}, "limits": {"memory": "1Gi"}},
                    "liveness_probe": {**http_probe("/healthz", admission.HEALTH_PORT, period=20), "initial_delay_seconds": 15},
                    "readiness_probe": http_probe("/readyz", admission.HEALTH_PORT, period=2),
                    "security_context": RESTRICTED_CONTAINER,
                    "volume_mounts": [
                        {"name": "certificate", "mount_path": CERTIFICATES, "read_only": True},
                        {"name": "configuration", "mount_path": f"/{CONFIGURATION_FILE}", "sub_path": CONFIGURATION_FILE},
                    ],
                }
            ],
            "volumes": [
                {"name": "certificate", "secret": {"secret_name": CERTIFICATE_SECRET, "default_mode": 0o444}},
                {"name": "configuration", "config_map": {"name": "kueue-manager-config"}},
            ],
        }

    def _create_queue(self) -> pulumi.Resource:
        args = self._args
        flavors = [
            kubernetes.apiextensions.CustomResource(
                f"{self._name}-{pool.name}-flavour",
                api_version=API,
                kind="ResourceFlavor",
                metadata={"name": pool.name},
                spec=admission.flavor(pool),
                opts=self._options(self._controller),
            )
            for pool in args.pools
        ]
        return kubernetes.apiextensions.CustomResource(
            f"{self._name}-cluster-queue",
            api_version=API,
            kind="ClusterQueue",
            metadata={"name": QUEUE_NAME},
            spec=admission.cluster_queue(args.pools, self._site.cpu_request_factor, strict=args.strict),
            opts=self._options(self._controller, *flavors),
        )

    @property
    def cluster_queue(self) -> pulumi.Resource:
        """The cluster queue, which must exist before the queues in namespaces. The controller must still run when the
        cluster queue is deleted."""
        return self._cluster_queue
