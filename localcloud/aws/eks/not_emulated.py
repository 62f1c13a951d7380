"""EKS operations that the local cloud rejects explicitly. Otherwise, moto would answer them from its own, empty list of
clusters."""

from typing import NoReturn

from localcloud.aws.call import Call
from localcloud.aws.eks.errors import not_emulated
from localcloud.aws.patching import operation

OPERATIONS = ("CreateFargateProfile", "DeleteFargateProfile", "DescribeFargateProfile", "ListFargateProfiles")


def refuse(call: Call) -> NoReturn:
    raise not_emulated(call.operation)


for _name in OPERATIONS:
    operation("eks", _name)(refuse)
