"""Default DHCP option set of each region. VPCs use this set unless they specify another one.

https://docs.aws.amazon.com/vpc/latest/userguide/DHCPOptionSet.html
"""

import hashlib
from typing import Any

from moto.ec2.models.dhcp_options import DHCPOptionsSet, DHCPOptionsSetBackend
from moto.ec2.models.vpcs import VPC

from localcloud.aws.call import Call
from localcloud.aws.ec2 import tagging
from localcloud.aws.ec2.refusals import stop_dry_run
from localcloud.aws.patching import operation

_make_backend = DHCPOptionsSetBackend.__init__
_delete = DHCPOptionsSetBackend.delete_dhcp_options_set


def extend_moto() -> None:
    backend: Any = DHCPOptionsSetBackend
    backend.__init__ = _init_backend
    backend.delete_dhcp_options_set = _delete_unless_default
    vpc: Any = VPC
    vpc.dhcp_options_id = property(lambda self: self.dhcp_options.id if self.dhcp_options else get_default_id(self.ec2_backend))


def get_default_id(backend: Any) -> str:
    return "dopt-" + hashlib.sha256(f"{backend.account_id}/{backend.region_name}".encode()).hexdigest()[:17]


def _init_backend(self: Any) -> None:
    _make_backend(self)
    region = self.region_name
    domain = "ec2.internal" if region == "us-east-1" else f"{region}.compute.internal"
    options = DHCPOptionsSet(self, domain_name_servers=["AmazonProvidedDNS"], domain_name=[domain])  # type: ignore[arg-type]
    options.id = get_default_id(self)
    self.dhcp_options_sets[options.id] = options


def _delete_unless_default(self: Any, options_id: str | None) -> None:
    """Delete DHCP options, except the region's default set.

    moto deletes the options together with their VPC. AWS keeps at least the default set.
    """
    if options_id != get_default_id(self):
        _delete(self, options_id)


@operation("ec2", "CreateDhcpOptions")
def create_dhcp_options(call: Call) -> dict[str, Any]:
    """Create DHCP options with the requested tags, which moto drops."""
    tags = tagging.read_requested_tags(call.params.get("TagSpecifications"), "dhcp-options").get("dhcp-options", {})
    stop_dry_run(call)
    answer = call.moto()
    id = answer["DhcpOptions"]["DhcpOptionsId"]
    call.backend.tags[id].update(tags)
    return {"DhcpOptions": {**answer["DhcpOptions"], "Tags": tagging.describe_tags(call.backend, id)}}
