"""Cluster description for jobs. `pulumi up` stores the description in a ConfigMap in the cluster, so users need only
a kubeconfig to submit jobs."""

from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from infra.jobs.images import is_short_image_name
from infra.naming import JOB_NAMESPACE, PLATFORM_NAMESPACE, POOL_LABEL, SYSTEM_POOL

CONFIG_MAP: Final = "gpumpi-cluster"
CONFIG_MAP_NAMESPACE: Final = PLATFORM_NAMESPACE
CONFIG_MAP_KEY: Final = "cluster.json"

VERSION: Final = 1
"""Version of the format. A CLI older than the cluster's description reports an error instead of guessing."""

Transport = Literal["efa", "tcp", "infiniband"]


class _Described(BaseModel):
    """Base model: frozen, camelCase in JSON, ignores unknown keys."""

    model_config = ConfigDict(alias_generator=to_camel, extra="ignore", frozen=True, validate_by_name=True)


class TaintDescription(_Described):
    """A taint that pods must tolerate."""

    key: str
    value: str = ""
    effect: str = "NoSchedule"


class PoolDescription(_Described):
    """A pool of identical nodes, with the resources that each node offers to pods."""

    name: str
    instance_type: str = ""
    market: str = ""
    """Purchase option of the instances, such as `spot`; empty outside AWS and in descriptions from older versions."""
    gpus: int = 0
    """GPUs (`nvidia.com/gpu`) per node."""
    slots: int
    """Default ranks per node: one per GPU, or one per vCPU on nodes without GPUs."""
    efa: int = 0
    """EFA interfaces (`vpc.amazonaws.com/efa`) per node."""
    rdma_resource: str = ""
    """Resource of the RDMA device plugin; empty if jobs of the pool use no InfiniBand or RoCE."""
    rdma_devices: int = 0
    """Devices of `rdma_resource` per node."""
    hugepages_mib: int = 0
    """Huge pages of 2 MiB (`hugepages-2Mi`) per node, in MiB."""
    memory_mib: int
    """Memory per node for job pods, excluding huge pages, the kubelet's reservations and pods that run on every
    node."""
    cpu_millis: int
    """CPU per node for job pods in millicores, before `cpu_request_factor` is applied."""
    labels: dict[str, str] = {}
    """Labels of the nodes. If the labels include the pool label, this label is enough to select the nodes."""
    taints: tuple[TaintDescription, ...] = ()
    max_size: int
    """Maximum size of the pool."""
    line_rate_gbps: float | None = None
    """Network bandwidth per node that EC2 guarantees, in Gbit/s; None if EC2 guarantees no bandwidth."""
    transport: Transport = "tcp"
    """MPI transport between nodes. The smoke job fails if MPI uses a different transport."""
    nccl: Transport | None = None
    """NCCL transport between nodes; None in descriptions from older versions."""

    @property
    def nccl_transport(self) -> Transport:
        """NCCL transport between nodes. Descriptions from older versions specify a single transport for MPI and
        NCCL."""
        return self.nccl or self.transport

    @property
    def node_selector(self) -> dict[str, str]:
        """Node selector of the pool: the pool label if the nodes have it, otherwise all labels."""
        return {POOL_LABEL: self.labels[POOL_LABEL]} if POOL_LABEL in self.labels else self.labels


class VolumeDescription(_Described):
    """A volume that all pods of a job may mount."""

    name: str
    """Name of the volume in jobs."""
    claim: str
    """Name of the PersistentVolumeClaim in the namespace."""
    mount_path: str


class NamespaceDescription(_Described):
    """A job namespace."""

    name: str = JOB_NAMESPACE
    pod_security: Literal["restricted", "baseline"] = "restricted"
    """Pod Security Standard that Kubernetes enforces in the namespace."""
    service_account: str = "default"
    """Service account of pods that do not call the Kubernetes API; its token is not mounted."""
    queue: str | None = None
    """LocalQueue that admits jobs; None if the cluster has no queue."""
    volumes: tuple[VolumeDescription, ...] = ()
    priority_classes: tuple[str, ...] = ()
    """Priority classes that jobs may set as `priority`."""
    key_bucket: bool = False
    """True if pods with the service account may exchange public keys through the S3 bucket specified in a ConfigMap in
    the namespace."""


class ClusterDescription(_Described):
    """Description of a cluster for jobs: the content of its ConfigMap."""

    version: Annotated[int, Field(ge=1)] = VERSION
    cluster: str
    region: str = ""
    """AWS Region; empty outside AWS."""
    account: str = ""
    """AWS account that owns the stack's bucket; empty outside AWS."""
    bucket: str = ""
    """Bucket to which `submit` sends folders of jobs without a writable shared volume. Job pods may read them. Empty if
    the stack has no bucket."""
    pools: tuple[PoolDescription, ...]
    """All pools, including the CPU pool."""
    launcher_pool: str = SYSTEM_POOL
    """Pool that runs the launchers."""
    namespaces: tuple[NamespaceDescription, ...] = (NamespaceDescription(),)
    """Job namespaces; the first namespace is the default."""
    mpi_operator: bool = True
    """True if the cluster can run MPIJobs."""
    log_group: str = ""
    """CloudWatch log group for the logs of submitted jobs; empty if jobs keep their logs on a volume."""
    image_registry: str = ""
    """Prefix of full image names: `docker.io/a/b:1` becomes `mirror.example.com/all/docker.io/a/b:1`."""
    image_repository: str = ""
    """Repository of short image names: `b:1` becomes `registry.example.com/team/b:1`. Empty if the cluster has no image
    repository."""
    image_pull_secrets: tuple[str, ...] = ()
    """Secrets that nodes use to pull images, unless the job lists its own."""
    cpu_request_factor: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Multiplier for CPU requests; below 1 if small nodes are used in place of larger nodes."""

    def pool(self, name: str) -> PoolDescription | None:
        return next((pool for pool in self.pools if pool.name == name), None)

    def namespace(self, name: str | None) -> NamespaceDescription | None:
        """Return the namespace with this name, or the first namespace if `name` is None."""
        return next((namespace for namespace in self.namespaces if name in (None, namespace.name)), None)

    def image(self, name: str) -> str:
        """Return the image reference that nodes pull. Raises LookupError for a short name without an image repository,
        which validation should have rejected."""
        if is_short_image_name(name):
            if not self.image_repository:
                raise LookupError(f"{self.cluster} has no image repository for {name}")
            return f"{self.image_repository}/{name}"
        prefix = self.image_registry.rstrip("/")
        direct = [f"{place}/" for place in (prefix, self.image_repository) if place]
        return name if not prefix or name.startswith(tuple(direct)) else f"{prefix}/{name}"

    def to_json(self) -> str:
        """Return the description as JSON, to store in the ConfigMap under `CONFIG_MAP_KEY`."""
        return self.model_dump_json(by_alias=True, indent=1)

    @classmethod
    def from_json(cls, text: str) -> "ClusterDescription":
        """Parse a cluster description. Raises ValueError if the text is invalid."""
        return cls.model_validate_json(text)
