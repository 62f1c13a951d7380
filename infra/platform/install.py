"""The platform on one screen: device plugins, operator, queue, namespaces, volumes, autoscaler, description."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pulumi
import pulumi_kubernetes as kubernetes

from infra.facts.manifests import Manifests
from infra.jobs.cluster import ClusterDescription
from infra.jobs.component import StackJobs, StackJobsArgs
from infra.jobs.model import Job
from infra.naming import COMPONENT, POOL_LABEL, SYSTEM_POOL, Naming
from infra.platform import queue
from infra.platform.cluster_autoscaler import ClusterAutoscaler, ClusterAutoscalerArgs
from infra.platform.cluster_description import DescribedCluster, DescribedClusterArgs
from infra.platform.efa_device_plugin import EfaDevicePlugin, EfaDevicePluginArgs
from infra.platform.mpi_operator import MpiOperator, MpiOperatorArgs
from infra.platform.namespaces import Namespaces, NamespacesArgs
from infra.platform.nvidia_device_plugin import NvidiaDevicePlugin, NvidiaDevicePluginArgs
from infra.platform.queue import Queue, QueueArgs
from infra.platform.shared_volume import EfsVolume, NfsVolume, SharedVolume, SharedVolumeArgs, VolumeOfClass
from infra.platform.site import Site


@dataclass(frozen=True)
class Parts:
    """What of the platform is wanted."""

    device_plugin: bool
    mpi_operator: bool
    queue: bool
    strict_queue: bool


@dataclass(frozen=True)
class AutoscalerWanted:
    """The autoscaler, where a cluster has groups of nodes that can grow."""

    region: str
    idle_minutes: int
    role: pulumi.Resource | None
    """What gives it its rights in AWS, where the stack makes it."""


@dataclass(frozen=True)
class JobKeys:
    """The bucket through which job pods exchange public keys."""

    bucket: pulumi.Input[str]
    rights: Sequence[pulumi.Resource]
    """What lets the pods in; a pod that was made before never gets in."""


@dataclass(frozen=True)
class PlatformArgs:
    naming: Naming
    kubernetes_version: str
    kubeconfig: pulumi.Input[str]
    """Its content, or the path of its file."""
    parts: Parts
    manifests: Manifests
    description: ClusterDescription
    volume: EfsVolume | NfsVolume | VolumeOfClass | None
    """What jobs share."""
    access: Sequence[pulumi.Resource] = ()
    """What lets this program into the cluster."""
    system_nodes: tuple[pulumi.Resource, ...] = ()
    """Where operators run, if the stack makes it: they go before it goes."""
    system_selector: Mapping[str, str] = field(default_factory=lambda: {POOL_LABEL: SYSTEM_POOL})
    """Labels of the nodes where operators run."""
    context: str | None = None
    """Of the kubeconfig; by default its current one."""
    efa_registry: str | None = None
    """Where EKS keeps its own images in the region; with it the EFA device plugin is installed."""
    autoscaler: AutoscalerWanted | None = None
    job_keys: JobKeys | None = None
    jobs: Sequence[Job] = ()


class Platform(pulumi.ComponentResource):
    """Creates:
    - a Kubernetes provider for the cluster
    - what the stack wants of the platform, in the order of real needs: nodes before operators, operators before namespaces
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
        before_jobs = self._install_namespaces(operators)
        self._install_autoscaler()
        if args.jobs:
            wanted = StackJobsArgs(self._site, args.description, args.jobs, after=before_jobs)
            StackJobs(self._naming.name("jobs"), wanted, self._child)
        DescribedCluster(self._naming.name("description"), DescribedClusterArgs(self._site, args.description), self._child)
        self.register_outputs({})

    def _create_provider(self, name: str) -> kubernetes.Provider:
        return kubernetes.Provider(
            f"{name}-kubernetes",
            kubeconfig=self._args.kubeconfig,
            context=self._args.context,
            enable_server_side_apply=True,
            enable_config_map_mutable=True,  # a description that is replaced is away for a moment
            opts=pulumi.ResourceOptions(parent=self, depends_on=list(self._args.access)),
        )

    def _install_plugins(self) -> None:
        args, site = self._args, self._site
        if args.parts.device_plugin:
            selectors = [pool.labels for pool in args.description.pools if pool.gpus]
            wanted = NvidiaDevicePluginArgs(site, args.manifests, selectors)
            NvidiaDevicePlugin(self._naming.name("nvidia-device-plugin"), wanted, self._child)
        if args.efa_registry is not None:
            EfaDevicePlugin(self._naming.name("efa-device-plugin"), EfaDevicePluginArgs(site, args.efa_registry), self._child)

    def _install_operators(self) -> list[pulumi.Resource]:
        """Returns what must still run when a job goes."""
        args, site = self._args, self._site
        running: list[pulumi.Resource] = []
        if args.parts.mpi_operator:
            operator = MpiOperator(
                self._naming.name("mpi-operator"), MpiOperatorArgs(site, args.manifests, args.system_nodes), self._child
            )
            running.append(operator.deployment)
        if args.parts.queue:
            admitted = QueueArgs(
                site,
                args.manifests,
                args.description.pools,
                mpi_jobs=args.parts.mpi_operator,
                strict=args.parts.strict_queue,
                after=args.system_nodes,
            )
            running.append(Queue(self._naming.name("queue"), admitted, self._child).cluster_queue)
        return running

    def _install_namespaces(self, operators: Sequence[pulumi.Resource]) -> list[pulumi.Resource]:
        """Returns what must be there before a job."""
        args, site = self._args, self._site
        names = [one.name for one in args.description.namespaces]
        keys = args.job_keys
        bucket = keys.bucket if keys else None
        wanted = NamespacesArgs(site, names, queue.API if args.parts.queue else None, bucket, after=operators)
        made = Namespaces(self._naming.name("namespaces"), wanted, self._child)
        before_jobs: list[pulumi.Resource] = [made, *(keys.rights if keys else ())]
        if args.volume is not None:
            volume = SharedVolumeArgs(site, args.volume, made.namespaces)
            before_jobs.append(SharedVolume(self._naming.name("shared-volume"), volume, self._child))
        return before_jobs

    def _install_autoscaler(self) -> None:
        args, wanted = self._args, self._args.autoscaler
        if wanted is None:
            return
        ClusterAutoscaler(
            self._naming.name("cluster-autoscaler"),
            ClusterAutoscalerArgs(
                self._site, wanted.region, wanted.idle_minutes, (*args.system_nodes, *([wanted.role] if wanted.role else ()))
            ),
            self._child,
        )
