"""Install the platform: device plugins, operator, queue, namespaces, volumes, autoscaler, description."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pulumi
import pulumi_kubernetes as kubernetes

from infra.jobs.model import Job
from infra.monitoring.model import Monitored
from infra.naming import COMPONENT
from infra.plan.specs import NO_USERS, JobUsersSpec
from infra.platform import trainer
from infra.platform.claim_classes import ClaimClasses
from infra.platform.cluster_autoscaler import ClusterAutoscaler
from infra.platform.cluster_description import DescribedCluster
from infra.platform.efa_device_plugin import EfaDevicePlugin
from infra.platform.job_controller.component import JobController
from infra.platform.job_users import JobUsers
from infra.platform.monitoring.component import Monitoring
from infra.platform.mpi_operator import MpiOperator
from infra.platform.namespaces import Namespaces
from infra.platform.nvidia_device_plugin import NvidiaDevicePlugin
from infra.platform.owned_directories import OwnedDirectories
from infra.platform.queue import Queue
from infra.platform.shared_volume import SharedFileSystem, SharedVolume
from infra.platform.site import Site
from infra.platform.stack_jobs import StackJobs
from infra.platform.webhook_operator import WebhookOperator


@dataclass(frozen=True)
class PlatformArgs:
    site: Site
    """The target cluster, without a provider."""
    kubeconfig: pulumi.Input[str]
    """Content or path of the kubeconfig."""
    file_systems: Sequence[SharedFileSystem] = ()
    """File systems of all jobs."""
    access: Sequence[pulumi.Resource] = ()
    """Resources that give this program access to the cluster."""
    context: str | None = None
    """Context in the kubeconfig; by default the current context."""
    autoscaler_role: pulumi.Resource | None = None
    """IAM role association of the autoscaler."""
    monitoring: Monitored | None = None
    key_bucket: pulumi.Input[str] | None = None
    """Bucket through which job pods exchange public keys."""
    job_roles: Sequence[pulumi.Resource] = ()
    """IAM roles and associations of job pods. Pods created before the associations never get credentials."""
    users: JobUsersSpec = NO_USERS
    jobs: Sequence[Job] = ()


class Platform(pulumi.ComponentResource):
    """Creates:
    - a Kubernetes provider for the cluster
    - the selected parts of the platform, ordered by dependencies: nodes, then operators, then namespaces
    """

    def __init__(self, name: str, args: PlatformArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(f"{COMPONENT}:Platform", name, None, opts)
        self._args, self._naming = args, args.site.naming
        self._child = pulumi.ResourceOptions(parent=self)
        self._site = site = replace(args.site, provider=self._create_provider(name))
        self._install_plugins()
        operators = self._install_operators()
        namespaces, before_jobs = self._create_namespaces_and_volumes(operators)
        if site.eks is not None and site.eks.autoscaler:
            role = [args.autoscaler_role] if args.autoscaler_role else []
            ClusterAutoscaler(self._naming.name("cluster-autoscaler"), site, site.eks.idle_minutes, role, self._child)
        if args.monitoring is not None:
            Monitoring(self._naming.name("monitoring"), site, args.monitoring, operators, self._child)
        if args.users.everyone:
            JobUsers(self._naming.name("job-users"), site, args.users, dict(namespaces.namespaces), self._child)
        if args.jobs:
            StackJobs(self._naming.name("jobs"), site, args.jobs, before_jobs, self._child)
        bucket = "" if args.key_bucket is None else args.key_bucket
        described = DescribedCluster(self._naming.name("description"), site, bucket, self._child)
        JobController(self._naming.name("job-controller"), site, namespaces.namespaces, described.namespace, self._child)
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
        site, eks = self._site, self._site.eks
        # EKS clusters get NVIDIA's plugin even before they have a pool with GPUs.
        if site.settings.device_plugin and (eks or site.gpu_selectors):
            NvidiaDevicePlugin(self._naming.name("nvidia-device-plugin"), site, self._child)
        if eks and eks.efa_plugin and any(pool.efa for pool in site.description.pools):
            EfaDevicePlugin(self._naming.name("efa-device-plugin"), site, self._child)

    def _install_operators(self) -> list[pulumi.Resource]:
        """Install the operators. Returns resources that must outlive all jobs."""
        naming, site, settings, child = self._naming, self._site, self._site.settings, self._child
        mpi_operator, train_jobs, queue = [], [], []
        if settings.mpi_operator:
            mpi_operator = [MpiOperator(naming.name("mpi-operator"), site, child).deployment]
        if settings.trainer:
            jobset = WebhookOperator(naming.name("jobset"), trainer.build_jobset_spec(site.manifests), site, (), child).deployment
            # Trainer watches JobSets, so it needs their custom resource definition.
            operator = WebhookOperator(naming.name("trainer"), trainer.build_trainer_spec(site.manifests), site, [jobset], child)
            train_jobs = [jobset, operator.deployment]
        if settings.queue:
            queue = [Queue(naming.name("queue"), site, train_jobs, child).cluster_queue]
        return [*mpi_operator, *train_jobs, *queue]

    def _create_namespaces_and_volumes(self, operators: Sequence[pulumi.Resource]) -> tuple[Namespaces, list[pulumi.Resource]]:
        """Create the namespaces and volumes. Returns the namespaces, and the resources that jobs need."""
        args, site = self._args, self._site
        # Deleting a namespace ends its jobs and pods, including those that users submitted, and unmounts their volumes.
        before_volumes = [resource for file_system in args.file_systems for resource in file_system.needs]
        after = [*operators, *before_volumes, *args.job_roles]
        created = Namespaces(self._naming.name("namespaces"), site, args.key_bucket, after, self._child)
        volumes = [volume for file_system in args.file_systems for volume in self._create_volumes(file_system, created)]
        return created, [created, *volumes]

    def _create_volumes(self, file_system: SharedFileSystem, created: Namespaces) -> list[pulumi.Resource]:
        """Create the volumes of a file system, after their directories. Returns the resources that jobs need."""
        naming, site, child, first = self._naming, self._site, self._child, file_system.volumes[0].claim
        needs, namespaces = list(file_system.needs), created.namespaces
        if file_system.storage_classes:
            classes = file_system.storage_classes
            ClaimClasses(naming.name(f"{first}-classes"), site, classes, needs, namespaces, child)
        if file_system.directories is not None:
            name = naming.name(f"{first}-directories")
            needs.append(OwnedDirectories(name, site, first, file_system.directories, needs, child).done)
        return [
            SharedVolume(naming.name(f"{volume.claim}-volume"), site, volume, needs, namespaces, child)
            for volume in file_system.volumes
        ]
