"""What a stack builds: an EKS cluster or a plain EC2 cluster. Part of `infra.settings.stack`."""

from typing import Annotated, Literal

from pydantic import Field

from infra.naming import LOGIN_USER
from infra.settings.base import Model, Names

SYSTEM_POOL = "system"
"""Name of the CPU pool."""

EXISTING = "existing"
"""The target whose cluster is there already: its stacks have settings of their own, `infra.settings.existing`."""


class EndpointAccess(Model):
    """Who reaches the Kubernetes API. The private endpoint is always on."""

    public: bool | None = Field(
        None, description="A public endpoint too; by default exactly when `publicCidrs` names somebody. Change: in place."
    )
    public_cidrs: Names = Field((), description="The only addresses that reach the public endpoint. Change: in place.")
    allow_anywhere: bool = Field(False, description="Must be true before `publicCidrs` may contain 0.0.0.0/0. Change: in place.")

    @property
    def is_public(self) -> bool:
        return bool(self.public_cidrs) if self.public is None else self.public


class SystemPool(Model):
    """The small CPU node group for CoreDNS, operators and launchers."""

    instance_type: str = Field("m7i.large", description="A type without GPUs. Change: replaces the system nodes, new ones first.")
    min_size: int = Field(1, description="Least nodes. Change: in place.")
    desired_size: int = Field(2, description="Nodes at creation and, without the autoscaler, always. Change: in place.")
    max_size: int = Field(3, description="Most nodes. Change: in place.")

    @property
    def name(self) -> str:
        return SYSTEM_POOL

    @property
    def initial_size(self) -> int:
        return self.desired_size


class EksTarget(Model):
    """A new EKS cluster with everything around it."""

    kind: Literal["eks"] = Field(examples=["eks"], description="What is built. Change: not supported; make another stack.")
    kubernetes_version: str = Field(
        "1.35",
        examples=["1.35"],
        description="EKS version, in quotes. Change: upgrades the control plane, then the nodes; one minor at a time.",
    )
    endpoint_access: EndpointAccess = Field(EndpointAccess(), description="Who reaches the Kubernetes API. Change: in place.")
    admins: Names = Field(
        (), description="IAM users and roles (ARNs) with cluster-admin, beside the caller of `pulumi up`. Change: in place."
    )
    system: SystemPool = Field(SystemPool(), description="The CPU nodes that run the cluster's own pods. Change: see its fields.")
    log_retention_days: int = Field(90, description="How long control plane and flow logs are kept, in days. Change: in place.")
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
    """Who logs in to a plain EC2 cluster. Session Manager's way in is always open to whom IAM lets."""

    public_keys: Names = Field(
        (),
        description="Public keys of the people who log in, as in `~/.ssh/id_ed25519.pub`. Change: replaces the master; "
        "workers launched later have them.",
    )
    cidrs: Names = Field(
        (),
        description="The only addresses that reach the master's SSH port; the master then has a public address. None by default: "
        "Session Manager needs no open port. Change: the first one, or none again, replaces the master; others in place.",
    )


class Ec2Target(Model):
    """A master and an autoscaling group of workers, ready for `mpiexec`; no Kubernetes. The workers are the one pool."""

    kind: Literal["ec2"] = Field(examples=["ec2"], description="What is built. Change: not supported; make another stack.")
    master_type: str = Field(
        "c7i.2xlarge",
        description="Type of the master, from which jobs start. Of the workers' type it takes ranks as they do; of another it "
        "only launches, and takes ranks while there is no worker. Change: replaces the master.",
    )
    ami_id: str | None = Field(
        None,
        description="The AMI of all nodes; by default the newest that amis/ built in this account, chosen once and then kept. "
        "Change: replaces the master; workers launched later have it.",
    )
    openmpi: Literal[4, 5] = Field(
        4, description="Open MPI's major version in the AMI that is looked for. Change: none; name another `amiId`."
    )
    user: str = Field(
        LOGIN_USER, description="The login user, who runs jobs. Change: replaces the master; workers launched later have it."
    )
    ssh: Ssh = Field(Ssh(), description="Who logs in, and from where. Change: see its fields.")
    log_retention_days: int = Field(90, description="How long flow logs are kept, in days. Change: in place.")

    @property
    def head_type(self) -> str:
        """The instance type beside the pools'."""
        return self.master_type


Target = Annotated[EksTarget | Ec2Target, Field(discriminator="kind")]
