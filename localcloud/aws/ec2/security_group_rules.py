"""Security group rules: validation and in-place modification.

https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_IpPermission.html
https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_ModifySecurityGroupRules.html
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from moto.ec2.models.security_groups import SecurityGroupRule

from localcloud.aws.call import Call
from localcloud.aws.ec2 import tagging
from localcloud.aws.ec2.refusals import build_missing_parameter_error, stop_dry_run
from localcloud.aws.errors import AwsError
from localcloud.aws.patching import operation

SOURCES = ("CidrIpv4", "CidrIpv6", "PrefixListId", "ReferencedGroupId")
WITH_PORTS = ("tcp", "udp", "6", "17")
PROTOCOLS = (*WITH_PORTS, "icmp", "icmpv6", "-1", "all", "1", "58")
_DESCRIPTION = re.compile(r"[a-zA-Z0-9 ._\-:/()#,@\[\]+=&;{}!$*]{0,255}")


def extend_moto() -> None:
    rule: Any = SecurityGroupRule
    rule.__eq__ = _is_duplicate


def _is_duplicate(rule: Any, other: Any) -> bool:
    """Return whether EC2 considers two rules duplicates. Unlike moto, EC2 ignores their descriptions."""
    return isinstance(other, SecurityGroupRule) and _to_comparison_key(rule) == _to_comparison_key(other)


def _to_comparison_key(rule: Any) -> tuple[Any, ...]:
    ports = (rule.from_port, rule.to_port) if rule.ip_protocol != "-1" else ()
    addresses = rule.ip_range.get("CidrIp"), rule.ip_range.get("CidrIpv6")
    return (rule.is_egress, rule.ip_protocol, *ports, *addresses, rule.source_group.get("GroupId"), rule.prefix_list_id)


@operation("ec2", "AuthorizeSecurityGroupIngress")
def authorize_security_group_ingress(call: Call) -> dict[str, Any]:
    return _authorize_rules(call)


@operation("ec2", "AuthorizeSecurityGroupEgress")
def authorize_security_group_egress(call: Call) -> dict[str, Any]:
    return _authorize_rules(call)


def _authorize_rules(call: Call) -> dict[str, Any]:
    for permission in call.params.get("IpPermissions") or [call.params]:
        _check_protocol(permission.get("IpProtocol"), permission.get("FromPort"), permission.get("ToPort"))
        for description in _list_descriptions(permission):
            check_description(description)
    tagging.read_requested_tags(call.params.get("TagSpecifications"), "security-group-rule")
    stop_dry_run(call)
    return call.moto()


def _list_descriptions(permission: Mapping[str, Any]) -> Iterator[str]:
    for member in ("IpRanges", "Ipv6Ranges", "PrefixListIds", "UserIdGroupPairs"):
        for source in permission.get(member, ()):
            if "Description" in source:
                yield source["Description"]


def check_description(text: str) -> None:
    if not _DESCRIPTION.fullmatch(text):
        raise AwsError(
            "InvalidParameterValue",
            f"Invalid rule description '{text}'. Valid descriptions are strings less than 256 characters from the following set: "
            "a-zA-Z0-9. _-:/()#,@[]+=&;{}!$*",
        )


def _check_protocol(protocol: str | None, low: int | None, high: int | None) -> None:
    if protocol is None:
        raise AwsError(
            "InvalidParameterValue",
            "Invalid value 'null' for protocol. VPC security group rules must specify protocols explicitly.",
        )
    name = str(protocol).lower()
    if name not in PROTOCOLS and not (name.isdigit() and int(name) <= 255):
        raise AwsError("InvalidParameterValue", f"Invalid value '{protocol}' for IP protocol. Unknown protocol.")
    if name not in WITH_PORTS:
        return
    if low is None or high is None:
        raise AwsError("InvalidParameterValue", "Invalid value for portRange. Must specify both from and to ports with TCP/UDP.")
    if not 0 <= low <= high <= 65535:
        raise AwsError(
            "InvalidParameterValue",
            f"Invalid value '{low}-{high}' for portRange. Use 0 to 65535, the lower port first.",
        )


@operation("ec2", "ModifySecurityGroupRules")
def modify_security_group_rules(call: Call) -> dict[str, Any]:
    backend, group = call.backend, call.backend.get_security_group_from_id(call.params["GroupId"])
    if group is None:
        raise AwsError("InvalidGroup.NotFound", f"The security group '{call.params['GroupId']}' does not exist")
    changes = []
    for item in call.params.get("SecurityGroupRules", ()):
        rule, requested = group.get_rule(item["SecurityGroupRuleId"]), item["SecurityGroupRule"]
        if rule is None:
            raise AwsError(
                "InvalidSecurityGroupRuleId.NotFound",
                f"The security group rule ID '{item['SecurityGroupRuleId']}' does not exist",
            )
        _check_rule_change(backend, rule, requested)
        changes.append((rule, requested))
    stop_dry_run(call)
    for rule, requested in changes:
        _replace_rule_values(rule, requested)
    return {"Return": True}


def _check_rule_change(backend: Any, rule: Any, requested: Mapping[str, Any]) -> None:
    """Apply the checks for new rules to a changed rule. In addition, the rule must keep its type of source."""
    _check_protocol(requested.get("IpProtocol"), requested.get("FromPort"), requested.get("ToPort"))
    check_description(requested.get("Description", ""))
    sources = [name for name in SOURCES if requested.get(name)]
    if not sources:
        raise build_missing_parameter_error("exactly one of: cidrIp, cidrIpv6, prefixListId, or referencedGroupId")
    if len(sources) > 1:
        raise AwsError(
            "InvalidParameterCombination", "Only one of cidrIp, cidrIpv6, prefixListId, or referencedGroupId can be specified"
        )
    kind = _read_source_type(rule)
    if sources[0] != kind:
        raise AwsError(
            "InvalidParameterValue",
            f"Invalid rule type for security group rule '{rule.id}'. "
            f"You may not specify {sources[0]} for an existing {kind} rule.",
        )
    group_id = requested.get("ReferencedGroupId")
    if group_id and backend.get_security_group_from_id(group_id) is None:
        raise AwsError("InvalidGroup.NotFound", f"The security group '{group_id}' does not exist")
    prefix_list = requested.get("PrefixListId")
    if prefix_list and prefix_list not in backend.managed_prefix_lists:
        raise AwsError("InvalidPrefixListID.NotFound", f"The prefix list ID '{prefix_list}' does not exist")


def _read_source_type(rule: Any) -> str:
    if rule.prefix_list_id:
        return "PrefixListId"
    if rule.source_group:
        return "ReferencedGroupId"
    return "CidrIpv6" if "CidrIpv6" in rule.ip_range else "CidrIpv4"


def _replace_rule_values(rule: Any, requested: Mapping[str, Any]) -> None:
    """Replace all values of the rule with the requested values."""
    protocol = str(requested["IpProtocol"]).lower()
    rule.ip_protocol = {"6": "tcp", "17": "udp", "1": "icmp", "all": "-1"}.get(protocol, protocol)
    has_ports = rule.ip_protocol != "-1"
    rule.from_port, rule.to_port = (requested.get("FromPort"), requested.get("ToPort")) if has_ports else (None, None)
    described = {"Description": requested["Description"]} if requested.get("Description") else {}
    if requested.get("CidrIpv4"):
        rule.ip_range = {"CidrIp": requested["CidrIpv4"], **described}
    elif requested.get("CidrIpv6"):
        rule.ip_range = {"CidrIpv6": requested["CidrIpv6"], **described}
    elif requested.get("PrefixListId"):
        rule.prefix_list_id, rule.prefix_list_description = requested["PrefixListId"], requested.get("Description")
    else:
        source = {key: value for key, value in rule.source_group.items() if key != "Description"}
        rule.source_group = {**source, "GroupId": requested["ReferencedGroupId"], **described}
