"""`gpumpi:target`: an EKS cluster, or an EC2 cluster without Kubernetes. Part of `infra.settings.stack`."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from infra.config.models import Model, Names, PublicKeys
from infra.naming import LOGIN_USER, SYSTEM_POOL


class EndpointAccess(Model):
    """Access to the Kubernetes API. The private endpoint is always enabled."""

    public: bool | None = Field(
        None, description="Enable the public endpoint; by default only if `publicCidrs` is not empty. Change: in place."
    )
    public_cidrs: Names = Field((), description="CIDRs that may reach the public endpoint. Change: in place.")
    allow_anywhere: bool = Field(False, description="Allow 0.0.0.0/0 in `publicCidrs`. Change: in place.")
    private_cidrs: Names = Field(
        (),
        description="CIDRs that may reach the private endpoint, such as those of a bastion host's subnet or of a network "
        "connected by VPN or peering. By default only nodes and their pods can. With `interfaceEndpoints: true`, these CIDRs "
        "can also reach the VPC endpoints. Change: in place.",
    )

    @property
    def is_public(self) -> bool:
        return bool(self.public_cidrs) if self.public is None else self.public


class SystemPool(Model):
    """Small CPU node group for CoreDNS, operators and launchers."""

    instance_type: str = Field(
        "m7i.large", description="Instance type without GPUs. Change: replaces the system nodes, creating new ones first."
    )
    min_size: int = Field(1, description="Minimum number of nodes. Change: in place.")
    desired_size: int = Field(
        2, description="Number of nodes at creation and, without the autoscaler, at all times. Change: in place."
    )
    max_size: int = Field(3, description="Maximum number of nodes. Change: in place.")

    @property
    def name(self) -> str:
        return SYSTEM_POOL

    @property
    def initial_size(self) -> int:
        return self.desired_size


class EksTarget(Model):
    """A new EKS cluster."""

    head_path: ClassVar[str] = "target.system.instanceType"
    """Path of the setting for `head_type`, for messages."""
    minimum_zones: ClassVar[int] = 2
    """https://docs.aws.amazon.com/eks/latest/userguide/network-reqs.html"""
    default_zones: ClassVar[int] = 3
    addresses_per_node: ClassVar[int] = 13
    """One for the primary interface and, for pods, the VPC CNI's MINIMUM_IP_TARGET of 12. `efa-only` interfaces use no IP
    address, so a p5 with its 33 interfaces needs no more."""

    kind: Literal["eks"] = Field(examples=["eks"], description="Kind of cluster. Change: not supported; create another stack.")
    kubernetes_version: str = Field(
        "1.35",
        examples=["1.35"],
        description="Kubernetes version, in quotes. "
        "Change: upgrades the control plane, then the nodes; one minor version at a time.",
    )
    endpoint_access: EndpointAccess = Field(EndpointAccess(), description="Access to the Kubernetes API. Change: in place.")
    admins: Names = Field(
        (),
        description="ARNs of IAM users and roles with cluster-admin, in addition to the caller of `pulumi up`. Change: in place.",
    )
    system: SystemPool = Field(
        SystemPool(), description="CPU nodes that run the cluster's own pods. Change: see the individual fields."
    )
    log_retention_days: int = Field(90, description="Retention of control plane logs and flow logs in days. Change: in place.")
    addon_versions: dict[str, str] = Field(
        {},
        description="Versions of EKS add-ons, by add-on name. By default, AWS's default for the Kubernetes version, chosen at "
        "creation and then kept. Change: updates the add-on in place; an add-on that you remove from this list keeps its "
        "version.",
    )
    deletion_protection: bool = Field(
        False, description="While true, EKS refuses to delete the cluster. Change: in place; set false before `pulumi destroy`."
    )

    @property
    def head_type(self) -> str:
        """Instance type of the system nodes."""
        return self.system.instance_type

    @property
    def private_cidrs(self) -> tuple[str, ...]:
        """Networks, connected to the VPC, from which the cluster can be reached."""
        return self.endpoint_access.private_cidrs


class Ssh(Model):
    """SSH access to an EC2 cluster. Principals with the required IAM permissions can always use Session Manager
    instead."""

    public_keys: PublicKeys = Field(
        (),
        description="Public keys of SSH users, as in `~/.ssh/id_ed25519.pub`. Change: replaces the head node; "
        "workers launched later get the new keys.",
    )
    cidrs: Names = Field(
        (),
        description="CIDRs that may reach the head node's SSH port. If there is a CIDR, the head node has a public address. "
        "Empty by default: Session Manager needs no open port. Change: in place, but adding the first or removing the last "
        "CIDR replaces the head node.",
    )


class Ec2Target(Model):
    """A cluster without Kubernetes, ready for `mpiexec`. It consists of a head node and one pool of workers in an Auto
    Scaling group."""

    head_path: ClassVar[str] = "target.headNodeType"
    """Path of the setting for `head_type`, for messages."""
    minimum_zones: ClassVar[int] = 1
    default_zones: ClassVar[int] = 1
    """All nodes are in one zone, next to their file system."""
    addresses_per_node: ClassVar[int] = 1
    admins: ClassVar[tuple[str, ...]] = ()
    private_cidrs: ClassVar[tuple[str, ...]] = ()

    kind: Literal["ec2"] = Field(examples=["ec2"], description="Kind of cluster. Change: not supported; create another stack.")
    head_node_type: str = Field(
        "c7i.2xlarge",
        description="Instance type of the head node, from which users start jobs. With the workers' instance type, the head "
        "node also runs ranks; otherwise it only launches jobs, and runs ranks only while there are no workers. "
        "Change: replaces the head node.",
    )
    ami_id: str | None = Field(
        None,
        description="AMI of all nodes; by default this account's newest AMI built from amis/, chosen at creation and then kept. "
        "Change: replaces the head node; workers launched later use it.",
    )
    openmpi: Literal[4, 5] = Field(
        5,
        description="Major version of Open MPI that the AMI must have; AWS's own Open MPI is CUDA-aware only in version 5. "
        "Change: no effect on an existing cluster; set another `amiId`.",
    )
    user: str = Field(
        LOGIN_USER, description="Login user that runs jobs. Change: replaces the head node; workers launched later use it."
    )
    ssh: Ssh = Field(
        Ssh(), description="SSH users, and the addresses from which they may log in. Change: see the individual fields."
    )
    log_retention_days: int = Field(90, description="Retention of flow logs in days. Change: in place.")

    @property
    def head_type(self) -> str:
        """Instance type of the head node."""
        return self.head_node_type


Target = Annotated[EksTarget | Ec2Target, Field(discriminator="kind")]
