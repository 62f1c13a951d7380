"""Validation of add-on configurationValues.

EKS validates them against the JSON schema of the add-on version:
https://docs.aws.amazon.com/eks/latest/APIReference/API_DescribeAddonConfiguration.html
The local EKS checks all keys of vpc-cni, but only the top-level keys of other add-ons.
"""

import json
from typing import Any

import yaml

from localcloud.aws.call import Call
from localcloud.aws.eks import addon_catalog
from localcloud.aws.eks.errors import build_invalid_parameter_error
from localcloud.aws.eks.state import Record
from localcloud.aws.patching import operation

Schema = str | dict[str, Any]
"""JSON type, TRUE_OR_FALSE (a string, not a boolean), or the allowed keys of an object with their schemas."""

TRUE_OR_FALSE = "true-or-false"
_PLACEMENT: dict[str, Schema] = {"affinity": "object", "nodeSelector": "object", "tolerations": "array"}
_POD: dict[str, Schema] = {"podAnnotations": "object", "podLabels": "object", "resources": "object"}

_CNI_ENVIRONMENT = (
    "ADDITIONAL_ENI_TAGS",
    "ANNOTATE_POD_IP",
    "AWS_EC2_ENDPOINT",
    "AWS_EXTERNAL_SERVICE_CIDRS",
    "AWS_MANAGE_ENIS_NON_SCHEDULABLE",
    "AWS_VPC_CNI_NODE_PORT_SUPPORT",
    "AWS_VPC_ENI_MTU",
    "AWS_VPC_K8S_CNI_CUSTOM_NETWORK_CFG",
    "AWS_VPC_K8S_CNI_EXCLUDE_SNAT_CIDRS",
    "AWS_VPC_K8S_CNI_EXTERNALSNAT",
    "AWS_VPC_K8S_CNI_LOGLEVEL",
    "AWS_VPC_K8S_CNI_LOG_FILE",
    "AWS_VPC_K8S_CNI_RANDOMIZESNAT",
    "AWS_VPC_K8S_CNI_VETHPREFIX",
    "AWS_VPC_K8S_PLUGIN_LOG_FILE",
    "AWS_VPC_K8S_PLUGIN_LOG_LEVEL",
    "CLUSTER_ENDPOINT",
    "DISABLE_INTROSPECTION",
    "DISABLE_LEAKED_ENI_CLEANUP",
    "DISABLE_METRICS",
    "DISABLE_NETWORK_RESOURCE_PROVISIONING",
    "DISABLE_POD_V6",
    "ENABLE_BANDWIDTH_PLUGIN",
    "ENABLE_IPv4",
    "ENABLE_IPv6",
    "ENABLE_POD_ENI",
    "ENABLE_PREFIX_DELEGATION",
    "ENABLE_SUBNET_DISCOVERY",
    "ENABLE_V6_EGRESS",
    "ENI_CONFIG_ANNOTATION_DEF",
    "ENI_CONFIG_LABEL_DEF",
    "INTROSPECTION_BIND_ADDRESS",
    "IP_COOLDOWN_PERIOD",
    "MAX_ENI",
    "MINIMUM_IP_TARGET",
    "NETWORK_POLICY_ENFORCING_MODE",
    "POD_SECURITY_GROUP_ENFORCING_MODE",
    "WARM_ENI_TARGET",
    "WARM_IP_TARGET",
    "WARM_PREFIX_TARGET",
)
"""https://github.com/aws/amazon-vpc-cni-k8s#cni-configuration-variables"""

SCHEMAS: dict[str, dict[str, Schema]] = {
    "vpc-cni": {
        **_PLACEMENT,
        **_POD,
        "enableNetworkPolicy": TRUE_OR_FALSE,
        "enableWindowsIpam": TRUE_OR_FALSE,
        "enableWindowsPrefixDelegation": TRUE_OR_FALSE,
        "env": dict.fromkeys(_CNI_ENVIRONMENT, "string"),
        "eniConfig": {"create": "boolean", "region": "string", "subnets": "object"},
        "init": {"env": {"DISABLE_TCP_EARLY_DEMUX": "string", "ENABLE_V6_EGRESS": "string"}, "resources": "object"},
        "livenessProbeTimeoutSeconds": "integer",
        "readinessProbeTimeoutSeconds": "integer",
        "minimumWindowsIPTarget": "string",
        "warmWindowsIPTarget": "string",
        "warmWindowsPrefixTarget": "string",
        "branchENICooldown": "string",
        "nodeAgent": {
            "conntrackCacheCleanupPeriod": "string",
            "enableCloudWatchLogs": TRUE_OR_FALSE,
            "enableIpv6": TRUE_OR_FALSE,
            "enablePolicyEventLogs": TRUE_OR_FALSE,
            "healthProbeBindAddr": "string",
            "metricsBindAddr": "string",
            "networkPolicyAgentLogFileLocation": "string",
            "resources": "object",
        },
    },
    "kube-proxy": {**_POD, "ipvs": {"scheduler": "string"}, "mode": "string"},
    "coredns": {
        **_PLACEMENT,
        **_POD,
        "autoScaling": {"enabled": "boolean", "minReplicas": "integer", "maxReplicas": "integer"},
        "computeType": "string",
        "corefile": "string",
        "podDisruptionBudget": "object",
        "replicaCount": "integer",
        "topologySpreadConstraints": "array",
    },
    "eks-pod-identity-agent": {**_PLACEMENT, **_POD, "agent": "object", "env": "object", "updateStrategy": "object"},
    "aws-efs-csi-driver": {
        "controller": "object",
        "node": "object",
        "replicaCount": "integer",
        "sidecars": "object",
        "useFIPS": "boolean",
    },
    "aws-fsx-csi-driver": {
        "controller": "object",
        "node": "object",
        "replicaCount": "integer",
        "sidecars": "object",
        "useFIPS": "boolean",
    },
    "aws-ebs-csi-driver": {
        "additionalDaemonSets": "object",
        "controller": "object",
        "defaultStorageClass": "object",
        "node": "object",
        "sidecars": "object",
        "useFIPS": "boolean",
    },
    "eks-node-monitoring-agent": {"dcgmAgent": "object", "monitoringAgent": "object", "nodeAgent": "object"},
    "metrics-server": {
        **_PLACEMENT,
        **_POD,
        "addonResizer": "object",
        "podDisruptionBudget": "object",
        "replicas": "integer",
        "topologySpreadConstraints": "array",
        "updateStrategy": "object",
    },
}

_JSON_TYPES = {dict: "object", list: "array", str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}


def check_configuration(addon: str, text: str) -> None:
    """Reject values that the add-on does not support. As on EKS, the text can be JSON or YAML."""
    try:
        values = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise build_invalid_parameter_error(
            "ConfigurationValue provided in request is not valid JSON or YAML", addonName=addon
        ) from error
    problems = _find_problems("$", values, SCHEMAS[addon])
    if problems:
        raise build_invalid_parameter_error(
            "ConfigurationValue provided in request is not supported: "
            f"Json schema validation failed with error: [{', '.join(problems)}]",
            addonName=addon,
        )


def _find_problems(path: str, value: Any, schema: Schema) -> list[str]:
    type_name = _JSON_TYPES.get(type(value), type(value).__name__)
    if isinstance(schema, dict):
        if not isinstance(value, dict):
            return [f"{path}: {type_name} found, object expected"]
        undefined = "is not defined in the schema and the schema does not allow additional properties"
        problems = [f"{path}.{key}: {undefined}" for key in value if key not in schema]
        return problems + [
            problem for key in value if key in schema for problem in _find_problems(f"{path}.{key}", value[key], schema[key])
        ]
    if schema == TRUE_OR_FALSE:
        if not isinstance(value, str):
            return [f"{path}: {type_name} found, string expected"]
        return [] if value in ("true", "false") else [f"{path}: does not match the regex pattern ^(true|false)$"]
    return [] if type_name == schema else [f"{path}: {type_name} found, {schema} expected"]


@operation("eks", "DescribeAddonConfiguration")
def describe_addon_configuration(call: Call) -> Record:
    addon, version = addon_catalog.find(call.params["addonName"]), call.params["addonVersion"]
    if version not in addon.versions:
        raise build_invalid_parameter_error("Addon version specified is not supported", addonName=addon.name)
    answer: Record = {
        "addonName": addon.name,
        "addonVersion": version,
        "configurationSchema": json.dumps(
            {"$schema": "http://json-schema.org/draft-07/schema#", **_to_json_schema(SCHEMAS[addon.name])}, separators=(",", ":")
        ),
    }
    if addon.service_account is not None:
        answer["podIdentityConfiguration"] = [
            {"serviceAccount": addon.service_account, "recommendedManagedPolicies": list(addon.managed_policies)}
        ]
    return answer


def _to_json_schema(schema: Schema) -> dict[str, Any]:
    if isinstance(schema, dict):
        properties = {key: _to_json_schema(value) for key, value in schema.items()}
        return {"type": "object", "additionalProperties": False, "properties": properties}
    return {"type": "string", "pattern": "^(true|false)$"} if schema == TRUE_OR_FALSE else {"type": schema}
