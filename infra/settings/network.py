"""`gpumpi:network`: a new VPC, or an existing one by ID."""

from typing import Literal

from pydantic import Field

from infra.config.models import Model, Names

SERVICE_CIDR = "172.20.0.0/16"
"""CIDR block of Kubernetes services, the same in every cluster. It must not overlap the CIDR blocks of the VPC."""


class NetworkSettings(Model):
    """A new VPC, or (with `vpcId`) an existing one, which is never modified."""

    cidr: str | None = Field(
        None,
        description="CIDR of the new VPC, /16 to /20; 10.0.0.0/16 by default. Change: not supported; create another stack.",
    )
    zones: int | Names | None = Field(
        None,
        description="Number of zones (2 to 4; by default 3, or fewer if the region has fewer), or their names. "
        "Change: adding a zone moves no nodes; zones of the control plane and the system nodes cannot be removed.",
    )
    nat_gateways: Literal["none", "one", "perZone"] | None = Field(
        None,
        description="NAT gateways for outbound traffic of private subnets; `one` by default. `none` needs "
        "`interfaceEndpoints: true`. Change: in place; open connections break.",
    )
    interface_endpoints: bool | None = Field(
        None, description="VPC endpoints for every AWS service that nodes call, for private clusters. Change: in place."
    )
    vpc_id: str | None = Field(
        None, description="ID of an existing VPC to use; the VPC is not modified. Change: not supported; create another stack."
    )
    subnet_ids: Names = Field(
        (),
        description="Private subnets of `vpcId`, in at least two zones. "
        "Change: reordering or adding subnets moves no nodes; removing one replaces the resources in it. The last subnet in a "
        "zone of the control plane cannot be removed.",
    )

    @property
    def is_existing(self) -> bool:
        return self.vpc_id is not None

    @property
    def new_cidr(self) -> str:
        """CIDR of the VPC that this stack creates."""
        return self.cidr or "10.0.0.0/16"

    @property
    def zone_names(self) -> tuple[str, ...]:
        """Names of the zones; empty if the settings contain only the number of zones."""
        return self.zones if isinstance(self.zones, tuple) else ()

    @property
    def zone_count(self) -> int | None:
        """Number of zones in the settings; None if the region determines it."""
        return self.zones if isinstance(self.zones, int) else (len(self.zones) if self.zones else None)

    @property
    def nat(self) -> Literal["none", "one", "perZone"]:
        return self.nat_gateways or ("none" if self.is_existing else "one")

    @property
    def has_interface_endpoints(self) -> bool:
        return bool(self.interface_endpoints)
