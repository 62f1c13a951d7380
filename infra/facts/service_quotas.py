"""Service quotas with which rules compare a stack's needs: EC2 vCPUs by instance type, and EKS node groups per cluster."""

import re
from dataclasses import dataclass
from typing import Final

from infra.settings.stack import Settings


@dataclass(frozen=True)
class Quota:
    """A service quota."""

    code: str
    name: str


NODE_GROUPS: Final = Quota("L-6D54EA21", "Managed node groups per cluster")
DEFAULT_NODE_GROUPS: Final = 30.0
"""https://docs.aws.amazon.com/eks/latest/userguide/service-quotas.html"""

STANDARD: Final = Quota("L-1216C47A", "Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances")
STANDARD_SPOT: Final = Quota("L-34B43A08", "All Standard (A, C, D, H, I, M, R, T, Z) Spot Instance Requests")


# https://docs.aws.amazon.com/ec2/latest/instancetypes/ec2-instance-quotas.html
# Leading letters of the instance type -> quota, for the families that pools can use.
_ON_DEMAND: Final = {
    "g": Quota("L-DB2E81BA", "Running On-Demand G and VT instances"),
    "p": Quota("L-417A185B", "Running On-Demand P instances"),
    "x": Quota("L-7295265B", "Running On-Demand X instances"),
    "hpc": Quota("L-F7808C92", "Running On-Demand HPC instances"),
}


# Spot quotas of P types depend on the generation. AWS's table lists no quota for the sixth generation.
_SPOT: Final = {
    "g": Quota("L-3819A6DF", "All G and VT Spot Instance Requests"),
    **dict.fromkeys(("p2", "p3", "p4"), Quota("L-7212CCBC", "All P4, P3 and P2 Spot Instance Requests")),
    "p5": Quota("L-C4BD4855", "All P5 Spot Instance Requests"),
    "x": Quota("L-E3A00192", "All X Spot Instance Requests"),
}


_LETTERS: Final = {"gr": "g", "vt": "g", "im": "i", "is": "i"}
"""Maps the leading letters of instance types to the family whose quota they count against."""


def find_vcpu_quota(type_name: str, *, spot: bool) -> Quota | None:
    """Return the vCPU quota of an instance type, On-Demand or Spot; None if AWS's table lists none.

    Launches into reserved capacity use no quota: a reservation uses quota when it is created, and Capacity Block
    purchases have their own quota.
    """
    match = re.match(r"([a-z]+)(\d*)", type_name)
    if match is None:
        return None
    letters = _LETTERS.get(match[1], match[1])
    if letters in tuple("acdhimrtz"):
        return STANDARD_SPOT if spot else STANDARD
    if spot:
        return _SPOT.get(letters) or _SPOT.get(letters + match[2])
    return _ON_DEMAND.get(letters)


def count_node_groups(settings: Settings) -> int:
    return len(settings.pools) + 1


def exceeds_default_quota(settings: Settings) -> bool:
    """True if the stack needs more node groups than the default quota allows. AWS never sets an account's quota below
    the default."""
    return settings.is_eks and count_node_groups(settings) > DEFAULT_NODE_GROUPS
