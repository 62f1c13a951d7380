"""Data classes for facts, with plain values only."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Any, Final, Literal

from infra.cost.prices import Prices
from infra.facts.instance_types import Architecture, InstanceType
from infra.facts.manifests import NONE, Manifests
from infra.facts.queries import Query
from infra.facts.service_quotas import DEFAULT_NODE_GROUPS

_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)


class FactsError(Exception):
    """AWS or the cluster could not be queried. The message is shown to the user."""


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
    """True if the subnet's route table has a route to an internet gateway."""
    has_route_out: bool = True
    """True if the subnet's route table has a route out of the VPC other than an internet gateway, such as NAT or
    peering."""


@dataclass(frozen=True)
class Vpc:
    id: str
    cidrs: tuple[str, ...]
    dns_support: bool
    dns_hostnames: bool


@dataclass(frozen=True)
class OwnVpc:
    """VPC that the stack created."""

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
    """Name of the placement group in which the reservation was created."""
    start: datetime | None = None
    end: datetime | None = None
    read_at: datetime = field(default=_LONG_AGO, compare=False)
    """Time at which AWS reported these values, by AWS's clock."""


@dataclass(frozen=True)
class FileSystem:
    """An existing shared file system."""

    id: str
    state: str
    mount_targets: Mapping[str, str]
    """Maps each zone to the VPC of the mount target there. All mount targets are in one VPC."""
    admitted: Mapping[str, Mapping[str, frozenset[str]]] | None = None
    """Zone -> security group of the mount target there -> sources from which the group allows clients (CIDRs, security
    groups and prefix lists). None if the security groups could not be read."""
    nodes_groups: frozenset[str] = frozenset()
    """Existing security groups of this stack's nodes: the stack's own group and, on EKS, the cluster security group."""


@dataclass(frozen=True, kw_only=True)
class LustreFileSystem(FileSystem):
    """An FSx for Lustre file system, whose servers are in one zone: from that zone, they serve nodes in all zones."""

    subnet_id: str
    size_gib: int
    dns_name: str
    mount_name: str

    @property
    def zone(self) -> str:
        return next(iter(self.mount_targets), "")


@dataclass(frozen=True)
class EbsKey:
    """Customer managed KMS key that EBS uses for volumes without a key of their own."""

    arn: str
    state: str
    """State of the key in KMS, such as `Enabled`; `NotFound` if it does not exist."""
    role: str
    """ARN of Auto Scaling's service-linked role, which launches the nodes."""
    policy: Mapping[str, Any] = field(default_factory=dict)
    grants: frozenset[str] = frozenset()
    """Operations that the key's grants allow the role to perform."""


@dataclass(frozen=True)
class EndpointService:
    """AWS service that offers interface endpoints in the Region."""

    name: str
    """Full name, such as `com.amazonaws.us-west-2.ecr.api`. Its prefix depends on the partition and on the service."""
    zones: frozenset[str]
    """Names of the zones in which the service offers endpoints."""


@dataclass(frozen=True)
class Ami:
    """AMI for the nodes of an EC2 cluster."""

    id: str
    architecture: Architecture
    root_device: str
    source: str = ""
    """Name of the AMI from which it was built; empty for AMIs that were not built from amis/."""


@dataclass(frozen=True)
class NodeTemplate:
    """Settings in an existing node group's launch template version, limited to settings that `pulumi up` manages."""

    instance_type: str | None
    image_id: str | None
    reservation_id: str | None
    root_volume_gib: int | None
    interfaces: tuple[tuple[int, int, str], ...]
    """Network card, device index and type of each interface."""
    user_data: str
    """Base64-encoded."""


@dataclass(frozen=True)
class ExistingPool:
    """Existing pool of this stack: a managed node group, or the Auto Scaling group of an EC2 cluster's workers."""

    zone: str
    min_size: int
    desired_size: int
    max_size: int
    zones: tuple[str, ...] = ()
    """Names of all zones in which the pool's nodes may run."""
    subnet_ids: frozenset[str] = frozenset()
    instance_type: str | None = None
    """Instance type; None if only the launch template specifies it."""
    placement: str | None = None
    """Value that `placementGroup: auto` resolved to when the pool was created; None if no tag records it."""
    failed: bool = False
    """True if EKS failed to create the node group, so that it never had nodes."""
    join_seconds: int | None = None
    """Time limit of the hook that waits for a new worker of an EC2 cluster to join."""
    node_group: str | None = None
    """Name of the managed node group."""
    version: str | None = None
    """Kubernetes version of a managed node group."""
    block_template: NodeTemplate | None = None
    """Launch template of a node group in a Capacity Block; None for other groups, whose nodes EKS can replace."""


@dataclass(frozen=True)
class AddonVersions:
    """Versions of an EKS add-on for one Kubernetes version."""

    offered: frozenset[str]
    default: str | None
    """None if AWS reports no default."""


@dataclass(frozen=True)
class Existing:
    """Existing resources of this stack. Planning keeps the choices that were made when these resources were created."""

    cluster_version: str | None = None
    zones: tuple[str, ...] = ()
    """Names of the zones of the VPC that this stack created."""
    pools: Mapping[str, ExistingPool] = field(default_factory=dict)
    """Existing pools, including the system pool, keyed by name."""
    cluster_vpc_id: str | None = None
    cluster_zones: tuple[str, ...] = ()
    """Names of the zones that contain network interfaces of the control plane. These zones never change."""
    own_vpc: OwnVpc | None = None
    """VPC that this stack created."""
    ami_id: str | None = None
    """AMI of an EC2 cluster's workers."""
    lustre: LustreFileSystem | None = None
    """FSx for Lustre file system that this stack created."""
    support_type: Literal["STANDARD", "EXTENDED"] | None = None
    """Upgrade policy of the EKS cluster."""
    has_public_endpoint: bool = False
    """True if the Kubernetes API is reachable from outside the VPC."""
    addon_versions: Mapping[str, str] = field(default_factory=dict)
    """Maps each installed EKS add-on to its version."""
    has_leftover_logs: bool = False
    """True if there is no cluster, but EKS has recreated the log group of a deleted cluster with this name."""


@dataclass(frozen=True)
class Caller:
    account: str
    arn: str
    """ARN as reported by STS."""
    principal_arn: str | None
    """ARN of the caller's IAM user or role, with its path (assumed roles and SSO are resolved); None if unknown."""

    @property
    def is_root(self) -> bool:
        return self.arn.endswith(":root")


@dataclass(frozen=True)
class Facts:
    """Facts that AWS reports. Values that could not be read are omitted and listed in `unchecked`, never guessed."""

    region: str
    partition: str
    caller: Caller
    zones: tuple[Zone, ...] = ()
    """Zones of the Region that EKS can use, sorted by name."""
    instance_types: Mapping[str, InstanceType] = field(default_factory=dict)
    """Instance types in the stack file that exist in AWS, keyed by name."""
    type_names: frozenset[str] = frozenset()
    """All instance types of the Region; empty unless the stack file names an unknown type."""
    offerings: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Maps each instance type to the names of the zones that offer it."""
    quotas: Mapping[str, float] = field(default_factory=dict)
    """Maps each EC2 service quota code to the maximum number of vCPUs."""
    kubernetes_versions: tuple[str, ...] = ()
    """Versions that EKS offers for new clusters, oldest first."""
    addon_versions: Mapping[str, AddonVersions] = field(default_factory=dict)
    """Maps each EKS add-on to the versions that AWS offers for the stack's Kubernetes version; empty if they could not
    be read."""
    today: date | None = None
    """Date to compare with the end of support for Kubernetes versions; None skips that rule."""
    extended_support: frozenset[str] = frozenset()
    """Kubernetes versions that EKS offers, but only in extended support."""
    vpc: Vpc | None = None
    subnets: Mapping[str, Subnet] = field(default_factory=dict)
    reservations: Mapping[str, CapacityReservation] = field(default_factory=dict)
    placement_groups: Mapping[str, str] = field(default_factory=dict)
    """Maps the name of each existing placement group in the stack file to the group's strategy."""
    efs: Mapping[str, FileSystem] = field(default_factory=dict)
    """Maps the ID of each existing EFS file system in the stack file to the file system."""
    lustre: Mapping[str, LustreFileSystem] = field(default_factory=dict)
    """Maps the ID of each existing FSx for Lustre file system in the stack file to the file system."""
    bucket_region: str | None = None
    """Region of the data repository's bucket; empty if the bucket does not exist, None if it could not be read."""
    lustre_key_state: str | None = None
    """State of the KMS key in the settings of the Lustre file system; `NotFound` if the key does not exist, None if the
    state could not be read."""
    images: Mapping[str, Architecture] = field(default_factory=dict)
    """Maps the ID of each existing AMI in the stack file to the AMI's architecture."""
    ami: Ami | None = None
    """AMI of the nodes of an EC2 cluster; None if not found."""
    existing: Existing = Existing()
    manifests: Manifests = NONE
    """Upstream manifests that the stack's platform needs."""
    not_found: frozenset[str] = frozenset()
    """IDs, names and ARNs in the stack file that do not exist in AWS."""
    admins: Mapping[str, str] = field(default_factory=dict)
    """Maps each ARN in `target.admins` to the ARN that IAM reports for the role or user with that name; only for
    principals in this account."""
    node_groups_allowed: float = DEFAULT_NODE_GROUPS
    """Quota of managed node groups per cluster; queried only if the stack needs more than AWS's default."""
    endpoints: frozenset[str] | None = None
    """Services with a VPC endpoint in the existing VPC, such as `ecr.api` and `s3`; None if they could not be read."""
    endpoint_services: Mapping[str, EndpointService] | None = None
    """Services that offer interface endpoints, such as `ecr.api`; None if they are not needed or could not be read."""
    ebs_key: EbsKey | None = None
    """The account's default key for EBS; None if it is an AWS managed key or could not be read."""
    in_use: Mapping[str, int] = field(default_factory=dict)
    """Maps each EC2 service quota code to the vCPUs used by reservations and by instances outside the stack."""
    prices: Prices | None = None
    """Prices; queried only for stacks with a budget."""
    unchecked: Mapping[Query, tuple[str, ...]] = field(default_factory=dict)
    """Maps each query that failed to one sentence for each value that could not be read, with the reason."""

    @property
    def unchecked_sentences(self) -> tuple[str, ...]:
        return tuple(sorted(sentence for sentences in self.unchecked.values() for sentence in sentences))
