"""Settings of a stack: the `gpumpi:` section of `stacks/Pulumi.<stack>.yaml` as frozen models.

Each field description states the meaning and, after "Change:", what a new value does to a live cluster. The table in
docs/reference/settings.md is generated from these descriptions. This module does not query AWS: rules that need facts about
the account are in `infra.validation`.
"""

from typing import Annotated, Literal

from pydantic import Field

from infra.config.models import Model
from infra.config.parse import FURTHER_KINDS
from infra.config.stack_file import EXISTING
from infra.jobs.model import StackJobs
from infra.naming import Naming
from infra.settings.network import NetworkSettings
from infra.settings.platform import PlatformSettings
from infra.settings.pools import Pool
from infra.settings.storage import StorageSettings
from infra.settings.targets import Ec2Target, EksTarget, Target


class Budget(Model):
    """Limits that `scripts/cluster plan` and `pulumi up` compare with the stack's bill."""

    max_hourly: float | None = Field(
        None,
        gt=0,
        description="Maximum cost in USD per hour with every pool at `maxSize`, excluding usage such as traffic. "
        "Change: in place.",
    )
    max_monthly: float | None = Field(
        None,
        gt=0,
        description="Maximum cost in USD for 730 hours with the pools at their configured size. Change: in place.",
    )
    action: Literal["refuse", "warn"] = Field(
        "refuse",
        description="`refuse` stops `pulumi up` if the stack exceeds the budget or a price is unknown; `warn` prints a warning. "
        "Change: in place.",
    )

    @property
    def is_set(self) -> bool:
        return self.max_hourly is not None or self.max_monthly is not None


class Settings(Model):
    """All settings of a stack: `gpumpi:` and `aws:region`."""

    region: str = Field(exclude=True, description="AWS Region, from `aws:region`. Change: not supported; create another stack.")
    stack: str = Field(exclude=True, description="Stack name, from which the cluster's name is derived.")
    target: Target = Field(
        examples=["{kind: eks}"],
        description="Kind of cluster. Change: see the individual fields.",
        json_schema_extra={FURTHER_KINDS: [EXISTING]},
    )
    network: NetworkSettings = Field(NetworkSettings(), description="VPC and subnets. Change: see the individual fields.")
    storage: StorageSettings = Field(StorageSettings(), description="Shared storage. Change: see the individual fields.")
    pools: Annotated[tuple[Pool, ...], Field(strict=False)] = Field(
        (),
        description="Node pools for jobs, with GPUs or without. "
        "Change: reordering or adding pools does not affect nodes; removing one terminates its nodes.",
    )
    platform: PlatformSettings = Field(
        PlatformSettings(), description="Software that runs in the cluster alongside jobs. Change: see the individual fields."
    )
    jobs: StackJobs = ()
    budget: Budget = Field(Budget(), description="Limits for the cost of the stack. Change: see the individual fields.")
    cost_center: str | None = Field(
        None,
        description="Value of the `cost-center` tag on all resources; the stack's name by default. "
        "Change: in place; running nodes keep their tags; volumes and interfaces keep the tags from their pool's creation.",
    )
    tags: dict[str, str] = Field({}, description="Additional tags for all resources. Change: same as for `costCenter`.")

    @property
    def cluster_name(self) -> str:
        return Naming(self.stack).cluster

    @property
    def instance_types(self) -> frozenset[str]:
        """Instance types of the pools, and of the system nodes or the head node."""
        return frozenset({self.target.head_type, *(pool.instance_type for pool in self.pools)} - {""})

    @property
    def is_eks(self) -> bool:
        return isinstance(self.target, EksTarget)

    @property
    def eks(self) -> EksTarget:
        """Target settings of an EKS stack; fails for other stacks."""
        assert isinstance(self.target, EksTarget), f"{self.stack} is not an EKS cluster"
        return self.target

    @property
    def ec2(self) -> Ec2Target:
        """Target settings of an EC2 cluster stack; fails for other stacks."""
        assert isinstance(self.target, Ec2Target), f"{self.stack} is not an EC2 cluster"
        return self.target

    @property
    def installs_platform(self) -> bool:
        if not self.is_eks:
            return False
        asked = self.platform.install
        return self.eks.endpoint_access.is_public if asked is None else asked
