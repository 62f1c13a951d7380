"""What a job must know of its cluster. `pulumi up` leaves it in the cluster as a ConfigMap, so that a kubeconfig is all that
somebody needs to submit a job."""

from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from infra.naming import JOB_NAMESPACE, POOL_LABEL, SYSTEM_POOL

CONFIG_MAP: Final = "gpumpi-cluster"
CONFIG_MAP_NAMESPACE: Final = "gpumpi-system"
CONFIG_MAP_KEY: Final = "cluster.json"

VERSION: Final = 1
"""Of the form below; a command line that is older than the cluster's description says so instead of guessing."""

Transport = Literal["efa", "tcp"]


class _Described(BaseModel):
    """Frozen and camelCase in JSON; a key that this version does not know is left alone."""

    model_config = ConfigDict(alias_generator=to_camel, extra="ignore", frozen=True, validate_by_name=True)


class TaintDescription(_Described):
    """What pods must tolerate."""

    key: str
    value: str = ""
    effect: str = "NoSchedule"


class PoolDescription(_Described):
    """Nodes of one kind, and what one of them offers to pods."""

    name: str
    instance_type: str = ""
    gpus: int = 0
    """`nvidia.com/gpu` of one node."""
    slots: int
    """Ranks that one node takes when a job says nothing: its GPUs, without GPUs its vCPUs."""
    efa: int = 0
    """`vpc.amazonaws.com/efa` of one node."""
    hugepages_mib: int = 0
    """`hugepages-2Mi` of one node, in MiB."""
    memory_mib: int
    """What job pods may ask of one node: without hugepages, after the kubelet's reservations and the pods that run on every
    node."""
    cpu_millis: int
    """As memory, in thousandths of a CPU, before `cpu_request_factor`."""
    labels: dict[str, str] = {}
    """Labels by which a pod selects the pool; the pool label alone is enough."""
    taints: tuple[TaintDescription, ...] = ()
    max_size: int
    """Most nodes that the pool can ever have."""
    line_rate_gbps: float | None = None
    """What EC2 promises that one node's network carries, in Gbit/s; None where it promises nothing."""
    transport: Transport = "tcp"
    """What MPI shall use between nodes, and what the smoke job demands to see."""

    @property
    def selector(self) -> dict[str, str]:
        """Labels by which pods select the pool: its own one, where it has it."""
        return {POOL_LABEL: self.labels[POOL_LABEL]} if POOL_LABEL in self.labels else self.labels


class VolumeDescription(_Described):
    """A volume that every pod of a job may mount."""

    name: str
    """How jobs call it."""
    claim: str
    """The PersistentVolumeClaim in the namespace."""
    mount_path: str


class NamespaceDescription(_Described):
    """A namespace for jobs."""

    name: str = JOB_NAMESPACE
    service_account: str = "default"
    """For pods that call nobody; its token is not mounted."""
    queue: str | None = None
    """The LocalQueue that admits jobs; None where there is no queue."""
    volumes: tuple[VolumeDescription, ...] = ()
    priority_classes: tuple[str, ...] = ()
    """What a job may name as its `priority`."""
    key_bucket: bool = False
    """Whether its service account may exchange public keys through a bucket, which a ConfigMap of the namespace names."""


class ClusterDescription(_Described):
    """The content of the ConfigMap."""

    version: Annotated[int, Field(ge=1)] = VERSION
    cluster: str
    pools: tuple[PoolDescription, ...]
    """All of them, the CPU pool too."""
    launcher_pool: str = SYSTEM_POOL
    """Where launchers run."""
    namespaces: tuple[NamespaceDescription, ...] = (NamespaceDescription(),)
    """The first one is where jobs go that name none."""
    mpi_operator: bool = True
    """Whether MPIJobs can run."""
    image_registry: str = ""
    """Put before every image's whole name: `a/b:1` becomes `mirror.example.com/all/docker.io/a/b:1`."""
    cpu_request_factor: Annotated[float, Field(gt=0, le=1)] = 1.0
    """CPU requests are multiplied by it: below 1 where nodes only stand for larger ones."""

    def pool(self, name: str) -> PoolDescription | None:
        return next((pool for pool in self.pools if pool.name == name), None)

    def namespace(self, name: str | None) -> NamespaceDescription | None:
        """The namespace of that name, the first one without a name."""
        return next((one for one in self.namespaces if name in (None, one.name)), None)

    def image(self, name: str) -> str:
        """Where an image of that name is pulled from."""
        prefix = self.image_registry.rstrip("/")
        return name if not prefix or name.startswith(f"{prefix}/") else f"{prefix}/{whole_image_name(name)}"

    def to_json(self) -> str:
        """The value under `CONFIG_MAP_KEY`."""
        return self.model_dump_json(by_alias=True, indent=1)

    @classmethod
    def from_json(cls, text: str) -> "ClusterDescription":
        """Raises ValueError where the text is no description."""
        return cls.model_validate_json(text)


def whole_image_name(name: str) -> str:
    """As a node completes it.

    >>> whole_image_name("python:3"), whole_image_name("gpumpi/openmpi:5"), whole_image_name("nvcr.io/a/b:1")
    ('docker.io/library/python:3', 'docker.io/gpumpi/openmpi:5', 'nvcr.io/a/b:1')
    """
    first, slash, _ = name.partition("/")
    if slash and ("." in first or ":" in first):
        return name
    return f"docker.io/{name}" if slash else f"docker.io/library/{name}"
