"""EKS operations that the local cloud rejects explicitly. Otherwise, moto would answer these operations from its own,
empty list of clusters."""

from typing import NoReturn

from localcloud.aws.call import Call
from localcloud.aws.eks.errors import build_not_emulated_error
from localcloud.aws.patching import operation

OPERATIONS = ("CreateFargateProfile", "DeleteFargateProfile", "DescribeFargateProfile", "ListFargateProfiles")


def raise_not_emulated(call: Call) -> NoReturn:
    raise build_not_emulated_error(call.operation)


for _name in OPERATIONS:
    operation("eks", _name)(raise_not_emulated)
