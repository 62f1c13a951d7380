"""Security group rules as separate resources, one per rule."""

from typing import Any, ClassVar

from localcloud.engine.aws.resource import Args, Aws, Prop, Resource, State, register
from localcloud.engine.aws.resources.ec2_tags import TAGS, build_tag_specification, parse_tags, update_tags
from localcloud.engine.aws.resources.requests import build_ec2_arn, find_first, ignore_gone, to_request, to_state

SOURCES = ("cidrIpv4", "cidrIpv6", "prefixListId", "referencedSecurityGroupId")
ABSENT = ("InvalidSecurityGroupRuleId.NotFound", "InvalidPermission.NotFound", "InvalidGroup.NotFound")
# EC2 accepts names for these four protocols: https://www.iana.org/assignments/protocol-numbers
PROTOCOLS = {"1": "icmp", "6": "tcp", "17": "udp", "58": "icmpv6", "all": "-1"}


def get_canonical_protocol_name(protocol: str) -> str:
    """Return the canonical name of a protocol: `tcp` for `6`, `TCP` and `tcp`."""
    return PROTOCOLS.get(protocol.lower(), protocol.lower())


class SecurityGroupRule(Resource):
    is_egress: ClassVar[bool]
    SEEN = {
        "securityGroupId": "GroupId",
        "securityGroupRuleId": "SecurityGroupRuleId",
        "cidrIpv4": "CidrIpv4",
        "cidrIpv6": "CidrIpv6",
        "prefixListId": "PrefixListId",
        "description": "Description",
        "fromPort": "FromPort",
        "toPort": "ToPort",
    }
    MODIFIED_WITH = {
        "cidrIpv4": "CidrIpv4",
        "cidrIpv6": "CidrIpv6",
        "prefixListId": "PrefixListId",
        "referencedSecurityGroupId": "ReferencedGroupId",
        "description": "Description",
    }
    props = {
        "securityGroupId": Prop(replace=True),
        "ipProtocol": Prop(),
        "fromPort": Prop(),
        "toPort": Prop(),
        **dict.fromkeys(SOURCES, Prop(default="")),
        "description": Prop(default=""),
        **TAGS,
    }

    def create(self, aws: Aws, args: Args) -> str:
        ec2 = aws.client("ec2")
        authorize = ec2.authorize_security_group_egress if self.is_egress else ec2.authorize_security_group_ingress
        answer = authorize(
            GroupId=args["securityGroupId"],
            IpPermissions=[build_ip_permission(args)],
            TagSpecifications=build_tag_specification("security-group-rule", args),
        )
        return str(answer["SecurityGroupRules"][0]["SecurityGroupRuleId"])

    def read(self, aws: Aws, id: str, recorded: State) -> State | None:
        ec2 = aws.client("ec2")
        rule = find_first(lambda: ec2.describe_security_group_rules(SecurityGroupRuleIds=[id])["SecurityGroupRules"], *ABSENT)
        if rule is None or bool(rule.get("IsEgress")) != self.is_egress:
            return None
        state = to_state(rule, self.SEEN)
        for port in ("fromPort", "toPort"):
            if state.get(port) == -1 and port not in recorded:  # AWS returns -1 for ports that are not set
                del state[port]
        protocol = str(rule["IpProtocol"])
        same = get_canonical_protocol_name(str(recorded.get("ipProtocol", protocol))) == get_canonical_protocol_name(protocol)
        referenced = rule.get("ReferencedGroupInfo") or {}
        return {
            **state,
            "ipProtocol": recorded.get("ipProtocol", protocol) if same else protocol,
            **to_state(referenced, {"referencedSecurityGroupId": "GroupId"}),
            **parse_tags(rule.get("Tags")),
            "arn": build_ec2_arn(aws, f"security-group-rule/{id}", rule.get("GroupOwnerId")),
        }

    def find_replacement_triggers(self, old: State, new: Args, changed: frozenset[str]) -> frozenset[str]:
        """Replace a rule if the type of its source changes: EC2 can change only the source's value in place."""
        before = {name for name in SOURCES if old.get(name)}
        after = {name for name in SOURCES if new.get(name)}
        return changed & frozenset(SOURCES) if before != after else frozenset()

    def update(self, aws: Aws, id: str, old: State, new: Args, changed: frozenset[str]) -> None:
        if changed - {"tags"}:
            rule = {
                "IpProtocol": new["ipProtocol"],
                "FromPort": int(new.get("fromPort", -1)),
                "ToPort": int(new.get("toPort", -1)),
                "Description": "",
                **to_request(new, self.MODIFIED_WITH),
            }
            aws.client("ec2").modify_security_group_rules(
                GroupId=new["securityGroupId"], SecurityGroupRules=[{"SecurityGroupRuleId": id, "SecurityGroupRule": rule}]
            )
        if "tags" in changed:
            update_tags(aws, id, old, new)

    def delete(self, aws: Aws, id: str, state: State) -> None:
        ec2 = aws.client("ec2")
        revoke = ec2.revoke_security_group_egress if self.is_egress else ec2.revoke_security_group_ingress
        with ignore_gone(*ABSENT):
            revoke(GroupId=state["securityGroupId"], SecurityGroupRuleIds=[id])


def build_ip_permission(args: Args) -> dict[str, Any]:
    """Return the rule as `IpPermissions` for EC2's authorize request."""
    described = {"Description": args["description"]} if args.get("description") else {}
    rule: dict[str, Any] = {"IpProtocol": args["ipProtocol"]}
    rule.update({port: int(value) for port, value in to_request(args, {"fromPort": "FromPort", "toPort": "ToPort"}).items()})
    if cidr := args.get("cidrIpv4"):
        rule["IpRanges"] = [{"CidrIp": cidr, **described}]
    if cidr := args.get("cidrIpv6"):
        rule["Ipv6Ranges"] = [{"CidrIpv6": cidr, **described}]
    if prefix_list := args.get("prefixListId"):
        rule["PrefixListIds"] = [{"PrefixListId": prefix_list, **described}]
    if group := args.get("referencedSecurityGroupId"):
        rule["UserIdGroupPairs"] = [{"GroupId": group, **described}]
    return rule


@register
class SecurityGroupIngressRule(SecurityGroupRule):
    token = "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule"
    title = "VPC Security Group Ingress Rule"
    is_egress = False


@register
class SecurityGroupEgressRule(SecurityGroupRule):
    token = "aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule"
    title = "VPC Security Group Egress Rule"
    is_egress = True
