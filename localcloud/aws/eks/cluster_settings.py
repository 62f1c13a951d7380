"""Validation of cluster settings, at creation and on updates.

https://docs.aws.amazon.com/eks/latest/APIReference/API_CreateCluster.html and API_UpdateClusterConfig.html
"""

from collections.abc import Mapping
from typing import Any

from localcloud.aws.call import Call
from localcloud.aws.eks.errors import build_invalid_parameter_error, build_not_emulated_error
from localcloud.aws.eks.state import Record
from localcloud.aws.eks.versions import KubernetesVersion

LOG_TYPES = ("api", "audit", "authenticator", "controllerManager", "scheduler")
AUTHENTICATION_MODES = ("CONFIG_MAP", "API_AND_CONFIG_MAP", "API")
"""Authentication modes. A cluster can switch only to the next mode in this list."""
SUPPORT_TYPES = ("STANDARD", "EXTENDED")

NOT_EMULATED = (
    "computeConfig",
    "storageConfig",
    "outpostConfig",
    "remoteNetworkConfig",
    "zonalShiftConfig",
    "controlPlaneScalingConfig",
    "kubeApiServerConfig",
    "kubeSchedulerConfig",
    "kubeControllerManagerConfig",
)


def check_all_emulated(params: Record) -> None:
    """Reject features that the local cloud does not emulate. The official provider also sends the settings of such
    features to turn them off, which is accepted."""
    network, load_balancing = params.get("resourcesVpcConfig", {}), params.get("kubernetesNetworkConfig", {})
    requested = {name: params.get(name) for name in NOT_EMULATED}
    requested["controlPlaneEgressMode"] = network.get("controlPlaneEgressMode")
    requested["elasticLoadBalancing"] = load_balancing.get("elasticLoadBalancing")
    for name, value in requested.items():
        if not _is_disabled(value):
            raise build_not_emulated_error(name)


def _is_disabled(value: Any) -> bool:
    """Return whether a setting is missing or empty, or only turns a feature off."""
    if isinstance(value, Mapping):
        return ("enabled" in value and value["enabled"] is False) or all(_is_disabled(inner) for inner in value.values())
    return value in (None, False, "", [])


def merge_logging(requested: Record, current: Record | None = None) -> Record:
    """Merge a change into the current logging settings, and return lists of the enabled and the disabled log types."""
    enabled = set(list_enabled_logs(current)) if current else set()
    for setup in requested.get("clusterLogging", []):
        unknown = [name for name in setup.get("types", []) if name not in LOG_TYPES]
        if unknown:
            raise build_invalid_parameter_error(
                f"Invalid log type(s): {', '.join(unknown)}. Valid types are: {', '.join(LOG_TYPES)}"
            )
        types = set(setup.get("types", []))
        enabled = enabled | types if setup.get("enabled") else enabled - types
    lists = ([name for name in LOG_TYPES if (name in enabled) is on] for on in (True, False))
    return {"clusterLogging": [{"types": types, "enabled": on} for types, on in zip(lists, (True, False), strict=True) if types]}


def list_enabled_logs(settings: Record) -> list[str]:
    return [name for setup in settings["clusterLogging"] if setup["enabled"] for name in setup["types"]]


def read_access_config(requested: Record) -> Record:
    """https://docs.aws.amazon.com/eks/latest/APIReference/API_CreateAccessConfigRequest.html"""
    mode = requested.get("authenticationMode", "CONFIG_MAP")
    bootstrap = requested.get("bootstrapClusterCreatorAdminPermissions", True)
    if mode not in AUTHENTICATION_MODES:
        raise build_invalid_parameter_error(f"Invalid authentication mode: {mode}")
    if mode == "CONFIG_MAP" and not bootstrap:
        raise build_invalid_parameter_error(
            "bootstrapClusterCreatorAdminPermissions must be true if cluster authentication mode is set to CONFIG_MAP"
        )
    return {"authenticationMode": mode, "bootstrapClusterCreatorAdminPermissions": bootstrap}


def read_upgrade_policy(requested: Record, version: KubernetesVersion) -> Record:
    """https://docs.aws.amazon.com/eks/latest/userguide/view-upgrade-policy.html"""
    support = requested.get("supportType", "EXTENDED")
    if support not in SUPPORT_TYPES:
        raise build_invalid_parameter_error(f"Invalid support type: {support}")
    if support == "STANDARD" and version.support == "EXTENDED_SUPPORT":
        raise build_invalid_parameter_error(
            f"Support type STANDARD is not allowed: Kubernetes version {version.name} is in extended support"
        )
    return {"supportType": support}


def read_encryption_config(call: Call, settings: list[Record]) -> list[Record]:
    """Validate and return the encryption settings. EKS encrypts only Secrets, with a symmetric KMS key in this region.

    https://docs.aws.amazon.com/eks/latest/APIReference/API_EncryptionConfig.html
    """
    if len(settings) > 1:
        raise build_invalid_parameter_error("Only one encryption config is allowed")
    for setting in settings:
        if setting.get("resources") != ["secrets"]:
            raise build_invalid_parameter_error("Invalid encryption config: resources must be [secrets]")
        arn = setting.get("provider", {}).get("keyArn", "")
        key = _find_key(call, arn)
        if key is None or not arn.startswith("arn:"):
            raise build_invalid_parameter_error(f"KMS key {arn} is invalid or does not exist in region {call.region}")
        if key.key_spec != "SYMMETRIC_DEFAULT" or key.key_usage not in (None, "ENCRYPT_DECRYPT"):
            raise build_invalid_parameter_error(f"KMS key {arn} must be a symmetric encryption key")
        if key.key_state != "Enabled":
            raise build_invalid_parameter_error(f"KMS key {arn} is not enabled")
    return [{"resources": ["secrets"], "provider": {"keyArn": setting["provider"]["keyArn"]}} for setting in settings]


def _find_key(call: Call, arn: str) -> Any | None:
    return next((key for key in call.backend_of("kms").keys.values() if key.arn == arn), None)


def read_endpoint_access(requested: Record) -> tuple[bool, bool]:
    """Return whether the cluster endpoint has public access and whether it has private access."""
    public, private = requested.get("endpointPublicAccess", True), requested.get("endpointPrivateAccess", False)
    if not public and not private:
        raise build_invalid_parameter_error("Private and public endpoint access cannot be false")
    return public, private
