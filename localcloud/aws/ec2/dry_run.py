"""DryRun support for operations that moto would execute despite the flag."""

from typing import Any

from localcloud.aws.call import Call
from localcloud.aws.ec2.refusals import end_dry_run
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


def _or_stop(call: Call) -> dict[str, Any]:
    end_dry_run(call)
    return call.moto()


def install() -> None:
    for name in _CARRIED_OUT:
        operation("ec2", name)(_or_stop)
