"""The platform on one screen: device plugins, operator, queue, namespaces, volumes, autoscaler, description."""

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
import pulumi_kubernetes as kubernetes

from infra.jobs.cluster import ClusterDescription
from infra.jobs.component import StackJobs, StackJobsArgs
from infra.jobs.model import Job
from infra.naming import COMPONENT, Naming
from infra.platform import queue
from infra.platform.cluster_autoscaler import ClusterAutoscaler, ClusterAutoscalerArgs
from infra.platform.cluster_description import DescribedCluster, DescribedClusterArgs
from infra.platform.efa_device_plugin import EfaDevicePlugin, EfaDevicePluginArgs
from infra.platform.manifests import Manifests
from infra.platform.mpi_operator import MpiOperator, MpiOperatorArgs
from infra.platform.namespaces import Namespaces, NamespacesArgs
from infra.platform.nvidia_device_plugin import NvidiaDevicePlugin, NvidiaDevicePluginArgs
from infra.platform.queue import Queue, QueueArgs
from infra.platform.shared_volume import SharedVolume, SharedVolumeArgs
from infra.platform.site import Site


@dataclass(frozen=True)
class Parts:
    """What of the platform is wanted."""

    device_plugin: bool
    efa_plugin: bool
    mpi_operator: bool
    queue: bool
    strict_queue: bool
    autoscaler: bool
    idle_minutes: int


@dataclass(frozen=True)
class PlatformArgs:
    naming: Naming
    kubernetes_version: str
    region: str
    kubeconfig: pulumi.Input[str]
    parts: Parts
    manifests: Manifests
    description: ClusterDescription
    efa_registry: str
    """Where EKS keeps its own images in the region."""
    volume: tuple[pulumi.Input[str], pulumi.Input[str]] | None
    """File system and access point that jobs share."""
    access: Sequence[pulumi.Resource]
    """What lets this program into the cluster."""
    system_nodes: pulumi.Resource
    """Where operators run: they go before it goes."""
    autoscaler_role: pulumi.Resource | None
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
            enable_server_side_apply=True,
            enable_config_map_mutable=True,  # a description that is replaced is away for a moment
            opts=pulumi.ResourceOptions(parent=self, depends_on=list(self._args.access)),
        )

    def _install_plugins(self) -> None:
        args, site = self._args, self._site
        if args.parts.device_plugin:
            NvidiaDevicePlugin(
                self._naming.name("nvidia-device-plugin"), NvidiaDevicePluginArgs(site, args.manifests), self._child
            )
        if args.parts.efa_plugin:
            EfaDevicePlugin(self._naming.name("efa-device-plugin"), EfaDevicePluginArgs(site, args.efa_registry), self._child)

    def _install_operators(self) -> list[pulumi.Resource]:
        """Returns what must still run when a job goes."""
        args, site = self._args, self._site
        running: list[pulumi.Resource] = []
        if args.parts.mpi_operator:
            operator = MpiOperator(
                self._naming.name("mpi-operator"), MpiOperatorArgs(site, args.manifests, (args.system_nodes,)), self._child
            )
            running.append(operator.deployment)
        if args.parts.queue:
            admitted = QueueArgs(
                site,
                args.manifests,
                args.description.pools,
                mpi_jobs=args.parts.mpi_operator,
                strict=args.parts.strict_queue,
                after=(args.system_nodes,),
            )
            running.append(Queue(self._naming.name("queue"), admitted, self._child).cluster_queue)
        return running

    def _install_namespaces(self, operators: Sequence[pulumi.Resource]) -> list[pulumi.Resource]:
        """Returns what must be there before a job."""
        args, site = self._args, self._site
        names = [one.name for one in args.description.namespaces]
        wanted = NamespacesArgs(site, names, queue.API if args.parts.queue else None, after=operators)
        made = Namespaces(self._naming.name("namespaces"), wanted, self._child)
        if args.volume is not None:
            file_system, access_point = args.volume
            volume = SharedVolumeArgs(site, file_system, access_point, made.namespaces)
            return [made, SharedVolume(self._naming.name("shared-volume"), volume, self._child)]
        return [made]

    def _install_autoscaler(self) -> None:
        args = self._args
        if not args.parts.autoscaler:
            return
        after = (args.system_nodes, *((args.autoscaler_role,) if args.autoscaler_role else ()))
        ClusterAutoscaler(
            self._naming.name("cluster-autoscaler"),
            ClusterAutoscalerArgs(self._site, args.region, args.parts.idle_minutes, after),
            self._child,
        )
