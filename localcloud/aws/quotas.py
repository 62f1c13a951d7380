"""Account quotas that the local AWS enforces. `service_quotas.py` implements the API operations."""

from dataclasses import dataclass
from typing import Literal

from localcloud.aws import patching


@dataclass(frozen=True)
class Quota:
    """https://docs.aws.amazon.com/ec2/latest/instancetypes/ec2-instance-quotas.html"""

    code: str
    name: str
    default: float
    """Value in a new AWS account."""
    usage_class: str = ""
    """Dimension `Class` of the CloudWatch usage metric; set only for vCPU quotas."""
    granted: float = 20000
    """Value in an established local account: AWS's default or, if that is too low, a value high enough for any stack.
    """
    service: str = "ec2"


EC2_QUOTAS = (
    Quota("L-1216C47A", "Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances", 5, "Standard/OnDemand"),
    Quota("L-DB2E81BA", "Running On-Demand G and VT instances", 0, "G/OnDemand"),
    Quota("L-417A185B", "Running On-Demand P instances", 0, "P/OnDemand"),
    Quota("L-1945791B", "Running On-Demand Inf instances", 0, "Inf/OnDemand"),
    Quota("L-2C3B7624", "Running On-Demand Trn instances", 0, "Trn/OnDemand"),
    Quota("L-F7808C92", "Running On-Demand HPC instances", 0, "HPC/OnDemand"),
    Quota("L-74FC7D96", "Running On-Demand F instances", 0, "F/OnDemand"),
    Quota("L-6E869C2A", "Running On-Demand DL instances", 0, "DL/OnDemand"),
    Quota("L-7295265B", "Running On-Demand X instances", 0, "X/OnDemand"),
    Quota("L-43DA4232", "Running On-Demand High Memory instances", 0, "HighMem/OnDemand"),
    Quota("L-34B43A08", "All Standard (A, C, D, H, I, M, R, T, Z) Spot Instance Requests", 5, "Standard/Spot"),
    Quota("L-3819A6DF", "All G and VT Spot Instance Requests", 0, "G/Spot"),
    Quota("L-7212CCBC", "All P4, P3 and P2 Spot Instance Requests", 0, "P/Spot"),
    Quota("L-C4BD4855", "All P5 Spot Instance Requests", 0, "P5/Spot"),
    Quota("L-B5D1601B", "All Inf Spot Instance Requests", 0, "Inf/Spot"),
    Quota("L-6B0D517C", "All Trn Spot Instance Requests", 0, "Trn/Spot"),
    Quota("L-88CF9481", "All F Spot Instance Requests", 0, "F/Spot"),
    Quota("L-85EED4F7", "All DL Spot Instance Requests", 0, "DL/Spot"),
    Quota("L-E3A00192", "All X Spot Instance Requests", 0, "X/Spot"),
    Quota("L-0263D0A3", "EC2-VPC Elastic IPs", 5, granted=100),
)
OTHER_QUOTAS = (
    Quota("L-F678F1CE", "VPCs per Region", 5, granted=100, service="vpc"),
    Quota("L-A4707A72", "Internet gateways per Region", 5, granted=100, service="vpc"),
    Quota("L-FE5A380F", "NAT gateways per Availability Zone", 5, granted=100, service="vpc"),
    Quota("L-DF5E4CA3", "Network interfaces per Region", 5000, granted=5000, service="vpc"),
    # https://docs.aws.amazon.com/eks/latest/userguide/service-quotas.html
    Quota("L-1194D53C", "Clusters", 100, granted=100, service="eks"),
    Quota("L-6D54EA21", "Managed node groups per cluster", 30, granted=30, service="eks"),
    Quota("L-BD136A63", "Nodes per managed node group", 450, granted=450, service="eks"),
    # https://docs.aws.amazon.com/general/latest/gr/ebs-service.html
    Quota("L-7A658B76", "Storage for General Purpose SSD (gp3) volumes, in TiB", 50, granted=50, service="ebs"),
    # https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html
    Quota("L-FE177D64", "Roles per account", 1000, granted=1000, service="iam"),
)
QUOTAS = (*EC2_QUOTAS, *OTHER_QUOTAS)
"""Quotas that the local AWS enforces."""
BY_CODE = {quota.code: quota for quota in QUOTAS}

AccountKind = Literal["established", "new"]
_kind: AccountKind = "established"

_set: dict[str, float] = {}
"""Maps each quota code to the value set by the user, for all regions.

The values are kept outside moto's state, because quotas are not resources.
"""


def select_account_kind(kind: AccountKind) -> None:
    """Select the kind of account. A new account has AWS's default quotas. A reset keeps the selected kind."""
    global _kind
    _kind = kind


def is_new_account() -> bool:
    return _kind == "new"


def get_quota_value(code: str) -> float:
    """Return the value of a quota in this account."""
    quota = BY_CODE[code]
    return _set.get(code, quota.default if is_new_account() else quota.granted)


def set_values(values: dict[str, float]) -> None:
    """Set the account's quotas until the next reset; `values` maps quota codes to values."""
    if unknown := sorted(set(values) - set(BY_CODE)):
        raise ValueError(f"unknown quota codes: {', '.join(unknown)}. Known: {', '.join(sorted(BY_CODE))}")
    _set.update({code: float(value) for code, value in values.items()})


@patching.on_reset
def _reset_quotas() -> None:
    _set.clear()
