"""Service Quotas: the EC2 quotas that a cluster needs. The local account has high quotas."""

from dataclasses import dataclass
from typing import Any

from moto.servicequotas.resources.default_quotas.vpc import VPC_DEFAULT_QUOTAS

from localcloud.aws import control, patching
from localcloud.aws.call import Call
from localcloud.aws.errors import AwsError
from localcloud.aws.patching import operation


@dataclass(frozen=True)
class Quota:
    """https://docs.aws.amazon.com/ec2/latest/instancetypes/ec2-instance-quotas.html"""

    code: str
    name: str
    default: float
    """vCPU quota of a new AWS account."""
    usage_class: str
    granted: float = 20000
    """vCPU quota of the local account: enough for any stack."""


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
    Quota("L-0263D0A3", "EC2-VPC Elastic IPs", 5, "", granted=100),
)
_NAMES = {"ec2": "Amazon Elastic Compute Cloud (Amazon EC2)", "vpc": "Amazon Virtual Private Cloud (Amazon VPC)"}
_BY_CODE = {quota.code: quota for quota in EC2_QUOTAS}

_set: dict[str, float] = {}
"""Quota code -> value set by the user, for all regions.

The values are kept outside moto's state, because quotas are not resources.
"""


def install() -> None:
    """Do nothing: importing this module has already registered its operations."""


def value_of(code: str) -> float:
    """Return the account's value of an EC2 quota."""
    return _set.get(code, _BY_CODE[code].granted)


def set_values(values: dict[str, float]) -> None:
    """Set the account's EC2 quotas (code -> vCPUs) until the next reset."""
    if unknown := sorted(set(values) - set(_BY_CODE)):
        raise ValueError(f"unknown EC2 quota codes: {', '.join(unknown)}. Known: {', '.join(sorted(_BY_CODE))}")
    _set.update({code: float(value) for code, value in values.items()})


@patching.on_reset
def _forget() -> None:
    _set.clear()


@control.action("GET", "quotas")
def _quotas(_: Any) -> Any:
    return {quota.code: {"name": quota.name, "value": value_of(quota.code)} for quota in EC2_QUOTAS}


@control.action("PUT", "quotas")
def _set_quotas(body: Any) -> Any:
    set_values(body)
    return _quotas(None)


@operation("service-quotas", "GetServiceQuota")
def _get_service_quota(call: Call) -> dict[str, Any]:
    return {"Quota": _find(call, _applied(call))}


@operation("service-quotas", "GetAWSDefaultServiceQuota")
def _get_default(call: Call) -> dict[str, Any]:
    return {"Quota": _find(call, _defaults(call))}


@operation("service-quotas", "ListServiceQuotas")
def _list_service_quotas(call: Call) -> dict[str, Any]:
    return _page(call, _applied(call))


@operation("service-quotas", "ListAWSDefaultServiceQuotas")
def _list_defaults(call: Call) -> dict[str, Any]:
    return _page(call, _defaults(call))


@operation("service-quotas", "ListServices")
def _list_services(call: Call) -> dict[str, Any]:
    return {"Services": [{"ServiceCode": code, "ServiceName": name} for code, name in _NAMES.items()]}


def _applied(call: Call) -> list[dict[str, Any]]:
    quotas = _defaults(call)
    for quota in quotas:
        if quota["QuotaCode"] in _BY_CODE:
            quota["Value"] = value_of(quota["QuotaCode"])
            quota["QuotaArn"] = quota["QuotaArn"].replace("::", f":{call.account}:")
    return quotas


def _defaults(call: Call) -> list[dict[str, Any]]:
    service = call.params["ServiceCode"]
    if service == "vpc":
        return [{**quota, "QuotaArn": _arn(call, str(quota["QuotaCode"]))} for quota in VPC_DEFAULT_QUOTAS]
    if service == "ec2":
        return [_described(call, quota) for quota in EC2_QUOTAS]
    raise AwsError("NoSuchResourceException", "The request failed because the specified service does not exist.")


def _described(call: Call, quota: Quota) -> dict[str, Any]:
    described = {
        "ServiceCode": "ec2",
        "ServiceName": _NAMES["ec2"],
        "QuotaArn": _arn(call, quota.code),
        "QuotaCode": quota.code,
        "QuotaName": quota.name,
        "Value": quota.default,
        "Unit": "None",
        "Adjustable": True,
        "GlobalQuota": False,
    }
    if quota.usage_class:
        dimensions = {"Class": quota.usage_class, "Resource": "vCPU", "Service": "EC2", "Type": "Resource"}
        described["UsageMetric"] = {
            "MetricNamespace": "AWS/Usage",
            "MetricName": "ResourceCount",
            "MetricDimensions": dimensions,
            "MetricStatisticRecommendation": "Maximum",
        }
    return described


def _arn(call: Call, code: str) -> str:
    return f"arn:aws:servicequotas:{call.region}::{call.params['ServiceCode']}/{code}"


def _find(call: Call, quotas: list[dict[str, Any]]) -> dict[str, Any]:
    for quota in quotas:
        if quota["QuotaCode"] == call.params["QuotaCode"]:
            return quota
    raise AwsError("NoSuchResourceException", "The request failed because the specified service quota does not exist.")


def _page(call: Call, quotas: list[dict[str, Any]]) -> dict[str, Any]:
    size = call.params.get("MaxResults", 100)
    token = call.params.get("NextToken", "0")
    if not token.isdigit() or int(token) > len(quotas):
        raise AwsError("InvalidPaginationTokenException", "Invalid pagination token was provided.")
    end = int(token) + size
    return {"Quotas": quotas[int(token) : end], **({"NextToken": str(end)} if end < len(quotas) else {})}
