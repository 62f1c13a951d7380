"""DryRun support for operations that moto would execute despite the flag."""

from typing import Any

from localcloud.aws.call import Call
from localcloud.aws.ec2.refusals import stop_dry_run
from localcloud.aws.patching import operation

_CARRIED_OUT = (
    "AssociateDhcpOptions",
    "AssociateSubnetCidrBlock",
    "AssociateVpcCidrBlock",
    "CreateEgressOnlyInternetGateway",
    "CreateNetworkAcl",
    "CreateNetworkAclEntry",
    "DeleteDhcpOptions",
    "DeleteNetworkAcl",
    "DeleteRoute",
    "DisassociateRouteTable",
    "ReplaceRouteTableAssociation",
)


def _call_unless_dry_run(call: Call) -> dict[str, Any]:
    stop_dry_run(call)
    return call.moto()


def extend_moto() -> None:
    for name in _CARRIED_OUT:
        operation("ec2", name)(_call_unless_dry_run)
