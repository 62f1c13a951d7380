"""`gpumpi:target`: an EKS cluster, or an EC2 cluster without Kubernetes. Part of `infra.settings.stack`."""

from typing import Annotated, Literal

from pydantic import Field

from infra.naming import LOGIN_USER
from infra.settings.base import Model, Names, PublicKeys

SYSTEM_POOL = "system"
"""Name of the CPU pool."""

EXISTING = "existing"
"""Target kind of a Kubernetes cluster that exists already. Its stacks have their own settings: `infra.settings.existing`."""


class EndpointAccess(Model):
    """Access to the Kubernetes API. The private endpoint is always on."""

    public: bool | None = Field(
        None, description="Add a public endpoint; by default if `publicCidrs` lists addresses. Change: in place."
    )
    public_cidrs: Names = Field((), description="The only addresses that reach the public endpoint. Change: in place.")
    allow_anywhere: bool = Field(False, description="Must be true before `publicCidrs` may contain 0.0.0.0/0. Change: in place.")

    @property
    def is_public(self) -> bool:
        return bool(self.public_cidrs) if self.public is None else self.public


class SystemPool(Model):
    """The small CPU node group for CoreDNS, operators and launchers."""

    instance_type: str = Field("m7i.large", description="A type without GPUs. Change: replaces the system nodes, new ones first.")
    min_size: int = Field(1, description="Minimum number of nodes. Change: in place.")
    desired_size: int = Field(2, description="Nodes at creation and, without the autoscaler, always. Change: in place.")
    max_size: int = Field(3, description="Maximum number of nodes. Change: in place.")

    @property
    def name(self) -> str:
        return SYSTEM_POOL

    @property
    def initial_size(self) -> int:
        return self.desired_size


class EksTarget(Model):
    """A new EKS cluster with everything around it."""

    kind: Literal["eks"] = Field(examples=["eks"], description="What is built. Change: not supported; create another stack.")
    kubernetes_version: str = Field(
        "1.35",
        examples=["1.35"],
        description="EKS version, in quotes. Change: upgrades the control plane, then the nodes; one minor at a time.",
    )
    endpoint_access: EndpointAccess = Field(EndpointAccess(), description="Access to the Kubernetes API. Change: in place.")
    admins: Names = Field(
        (), description="IAM users and roles (ARNs) with cluster-admin, beside the caller of `pulumi up`. Change: in place."
    )
    system: SystemPool = Field(SystemPool(), description="The CPU nodes that run the cluster's own pods. Change: see its fields.")
    log_retention_days: int = Field(90, description="Days to keep control plane and flow logs. Change: in place.")
    addon_versions: dict[str, str] = Field(
        {}, description="EKS add-on versions other than the tested ones, by add-on name. Change: updates the add-on in place."
    )
    deletion_protection: bool = Field(
        False, description="EKS refuses to delete the cluster while true. Change: in place; set false before `pulumi destroy`."
    )

    @property
    def head_type(self) -> str:
        """The instance type beside the pools'."""
        return self.system.instance_type


class Ssh(Model):
    """SSH access to an EC2 cluster. Session Manager always works, for everyone whom IAM allows."""

    public_keys: PublicKeys = Field(
        (),
        description="Public keys of SSH users, as in `~/.ssh/id_ed25519.pub`. Change: replaces the head node; "
        "workers launched later have them.",
    )
    cidrs: Names = Field(
        (),
        description="The only addresses that reach the head node's SSH port; the head node then has a public address. "
        "None by default: Session Manager needs no open port. Change: the first one, or none again, replaces the head node; "
        "others in place.",
    )


class Ec2Target(Model):
    """A head node and an Auto Scaling group of workers, ready for `mpiexec`; no Kubernetes. The workers are the only pool."""

    kind: Literal["ec2"] = Field(examples=["ec2"], description="What is built. Change: not supported; create another stack.")
    head_node_type: str = Field(
        "c7i.2xlarge",
        description="Instance type of the head node, where jobs are started. If it is the workers' type, the head node also "
        "runs ranks; otherwise it only launches jobs, and runs ranks while there is no worker. Change: replaces the head node. "
        "`masterType` is still accepted.",
    )
    ami_id: str | None = Field(
        None,
        description="The AMI of all nodes; by default the newest that amis/ built in this account, chosen once and then kept. "
        "Change: replaces the head node; workers launched later have it.",
    )
    openmpi: Literal[4, 5] = Field(
        5,
        description="Major version of Open MPI that the AMI must have. AWS's own Open MPI is CUDA-aware only in version 5. "
        "Change: none; set another `amiId`.",
    )
    user: str = Field(
        LOGIN_USER, description="The login user, who runs jobs. Change: replaces the head node; workers launched later have it."
    )
    ssh: Ssh = Field(Ssh(), description="SSH users, and where they may log in from. Change: see its fields.")
    log_retention_days: int = Field(90, description="Days to keep flow logs. Change: in place.")

    @property
    def head_type(self) -> str:
        """The instance type beside the pools'."""
        return self.head_node_type


Target = Annotated[EksTarget | Ec2Target, Field(discriminator="kind")]
