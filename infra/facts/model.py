"""The shape of the facts: plain values, no client, no future."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from infra.facts.instance_types import Architecture, InstanceType
from infra.facts.manifests import NONE, Manifests
from infra.facts.node_group_quota import DEFAULT_NODE_GROUPS


class FactsError(Exception):
    """AWS could not be queried; the message is a sentence for the user."""


@dataclass(frozen=True)
class Zone:
    name: str
    id: str


@dataclass(frozen=True)
class Subnet:
    """A subnet of an existing VPC."""

    id: str
    vpc_id: str
    zone: str
    cidr: str
    free_addresses: int
    is_public: bool
    """Its route table has a route to an internet gateway."""
    has_route_out: bool = True
    """Its route table leads out of the VPC without an internet gateway: NAT, transit or VPN gateway, peering, appliance."""


@dataclass(frozen=True)
class Vpc:
    id: str
    cidrs: tuple[str, ...]
    dns_support: bool
    dns_hostnames: bool


@dataclass(frozen=True)
class OwnVpc:
    """The VPC that a stack made."""

    id: str
    cidr: str


@dataclass(frozen=True)
class CapacityReservation:
    """A capacity reservation (cr-...)."""

    id: str
    kind: Literal["default", "capacity-block"]
    state: str
    instance_type: str
    zone: str
    total: int
    available: int
    placement_group: str | None = None
    """Name of the placement group that it was made in."""


@dataclass(frozen=True)
class FileSystem:
    """An existing EFS file system."""

    id: str
    state: str
    mount_targets: Mapping[str, str]
    """Zone -> VPC of the mount target there; a file system has them in one VPC at a time."""


@dataclass(frozen=True)
class Ami:
    """What nodes of a plain EC2 cluster start from."""

    id: str
    architecture: Architecture
    root_device: str


@dataclass(frozen=True)
class ExistingPool:
    """A node group (or a plain cluster's group of workers) that this stack made before."""

    zone: str
    min_size: int
    desired_size: int
    max_size: int
    zones: tuple[str, ...] = ()
    """All zones that its nodes may be in, by name."""
    subnet_ids: frozenset[str] = frozenset()
    instance_type: str | None = None
    """None where only its launch template knows."""
    placement: str | None = None
    """What `placementGroup: auto` came to when the pool was made; None where the question did not arise."""
    failed: bool = False
    """EKS could not create it; no node ever ran in it."""


@dataclass(frozen=True)
class Existing:
    """What this stack has already: choices made then stay put."""

    cluster_version: str | None = None
    zones: tuple[str, ...] = ()
    """Zones of the VPC that this stack made, by name."""
    pools: Mapping[str, ExistingPool] = field(default_factory=dict)
    """By pool name, the system pool included."""
    cluster_vpc_id: str | None = None
    cluster_zones: tuple[str, ...] = ()
    """Zones in which the control plane has its interfaces, by name; for the life of the cluster."""
    own_vpc: OwnVpc | None = None
    """The VPC that this stack made."""
    ami_id: str | None = None
    """The AMI of a plain EC2 cluster's workers."""
    has_public_endpoint: bool = False
    """Whether the Kubernetes API is reached from outside its network."""


@dataclass(frozen=True)
class Caller:
    account: str
    arn: str
    """As STS says it."""
    principal_arn: str | None
    """The IAM user or role behind it (assumed roles and SSO resolved, with path); None where it cannot be known."""

    @property
    def is_root(self) -> bool:
        return self.arn.endswith(":root")


@dataclass(frozen=True)
class Facts:
    """Plain values. A fact that could not be read is absent and named in `unchecked`, never guessed."""

    region: str
    partition: str
    caller: Caller
    zones: tuple[Zone, ...]
    """Zones of the region that EKS can use, by name."""
    instance_types: Mapping[str, InstanceType]
    """The types that the stack names and that exist."""
    type_names: frozenset[str]
    """All types of the region; filled only when the stack names an unknown one."""
    offerings: Mapping[str, frozenset[str]]
    """Instance type -> names of the zones that offer it."""
    quotas: Mapping[str, float]
    """Service quota code (EC2) -> vCPUs."""
    kubernetes_versions: tuple[str, ...]
    """Versions that EKS offers for new clusters, oldest first."""
    addon_versions: Mapping[str, frozenset[str]]
    """EKS add-on -> its versions for the wanted Kubernetes version."""
    vpc: Vpc | None = None
    subnets: Mapping[str, Subnet] = field(default_factory=dict)
    reservations: Mapping[str, CapacityReservation] = field(default_factory=dict)
    placement_groups: Mapping[str, str] = field(default_factory=dict)
    """Existing placement group the stack names -> its strategy."""
    file_system: FileSystem | None = None
    images: Mapping[str, Architecture] = field(default_factory=dict)
    """AMI id the stack names -> its architecture."""
    ami: Ami | None = None
    """What the nodes of a plain EC2 cluster start from; None where there is none."""
    existing: Existing = Existing()
    manifests: Manifests = NONE
    """Upstream's manifests that the stack's platform is made of."""
    not_found: frozenset[str] = frozenset()
    """Ids, names and ARNs in the stack file that AWS does not know."""
    admins: Mapping[str, str] = field(default_factory=dict)
    """`target.admins` of this account -> the ARN that IAM reports for the role or user of that name."""
    node_groups_allowed: float = DEFAULT_NODE_GROUPS
    """Managed node groups that a cluster may have; read only where the stack has more than AWS's default."""
    endpoints: frozenset[str] | None = None
    """Services with a VPC endpoint in the existing VPC, like `ecr.api` and `s3`; None if they could not be read."""
    unchecked: tuple[str, ...] = ()
    """Sentences: what could not be read, and why."""
