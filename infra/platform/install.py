"""Install the platform: device plugins, operator, queue, namespaces, volumes, autoscaler, description."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import pulumi
import pulumi_kubernetes as kubernetes

from infra.facts.manifests import Manifests
from infra.jobs.cluster import ClusterDescription
from infra.jobs.model import Job
from infra.monitoring.model import Monitored
from infra.naming import COMPONENT, POOL_LABEL, SYSTEM_POOL, Naming
from infra.platform import jobset, queue, trainer
from infra.platform.cluster_autoscaler import ClusterAutoscaler, ClusterAutoscalerArgs
from infra.platform.cluster_description import DescribedCluster, DescribedClusterArgs
from infra.platform.efa_device_plugin import EfaDevicePlugin, EfaDevicePluginArgs
from infra.platform.job_controller.component import JobController, JobControllerArgs
from infra.platform.monitoring.component import Monitoring, MonitoringArgs
from infra.platform.mpi_operator import MpiOperator, MpiOperatorArgs
from infra.platform.namespaces import Namespaces, NamespacesArgs
from infra.platform.nvidia_device_plugin import NvidiaDevicePlugin, NvidiaDevicePluginArgs
from infra.platform.owned_directories import OwnedDirectories
from infra.platform.queue import Queue, QueueArgs
from infra.platform.shared_volume import SharedVolume, Volume
from infra.platform.site import Site
from infra.platform.stack_jobs import StackJobs, StackJobsArgs
from infra.platform.webhook_operator import WebhookOperator

BrokenNodes = Literal["heal", "cordon", "leave"]
"""How the job controller handles nodes with broken GPUs."""


@dataclass(frozen=True)
class Parts:
    """Parts of the platform to install."""

    device_plugin: bool
    mpi_operator: bool
    trainer: bool
    broken_nodes: BrokenNodes
    queue: bool
    strict_queue: bool
    start_attempts: int


@dataclass(frozen=True)
class AutoscalerSpec:
    """Settings of the autoscaler, for clusters with node groups that can grow."""

    region: str
    idle_minutes: int
    role: pulumi.Resource | None
    """IAM role association of the autoscaler, if the stack creates it."""


@dataclass(frozen=True)
class JobKeys:
    """The bucket through which job pods exchange public keys."""

    bucket: pulumi.Input[str]
    permissions: Sequence[pulumi.Resource]
    """IAM roles and associations of job pods. Pods created before the associations never get credentials."""


@dataclass(frozen=True)
class PlatformArgs:
    naming: Naming
    kubernetes_version: str
    kubeconfig: pulumi.Input[str]
    """Content or path of the kubeconfig."""
    parts: Parts
    manifests: Manifests
    description: ClusterDescription
    volumes: Sequence[Volume] = ()
    """Volumes of all jobs."""
    access: Sequence[pulumi.Resource] = ()
    """Resources that give this program access to the cluster."""
    system_nodes: tuple[pulumi.Resource, ...] = ()
    """Node groups for operators, if the stack creates them. Operators are deleted before their nodes."""
    system_selector: Mapping[str, str] = field(default_factory=lambda: {POOL_LABEL: SYSTEM_POOL})
    """Labels of the nodes for operators."""
    context: str | None = None
    """Context in the kubeconfig; by default the current context."""
    efa_registry: str | None = None
    """EKS's own registry in the Region. If this is set, the EFA device plugin is installed."""
    autoscaler: AutoscalerSpec | None = None
    monitoring: Monitored | None = None
    job_keys: JobKeys | None = None
    jobs: Sequence[Job] = ()


class Platform(pulumi.ComponentResource):
    """Creates:
    - a Kubernetes provider for the cluster
    - the selected parts of the platform, ordered by dependencies: nodes, then operators, then namespaces
    """

    def __init__(self, name: str, args: PlatformArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(f"{COMPONENT}:Platform", name, None, opts)
        self._args, self._naming = args, args.naming
        self._child = pulumi.ResourceOptions(parent=self)
        self._site = Site(
            args.naming,
            self._create_provider(name),
            args.kubernetes_version,
            image_registry=args.description.image_registry or None,
            cpu_request_factor=args.description.cpu_request_factor,
            system_nodes=args.system_selector,
        )
        self._install_plugins()
        operators = self._install_operators()
        namespaces, before_jobs = self._install_namespaces(operators)
        self._install_autoscaler()
        self._install_monitoring(operators)
        if args.jobs:
            jobs = StackJobsArgs(self._site, args.description, args.jobs, after=before_jobs)
            StackJobs(self._naming.name("jobs"), jobs, self._child)
        bucket = args.job_keys.bucket if args.job_keys else ""
        described = DescribedCluster(
            self._naming.name("description"), DescribedClusterArgs(self._site, args.description, bucket), self._child
        )
        self._install_job_controller(namespaces, described)
        self.register_outputs({})

    def _create_provider(self, name: str) -> kubernetes.Provider:
        return kubernetes.Provider(
            f"{name}-kubernetes",
            kubeconfig=self._args.kubeconfig,
            context=self._args.context,
            enable_server_side_apply=True,
            enable_config_map_mutable=True,  # a replacement would delete the description temporarily
            opts=pulumi.ResourceOptions(parent=self, depends_on=list(self._args.access)),
        )

    def _install_plugins(self) -> None:
        args, site = self._args, self._site
        if args.parts.device_plugin:
            selectors = [pool.labels for pool in args.description.pools if pool.gpus]
            nvidia = NvidiaDevicePluginArgs(site, args.manifests, selectors)
            NvidiaDevicePlugin(self._naming.name("nvidia-device-plugin"), nvidia, self._child)
        if args.efa_registry is not None:
            efa = EfaDevicePluginArgs(site, args.efa_registry)
            EfaDevicePlugin(self._naming.name("efa-device-plugin"), efa, self._child)

    def _install_operators(self) -> list[pulumi.Resource]:
        """Install the operators. Returns resources that must outlive all jobs."""
        args, site = self._args, self._site
        running: list[pulumi.Resource] = []
        if args.parts.mpi_operator:
            operator = MpiOperator(
                self._naming.name("mpi-operator"), MpiOperatorArgs(site, args.manifests, args.system_nodes), self._child
            )
            running.append(operator.deployment)
        train_jobs = self._install_trainer() if args.parts.trainer else []
        running += train_jobs
        if args.parts.queue:
            queue_args = QueueArgs(
                site,
                args.manifests,
                args.description.pools,
                mpi_jobs=args.parts.mpi_operator,
                train_jobs=args.parts.trainer,
                strict=args.parts.strict_queue,
                start_attempts=args.parts.start_attempts,
                after=(*args.system_nodes, *train_jobs),
            )
            running.append(Queue(self._naming.name("queue"), queue_args, self._child).cluster_queue)
        return running

    def _install_trainer(self) -> list[pulumi.Resource]:
        args, naming, site = self._args, self._naming, self._site
        job_set = WebhookOperator(naming.name("jobset"), jobset.operator(args.manifests), site, args.system_nodes, self._child)
        # Trainer watches JobSets, so it needs their custom resource definition.
        after = [*args.system_nodes, job_set.deployment]
        operator = WebhookOperator(naming.name("trainer"), trainer.operator(args.manifests), site, after, self._child)
        return [job_set.deployment, operator.deployment]

    def _install_namespaces(self, operators: Sequence[pulumi.Resource]) -> tuple[Namespaces, list[pulumi.Resource]]:
        """Create the namespaces and volumes. Returns the namespaces, and the resources that jobs need."""
        args, site = self._args, self._site
        keys = args.job_keys
        bucket = keys.bucket if keys else None
        # Deleting a namespace ends its jobs and pods, including those that users submitted, and unmounts their volumes.
        before_volumes = [resource for volume in args.volumes for resource in volume.needs]
        after = [*operators, *before_volumes, *(keys.permissions if keys else ())]
        namespaces = NamespacesArgs(site, args.description.namespaces, queue.API if args.parts.queue else None, bucket, after)
        created = Namespaces(self._naming.name("namespaces"), namespaces, self._child)
        return created, [created, *(self._install_volume(volume, created) for volume in args.volumes)]

    def _install_job_controller(self, namespaces: Namespaces, described: DescribedCluster) -> None:
        args = self._args
        controller = JobControllerArgs(
            self._site,
            namespaces.namespaces,
            described.namespace,
            args.parts.mpi_operator,
            nodes=_watched_nodes(args.description, args.parts.broken_nodes),
            after=args.system_nodes,
        )
        JobController(self._naming.name("job-controller"), controller, self._child)

    def _install_volume(self, volume: Volume, created: Namespaces) -> SharedVolume:
        naming, site, child = self._naming, self._site, self._child
        if volume.owned:
            name, nodes = naming.name(f"{volume.claim}-directories"), self._args.system_nodes
            volume = replace(volume, needs=[*volume.needs, OwnedDirectories(name, site, volume, nodes, child).done])
        return SharedVolume(naming.name(f"{volume.claim}-volume"), site, volume, created.namespaces, child)

    def _install_monitoring(self, operators: Sequence[pulumi.Resource]) -> None:
        args, monitoring = self._args, self._args.monitoring
        if monitoring is None:
            return
        selectors = [pool.labels for pool in args.description.pools if pool.gpus]
        after = (*args.system_nodes, *operators)
        Monitoring(self._naming.name("monitoring"), MonitoringArgs(self._site, monitoring, selectors, after), self._child)

    def _install_autoscaler(self) -> None:
        args, spec = self._args, self._args.autoscaler
        if spec is None:
            return
        ClusterAutoscaler(
            self._naming.name("cluster-autoscaler"),
            ClusterAutoscalerArgs(
                self._site, spec.region, spec.idle_minutes, (*args.system_nodes, *([spec.role] if spec.role else ()))
            ),
            self._child,
        )


def _watched_nodes(description: ClusterDescription, broken_nodes: BrokenNodes) -> str:
    """Return the nodes that the job controller may take out of service: those of all pools that run ranks."""
    if broken_nodes == "leave":
        return ""
    pools = [pool for pool in description.pools if pool.selector and (pool.gpus or pool.name != description.launcher_pool)]
    watched = [{"labels": pool.selector, "gpus": pool.gpus} for pool in pools]
    return json.dumps({"existing": broken_nodes == "cordon", "pools": watched}, sort_keys=True)
