"""Validation of node group settings, at creation and on updates.

https://docs.aws.amazon.com/eks/latest/APIReference/API_CreateNodegroup.html and API_UpdateNodegroupConfig.html
"""

import re

from localcloud.aws.eks.errors import build_invalid_parameter_error, check_quota
from localcloud.aws.eks.state import Record

NAME = re.compile(r"[0-9A-Za-z][A-Za-z0-9\-_]{0,62}")
DEFAULT_SCALING: Record = {"minSize": 1, "maxSize": 2, "desiredSize": 2}
DEFAULT_UPDATE_CONFIG: Record = {"maxUnavailable": 1, "updateStrategy": "DEFAULT"}
UPDATE_STRATEGIES = ("DEFAULT", "MINIMAL")
TAINT_EFFECTS = ("NO_SCHEDULE", "NO_EXECUTE", "PREFER_NO_SCHEDULE")
REPAIR_ACTIONS = ("Replace", "Reboot", "NoAction")
LIMIT = 50
"""Maximum number of labels or taints."""

_LABEL_NAME = re.compile(r"[A-Za-z0-9]([\w.\-]{0,61}[A-Za-z0-9])?")
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([\w.\-]{0,61}[A-Za-z0-9])?)?")
_DOMAIN = re.compile(r"[a-z0-9]([a-z0-9\-.]{0,251}[a-z0-9])?")
_RESERVED_DOMAINS = ("kubernetes.io", "k8s.io")
_KUBELETS_OWN = ("kubelet.kubernetes.io", "node.kubernetes.io")
"""Label domains that a kubelet may set on its own node.

https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#noderestriction
"""


def merge_scaling_config(requested: Record, current: Record) -> Record:
    after = {**current, **requested}
    least, most, desired = after["minSize"], after["maxSize"], after["desiredSize"]
    if most < 1:
        raise build_invalid_parameter_error("Maximum capacity must be at least 1")
    if least < 0 or desired < 0:
        raise build_invalid_parameter_error("Minimum capacity and desired size cannot be negative")
    if least > most:
        raise build_invalid_parameter_error(f"Minimum capacity {least} can't be greater than maximum size {most}")
    if least > desired:
        raise build_invalid_parameter_error(f"Minimum capacity {least} can't be greater than desired size {desired}")
    if desired > most:
        raise build_invalid_parameter_error(f"desired capacity {desired} can't be greater than max size {most}")
    check_quota("L-BD136A63", "Nodes per nodegroup", most - 1)
    return {"minSize": least, "maxSize": most, "desiredSize": desired}


def merge_update_config(requested: Record, current: Record) -> Record:
    """Return the update config, with either a number or a percentage of unavailable nodes.

    https://docs.aws.amazon.com/eks/latest/APIReference/API_NodegroupUpdateConfig.html
    """
    if "maxUnavailable" in requested and "maxUnavailablePercentage" in requested:
        raise build_invalid_parameter_error("Only one of maxUnavailable and maxUnavailablePercentage can be specified")
    if not 1 <= requested.get("maxUnavailable", 1) <= 100:
        raise build_invalid_parameter_error("maxUnavailable must be between 1 and 100")
    if not 1 <= requested.get("maxUnavailablePercentage", 1) <= 100:
        raise build_invalid_parameter_error("maxUnavailablePercentage must be between 1 and 100")
    strategy = requested.get("updateStrategy", current["updateStrategy"])
    if strategy not in UPDATE_STRATEGIES:
        raise build_invalid_parameter_error(
            f"Invalid update strategy: {strategy}. Valid values are: {', '.join(UPDATE_STRATEGIES)}"
        )
    limits: Record = {name: requested[name] for name in ("maxUnavailable", "maxUnavailablePercentage") if name in requested}
    if not limits:
        limits = {name: value for name, value in current.items() if name != "updateStrategy"}
    return {**limits, "updateStrategy": strategy}


def check_repair_config(requested: Record) -> Record:
    """https://docs.aws.amazon.com/eks/latest/APIReference/API_NodeRepairConfig.html"""
    for what in ("maxUnhealthyNodeThreshold", "maxParallelNodesRepaired"):
        if f"{what}Count" in requested and f"{what}Percentage" in requested:
            raise build_invalid_parameter_error(f"Only one of {what}Count and {what}Percentage can be specified")
        if not 1 <= requested.get(f"{what}Percentage", 1) <= 100 or requested.get(f"{what}Count", 1) < 1:
            raise build_invalid_parameter_error(f"{what} must be at least 1, and at most 100 as a percentage")
    for override in requested.get("nodeRepairConfigOverrides", []):
        members = ("nodeMonitoringCondition", "nodeUnhealthyReason", "minRepairWaitTimeMins", "repairAction")
        missing = [name for name in members if not override.get(name)]
        if missing:
            raise build_invalid_parameter_error(
                f"A node repair config override must have all of {', '.join(members)}; missing: {', '.join(missing)}"
            )
        if override["repairAction"] not in REPAIR_ACTIONS:
            raise build_invalid_parameter_error(
                f"Invalid repair action: {override['repairAction']}. Valid values are: {', '.join(REPAIR_ACTIONS)}"
            )
    return {"enabled": False, **requested}


def check_labels(requested: dict[str, str]) -> dict[str, str]:
    if len(requested) > LIMIT:
        raise build_invalid_parameter_error(f"A node group can have at most {LIMIT} labels")
    for key, value in requested.items():
        _check_key("Label", key)
        if _is_reserved(key.partition("/")[0] if "/" in key else ""):
            raise build_invalid_parameter_error(
                "Label cannot contain reserved prefixes [kubernetes.io/, k8s.io/, eks.amazonaws.com/]"
            )
        if not _LABEL_VALUE.fullmatch(value):
            raise build_invalid_parameter_error(
                f"Label value {value!r} is not valid. Use at most 63 letters, digits and the characters -_."
            )
    return dict(requested)


def check_taints(requested: list[Record]) -> list[Record]:
    if len(requested) > LIMIT:
        raise build_invalid_parameter_error(f"A node group can have at most {LIMIT} taints")
    key_effects = set()
    for taint in requested:
        key, effect = taint.get("key", ""), taint.get("effect")
        _check_key("Taint", key)
        if effect not in TAINT_EFFECTS:
            raise build_invalid_parameter_error(f"Invalid taint effect: {effect}. Valid values are: {', '.join(TAINT_EFFECTS)}")
        if not _LABEL_VALUE.fullmatch(taint.get("value", "")):
            raise build_invalid_parameter_error(
                f"Taint value {taint['value']!r} is not valid. Use at most 63 letters, digits and the characters -_."
            )
        if (key, effect) in key_effects:
            raise build_invalid_parameter_error(f"Duplicate taint with key {key} and effect {effect}")
        key_effects.add((key, effect))
    return [dict(taint) for taint in requested]


def change_labels(requested: Record, current: dict[str, str]) -> dict[str, str]:
    after = {**current, **requested.get("addOrUpdateLabels", {})}
    for key in requested.get("removeLabels", []):
        after.pop(key, None)
    return check_labels(after)


def change_taints(requested: Record, current: list[Record]) -> list[Record]:
    """Return the taints after a change. A taint is identified by its key and effect.

    https://docs.aws.amazon.com/eks/latest/APIReference/API_UpdateTaintsPayload.html
    """
    new = check_taints(requested.get("addOrUpdateTaints", []))
    gone = {(taint.get("key"), taint.get("effect")) for taint in (*new, *requested.get("removeTaints", []))}
    return check_taints([taint for taint in current if (taint["key"], taint["effect"]) not in gone] + new)


def _check_key(what: str, key: str) -> None:
    domain, _, name = key.rpartition("/")
    if not _LABEL_NAME.fullmatch(name) or ("/" in key and not _DOMAIN.fullmatch(domain)):
        raise build_invalid_parameter_error(
            f"{what} key {key!r} is not valid. Use at most 63 characters, optionally preceded by a DNS name and /"
        )


def _is_reserved(domain: str) -> bool:
    if any(domain == own or domain.endswith(f".{own}") for own in _KUBELETS_OWN):
        return False
    inside = any(domain == reserved or domain.endswith(f".{reserved}") for reserved in _RESERVED_DOMAINS)
    return inside or domain == "eks.amazonaws.com"
