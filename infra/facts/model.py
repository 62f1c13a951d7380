"""Types of the facts: plain values only."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from infra.facts.instance_types import Architecture, InstanceType
from infra.facts.manifests import NONE, Manifests
from infra.facts.node_group_quota import DEFAULT_NODE_GROUPS


class FactsError(Exception):
    """AWS or the cluster could not be queried. The message is for the user."""


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
    """Its route table has a route out of the VPC other than an internet gateway: NAT, transit or VPN gateway, peering, ..."""


@dataclass(frozen=True)
class Vpc:
    id: str
    cidrs: tuple[str, ...]
    dns_support: bool
    dns_hostnames: bool


@dataclass(frozen=True)
class OwnVpc:
    """VPC created by the stack."""

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
    """Name of its placement group."""


@dataclass(frozen=True)
class FileSystem:
    """An existing EFS file system."""

    id: str
    state: str
    mount_targets: Mapping[str, str]
    """Zone -> VPC of its mount target. A file system has mount targets in one VPC at a time."""


@dataclass(frozen=True)
class Ami:
    """AMI of EC2 cluster nodes."""

    id: str
    architecture: Architecture
    root_device: str


@dataclass(frozen=True)
class ExistingPool:
    """Existing node group of this stack, or Auto Scaling group of an EC2 cluster's workers."""

    zone: str
    min_size: int
    desired_size: int
    max_size: int
    zones: tuple[str, ...] = ()
    """All zones that its nodes may be in, by name."""
    subnet_ids: frozenset[str] = frozenset()
    instance_type: str | None = None
    """None if only its launch template contains the type."""
    placement: str | None = None
    """Choice of `placementGroup: auto` when the pool was created; None if there was nothing to choose."""
    failed: bool = False
    """EKS failed to create it, so it never had nodes."""


@dataclass(frozen=True)
class Existing:
    """Existing resources of this stack, whose earlier choices are kept."""

    cluster_version: str | None = None
    zones: tuple[str, ...] = ()
    """Zones of the VPC created by this stack, by name."""
    pools: Mapping[str, ExistingPool] = field(default_factory=dict)
    """By pool name, including the system pool."""
    cluster_vpc_id: str | None = None
    cluster_zones: tuple[str, ...] = ()
    """Zones of the control plane's network interfaces, by name. They never change."""
    own_vpc: OwnVpc | None = None
    """VPC created by this stack."""
    ami_id: str | None = None
    """AMI of an EC2 cluster's workers."""
    has_public_endpoint: bool = False
    """True if the Kubernetes API is reachable from outside the VPC."""


@dataclass(frozen=True)
class Caller:
    account: str
    arn: str
    """As reported by STS."""
    principal_arn: str | None
    """The IAM user or role of the caller (assumed roles and SSO resolved, with path); None if unknown."""

    @property
    def is_root(self) -> bool:
        return self.arn.endswith(":root")


@dataclass(frozen=True)
class Facts:
    """What AWS reports. Values that could not be read are absent and listed in `unchecked`, never guessed."""

    region: str
    partition: str
    caller: Caller
    zones: tuple[Zone, ...]
    """Zones of the Region that EKS can use, by name."""
    instance_types: Mapping[str, InstanceType]
    """Existing instance types named by the stack."""
    type_names: frozenset[str]
    """All types of the Region; only filled if the stack names an unknown type."""
    offerings: Mapping[str, frozenset[str]]
    """Instance type -> names of the zones that offer it."""
    quotas: Mapping[str, float]
    """Service quota code (EC2) -> vCPUs."""
    kubernetes_versions: tuple[str, ...]
    """Versions that EKS offers for new clusters, oldest first."""
    addon_versions: Mapping[str, frozenset[str]]
    """EKS add-on -> its versions for the stack's Kubernetes version."""
    vpc: Vpc | None = None
    subnets: Mapping[str, Subnet] = field(default_factory=dict)
    reservations: Mapping[str, CapacityReservation] = field(default_factory=dict)
    placement_groups: Mapping[str, str] = field(default_factory=dict)
    """Existing placement group named by the stack -> its strategy."""
    file_system: FileSystem | None = None
    images: Mapping[str, Architecture] = field(default_factory=dict)
    """Existing AMI named by the stack -> its architecture."""
    ami: Ami | None = None
    """AMI of the nodes of an EC2 cluster; None if not found."""
    existing: Existing = Existing()
    manifests: Manifests = NONE
    """Upstream manifests of the stack's platform."""
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
