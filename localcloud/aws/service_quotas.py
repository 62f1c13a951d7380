"""Service Quotas operations, and the control API calls that read and change the account's quotas."""

from typing import Any

from moto.servicequotas.resources.default_quotas.vpc import VPC_DEFAULT_QUOTAS

from localcloud.aws import control_actions, quotas
from localcloud.aws.call import Call
from localcloud.aws.errors import AwsError
from localcloud.aws.patching import operation
from localcloud.aws.quotas import Quota

_NAMES = {
    "ec2": "Amazon Elastic Compute Cloud (Amazon EC2)",
    "vpc": "Amazon Virtual Private Cloud (Amazon VPC)",
    "eks": "Amazon Elastic Kubernetes Service (Amazon EKS)",
    "ebs": "Amazon Elastic Block Store (Amazon EBS)",
    "iam": "AWS Identity and Access Management (IAM)",
}


def extend_moto() -> None:
    """Do nothing: importing this module has already registered its operations."""


@control_actions.action("GET", "quotas")
def _get_quotas(_: Any) -> Any:
    return {quota.code: {"name": quota.name, "value": quotas.get_quota_value(quota.code)} for quota in quotas.QUOTAS}


@control_actions.action("PUT", "quotas")
def _set_quotas(body: Any) -> Any:
    quotas.set_values(body)
    return _get_quotas(None)


@operation("service-quotas", "GetServiceQuota")
def _get_service_quota(call: Call) -> dict[str, Any]:
    return {"Quota": _find_quota(call, _read_applied_quotas(call))}


@operation("service-quotas", "GetAWSDefaultServiceQuota")
def _get_default_quota(call: Call) -> dict[str, Any]:
    return {"Quota": _find_quota(call, _read_default_quotas(call))}


@operation("service-quotas", "ListServiceQuotas")
def _list_service_quotas(call: Call) -> dict[str, Any]:
    return _paginate(call, _read_applied_quotas(call))


@operation("service-quotas", "ListAWSDefaultServiceQuotas")
def _list_default_quotas(call: Call) -> dict[str, Any]:
    return _paginate(call, _read_default_quotas(call))


@operation("service-quotas", "ListServices")
def _list_services(call: Call) -> dict[str, Any]:
    return {"Services": [{"ServiceCode": code, "ServiceName": name} for code, name in _NAMES.items()]}


def _read_applied_quotas(call: Call) -> list[dict[str, Any]]:
    applied = _read_default_quotas(call)
    for quota in applied:
        if quota["QuotaCode"] in quotas.BY_CODE:
            quota["Value"] = quotas.get_quota_value(quota["QuotaCode"])
            quota["QuotaArn"] = quota["QuotaArn"].replace("::", f":{call.account}:")
    return applied


def _read_default_quotas(call: Call) -> list[dict[str, Any]]:
    service = call.params["ServiceCode"]
    if service == "vpc":
        return [{**quota, "QuotaArn": _build_quota_arn(call, str(quota["QuotaCode"]))} for quota in VPC_DEFAULT_QUOTAS]
    if service == "iam" and call.region != "us-east-1":  # IAM is a global service, so its quotas are in one Region
        raise AwsError("NoSuchResourceException", "The request failed because the specified service does not exist.")
    if service in ("ec2", "eks", "ebs", "iam"):
        return [_describe(call, quota) for quota in quotas.QUOTAS if quota.service == service]
    raise AwsError("NoSuchResourceException", "The request failed because the specified service does not exist.")


def _describe(call: Call, quota: Quota) -> dict[str, Any]:
    described = {
        "ServiceCode": quota.service,
        "ServiceName": _NAMES[quota.service],
        "QuotaArn": _build_quota_arn(call, quota.code),
        "QuotaCode": quota.code,
        "QuotaName": quota.name,
        "Value": quota.default,
        "Unit": "None",
        "Adjustable": True,
        "GlobalQuota": quota.service == "iam",
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


def _build_quota_arn(call: Call, code: str) -> str:
    return f"arn:aws:servicequotas:{call.region}::{call.params['ServiceCode']}/{code}"


def _find_quota(call: Call, all_quotas: list[dict[str, Any]]) -> dict[str, Any]:
    for quota in all_quotas:
        if quota["QuotaCode"] == call.params["QuotaCode"]:
            return quota
    raise AwsError("NoSuchResourceException", "The request failed because the specified service quota does not exist.")


def _paginate(call: Call, all_quotas: list[dict[str, Any]]) -> dict[str, Any]:
    size = call.params.get("MaxResults", 100)
    token = call.params.get("NextToken", "0")
    if not token.isdigit() or int(token) > len(all_quotas):
        raise AwsError("InvalidPaginationTokenException", "Invalid pagination token was provided.")
    end = int(token) + size
    return {"Quotas": all_quotas[int(token) : end], **({"NextToken": str(end)} if end < len(all_quotas) else {})}
