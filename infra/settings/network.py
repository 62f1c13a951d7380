"""`gpumpi:network`: a new VPC, or an existing one by id."""

from typing import Literal

from pydantic import Field

from infra.settings.base import Model, Names

SERVICE_CIDR = "172.20.0.0/16"
"""Addresses of Kubernetes services, the same in every cluster; a VPC may not overlap it."""


class NetworkSettings(Model):
    """A new VPC, or (with `vpcId`) an existing one, which is only read."""

    cidr: str | None = Field(
        None,
        description="Addresses of the new VPC, /16 to /20; 10.0.0.0/16 by default. Change: not supported; create another stack.",
    )
    zones: int | Names | None = Field(
        None,
        description="How many zones (2 to 4; 3 by default, fewer where the region has fewer), or their names. "
        "Change: adding a zone moves nothing; zones of the control plane and the system nodes cannot be removed.",
    )
    nat_gateways: Literal["none", "one", "perZone"] | None = Field(
        None,
        description="Route to the internet for private subnets; `one` by default. `none` needs `interfaceEndpoints: true`. "
        "Change: in place; running connections break.",
    )
    interface_endpoints: bool | None = Field(
        None, description="Private endpoints for every AWS service that nodes call, for private clusters. Change: in place."
    )
    vpc_id: str | None = Field(
        None, description="An existing VPC to use; it is not changed. Change: not supported; create another stack."
    )
    subnet_ids: Names = Field(
        (),
        description="Private subnets of `vpcId`, in at least two zones. "
        "Change: reordering and adding move nothing; removing one replaces what is in it. The last one in a zone of the "
        "control plane cannot be removed.",
    )

    @property
    def is_existing(self) -> bool:
        return self.vpc_id is not None

    @property
    def new_cidr(self) -> str:
        """Addresses of the VPC that this stack creates."""
        return self.cidr or "10.0.0.0/16"

    @property
    def zone_names(self) -> tuple[str, ...]:
        """The zones by name; empty where only their number is asked for."""
        return self.zones if isinstance(self.zones, tuple) else ()

    @property
    def zone_count(self) -> int | None:
        """The number of zones asked for; None where it follows from the region."""
        return self.zones if isinstance(self.zones, int) else (len(self.zones) if self.zones else None)

    @property
    def nat(self) -> Literal["none", "one", "perZone"]:
        return self.nat_gateways or ("none" if self.is_existing else "one")

    @property
    def has_interface_endpoints(self) -> bool:
        return bool(self.interface_endpoints)
