"""Inline rules of a security group, represented as sets of `{fromPort, toPort, protocol, cidrBlocks, ...}`.

EC2 stores one rule per source, but a program may combine several sources in one rule. If all single rules of a combined
rule exist in EC2, the state contains the combined rule, so an unchanged program shows no diff.
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any, NamedTuple

from localcloud.engine.aws.resource import Args, Aws, Prop
from localcloud.engine.aws.resources.ec2_security_group_rules import get_canonical_protocol_name

SOURCES = {"cidrBlocks": "cidr", "ipv6CidrBlocks": "cidr6", "prefixListIds": "prefixList", "securityGroups": "group"}
RULES = Prop(
    unordered=True,
    fields={
        "fromPort": Prop(),
        "toPort": Prop(),
        "protocol": Prop(),
        "description": Prop(default=""),
        "self": Prop(default=False),
        **dict.fromkeys(SOURCES, Prop(unordered=True, default=[])),
    },
)


class Rule(NamedTuple):
    """Security group rule with a single source, as EC2 stores it."""

    protocol: str
    from_port: int
    to_port: int
    kind: str
    source: str
    description: str


def expand_rules(bundles: Iterable[Args], group: str) -> dict[Rule, None]:
    """Expand the program's combined rules into single rules, in order. `self` becomes the security group's id."""
    rules: dict[Rule, None] = {}
    for bundle in bundles:
        protocol = get_canonical_protocol_name(str(bundle["protocol"]))
        ports = (-1, -1) if protocol == "-1" else (int(bundle["fromPort"]), int(bundle["toPort"]))
        sources = [(kind, source) for name, kind in SOURCES.items() for source in bundle.get(name) or []]
        sources += [("group", group)] if bundle.get("self") else []
        for kind, source in sources:
            rules[Rule(protocol, *ports, kind, source, bundle.get("description") or "")] = None
    return rules


def parse_permissions(permissions: Iterable[dict[str, Any]]) -> dict[Rule, None]:
    """Return the single rules from an EC2 response."""
    rules: dict[Rule, None] = {}
    for permission in permissions:
        protocol = str(permission["IpProtocol"])
        ports = (-1, -1) if protocol == "-1" else (int(permission.get("FromPort", -1)), int(permission.get("ToPort", -1)))
        for key, name, kind in (
            ("IpRanges", "CidrIp", "cidr"),
            ("Ipv6Ranges", "CidrIpv6", "cidr6"),
            ("PrefixListIds", "PrefixListId", "prefixList"),
            ("UserIdGroupPairs", "GroupId", "group"),
        ):
            for source in permission.get(key) or []:
                rules[Rule(protocol, *ports, kind, source[name], source.get("Description") or "")] = None
    return rules


def combine_rules(program_rules: Iterable[Args], live_rules: dict[Rule, None], group: str) -> list[Args]:
    """Combine EC2's single rules into the program's combined rules. A combined rule is used only if all its single
    rules exist. Group the remaining rules by protocol, ports and description."""
    left, complete = dict(live_rules), []
    for bundle in program_rules:
        rules = expand_rules([bundle], group)
        if rules and all(rule in left for rule in rules):
            complete.append(dict(bundle))
            for rule in rules:
                del left[rule]
    rest: dict[tuple[str, int, int, str], list[Rule]] = defaultdict(list)
    for rule in left:
        rest[rule.protocol, rule.from_port, rule.to_port, rule.description].append(rule)
    return complete + [_build_combined_rule(rules, group) for rules in rest.values()]


def _build_combined_rule(rules: list[Rule], group: str) -> Args:
    first = rules[0]
    every_port = first.protocol == "-1"
    bundle: Args = {
        "protocol": first.protocol,
        "fromPort": 0 if every_port else first.from_port,
        "toPort": 0 if every_port else first.to_port,
        "self": any(rule.source == group for rule in rules),
        "description": first.description,
    }
    for name, kind in SOURCES.items():
        bundle[name] = [rule.source for rule in rules if rule.kind == kind and rule.source != group]
    return bundle


def set_rules(aws: Aws, group: str, *, egress: bool, old: Iterable[Rule], new: Iterable[Rule]) -> None:
    """Replace the rules. Revoke before authorizing: EC2 treats rules that differ only in description as duplicates."""
    ec2 = aws.client("ec2")
    before, after = dict.fromkeys(old), dict.fromkeys(new)
    revoked = [_build_permission(rule) for rule in before if rule not in after]
    granted = [_build_permission(rule) for rule in after if rule not in before]
    if revoked:
        revoke = ec2.revoke_security_group_egress if egress else ec2.revoke_security_group_ingress
        revoke(GroupId=group, IpPermissions=revoked)
    if granted:
        authorize = ec2.authorize_security_group_egress if egress else ec2.authorize_security_group_ingress
        authorize(GroupId=group, IpPermissions=granted)


def _build_permission(rule: Rule) -> dict[str, Any]:
    described = {"Description": rule.description} if rule.description else {}
    source = {
        "cidr": ("IpRanges", "CidrIp"),
        "cidr6": ("Ipv6Ranges", "CidrIpv6"),
        "prefixList": ("PrefixListIds", "PrefixListId"),
        "group": ("UserIdGroupPairs", "GroupId"),
    }[rule.kind]
    permission: dict[str, Any] = {"IpProtocol": rule.protocol, source[0]: [{source[1]: rule.source, **described}]}
    if rule.protocol != "-1":
        permission.update({"FromPort": rule.from_port, "ToPort": rule.to_port})
    return permission
