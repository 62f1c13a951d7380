"""Settings of a stack: the `gpumpi:` part of `stacks/Pulumi.<stack>.yaml` as frozen models.

Every field carries its meaning and, after "Change:", what a new value does to a live cluster; the README's configuration
table is checked against these texts. Nothing here queries AWS: rules that need facts live in `infra.validation`.
"""

from typing import Annotated

from pydantic import Field

from infra.config.parse import FURTHER_KINDS
from infra.jobs.model import Job
from infra.naming import Naming
from infra.settings.base import Model
from infra.settings.network import NetworkSettings
from infra.settings.platform import PlatformSettings
from infra.settings.pools import Pool
from infra.settings.storage import StorageSettings
from infra.settings.targets import EXISTING, Ec2Target, EksTarget, Target


class Settings(Model):
    """All settings of a stack: `gpumpi:` and `aws:region`."""

    region: str = Field(exclude=True, description="`aws:region`. Change: not supported; create another stack.")
    stack: str = Field(exclude=True, description="The stack's name, which is the cluster's.")
    target: Target = Field(
        examples=["{kind: eks}"],
        description="What is built. Change: see its fields.",
        json_schema_extra={FURTHER_KINDS: [EXISTING]},
    )
    network: NetworkSettings = Field(NetworkSettings(), description="The VPC. Change: see its fields.")
    storage: StorageSettings = Field(StorageSettings(), description="Shared storage. Change: see its fields.")
    pools: Annotated[tuple[Pool, ...], Field(strict=False)] = Field(
        (), description="GPU node pools. Change: reordering and adding move nothing; removing one terminates its nodes."
    )
    platform: PlatformSettings = Field(
        PlatformSettings(), description="What runs in the cluster beside jobs. Change: see its fields."
    )
    jobs: Annotated[tuple[Job, ...], Field(strict=False)] = Field(
        (),
        description="Jobs that run once; `pulumi up` does not wait for their end. All fields: docs/jobs.md. "
        "Change: a job whose text changes is removed and runs again; one that leaves the file is removed.",
    )
    cost_center: str | None = Field(
        None,
        description="Value of the tag `cost-center` on everything; the stack's name by default. "
        "Change: in place; nodes that run keep theirs, and volumes and interfaces those of their pool's creation.",
    )
    tags: dict[str, str] = Field({}, description="More tags for everything. Change: as with `costCenter`.")

    @property
    def cluster_name(self) -> str:
        return Naming(self.stack).cluster

    @property
    def is_eks(self) -> bool:
        return isinstance(self.target, EksTarget)

    @property
    def eks(self) -> EksTarget:
        """The target of a stack that is known to be an EKS cluster."""
        assert isinstance(self.target, EksTarget), f"{self.stack} is not an EKS cluster"
        return self.target

    @property
    def ec2(self) -> Ec2Target:
        """The target of a stack that is known to be an EC2 cluster."""
        assert isinstance(self.target, Ec2Target), f"{self.stack} is not an EC2 cluster"
        return self.target

    @property
    def installs_platform(self) -> bool:
        if not self.is_eks:
            return False
        asked = self.platform.install
        return self.eks.endpoint_access.is_public if asked is None else asked
