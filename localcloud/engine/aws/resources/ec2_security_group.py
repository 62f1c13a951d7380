"""Security groups that the program creates, and the default security group of a VPC, which the program adopts."""

from functools import partial
from typing import Any

from botocore.exceptions import ClientError

from localcloud.engine.aws.resource import Args, AutoName, Aws, Failed, Prop, Resource, State, register
from localcloud.engine.aws.resources.ec2_inline_rules import RULES, combine_rules, expand_rules, parse_permissions, set_rules
from localcloud.engine.aws.resources.ec2_tags import TAGS, build_tag_specification, parse_tags, update_tags
from localcloud.engine.aws.resources.names import choose_physical_name
from localcloud.engine.aws.resources.requests import (
    MINUTE,
    build_ec2_arn,
    describe_network_interfaces,
    find_first,
    get_error_code,
    ignore_gone,
    report_partial_creation,
    retry,
    to_request,
    to_state,
    wait_until_gone,
)

CREATED = 10 * MINUTE
FIRST_TRY = 1 * MINUTE
DELETED = 15 * MINUTE
PROPAGATION = 2 * MINUTE
IN_USE = ("DependencyViolation", "InvalidGroup.InUse")
DIRECTIONS = {"ingress": "IpPermissions", "egress": "IpPermissionsEgress"}


def describe_security_group(aws: Aws, id: str) -> dict[str, Any] | None:
    ec2 = aws.client("ec2")
    return find_first(lambda: ec2.describe_security_groups(GroupIds=[id])["SecurityGroups"], "InvalidGroup.NotFound")


def read_group_state(aws: Aws, id: str, recorded: State) -> State | None:
    group = describe_security_group(aws, id)
    if group is None:
        return None
    names = {"name": "GroupName", "description": "Description", "ownerId": "OwnerId", "vpcId": "VpcId"}
    return {
        **to_state(group, names),
        **{
            direction: combine_rules(recorded.get(direction) or [], parse_permissions(group.get(theirs) or []), id)
            for direction, theirs in DIRECTIONS.items()
        },
        **parse_tags(group.get("Tags")),
        "arn": build_ec2_arn(aws, f"security-group/{id}", group.get("OwnerId")),
    }


def update_security_group(aws: Aws, id: str, old: State, new: Args, changed: frozenset[str]) -> None:
    for direction in changed & DIRECTIONS.keys():
        before, after = expand_rules(old.get(direction) or [], id), expand_rules(new.get(direction) or [], id)
        set_rules(aws, id, egress=direction == "egress", old=before, new=after)
    if "tags" in changed:
        update_tags(aws, id, old, new)


def replace_default_rules(aws: Aws, id: str, group: dict[str, Any], args: Args) -> None:
    """Replace the default rules of a new group (allow all egress) with the program's rules."""
    for direction, theirs in DIRECTIONS.items():
        before = parse_permissions(group.get(theirs) or [])
        set_rules(aws, id, egress=direction == "egress", old=before, new=expand_rules(args.get(direction) or [], id))


@register
class SecurityGroup(Resource):
    token = "aws:ec2/securityGroup:SecurityGroup"
    title = "Security Group"
    auto_name = AutoName()
    props = {
        "name": Prop(replace=True),
        "namePrefix": Prop(replace=True, write_only=True),
        "description": Prop(replace=True, default="Managed by Pulumi"),
        "vpcId": Prop(replace=True),
        "ingress": RULES,
        "egress": RULES,
        "revokeRulesOnDelete": Prop(write_only=True, default=False),
        **TAGS,
    }

    def create(self, aws: Aws, args: Args) -> str:
        response = aws.client("ec2").create_security_group(
            GroupName=choose_physical_name(args),
            Description=args.get("description", self.props["description"].default),
            TagSpecifications=build_tag_specification("security-group", args),
            **to_request(args, {"vpcId": "VpcId"}),
        )
        id = str(response["GroupId"])
        with report_partial_creation(id):
            group = aws.wait(f"Security Group ({id}) create", partial(describe_security_group, aws, id), timeout=CREATED)
            replace_default_rules(aws, id, group, args)
        return id

    def read(self, aws: Aws, id: str, recorded: State) -> State | None:
        return read_group_state(aws, id, recorded)

    def update(self, aws: Aws, id: str, old: State, new: Args, changed: frozenset[str]) -> None:
        update_security_group(aws, id, old, new, changed)

    def delete(self, aws: Aws, id: str, state: State) -> None:
        """Delete the group. Retry while network interfaces and rules that are being deleted still reference the group."""
        revoke = bool(state.get("revokeRulesOnDelete"))
        describe_network_interfaces(aws, "group-id", id)
        what, delete = f"Security Group ({id})", partial(aws.client("ec2").delete_security_group, GroupId=id)
        with ignore_gone("InvalidGroup.NotFound"):
            if revoke:
                revoke_rules(aws, id, [{"Name": "group-id", "Values": [id]}])
            try:
                retry(aws, f"{what} delete", delete, *IN_USE, timeout=FIRST_TRY)
            except ClientError as error:
                if get_error_code(error) not in IN_USE:
                    raise
                if revoke:
                    revoke_rules(aws, id, [])
                retry(aws, f"{what} delete", delete, *IN_USE, timeout=DELETED - FIRST_TRY)
        wait_until_gone(aws, what, partial(describe_security_group, aws, id), timeout=PROPAGATION)


def revoke_rules(aws: Aws, id: str, filters: list[dict[str, Any]]) -> None:
    """Revoke the group's rules. Without a filter, also revoke rules in other groups that reference this group."""
    ec2 = aws.client("ec2")
    for rule in ec2.describe_security_group_rules(Filters=filters)["SecurityGroupRules"]:
        if id in (rule["GroupId"], (rule.get("ReferencedGroupInfo") or {}).get("GroupId")):
            revoke = ec2.revoke_security_group_egress if rule["IsEgress"] else ec2.revoke_security_group_ingress
            with ignore_gone("InvalidSecurityGroupRuleId.NotFound", "InvalidGroup.NotFound"):
                revoke(GroupId=rule["GroupId"], SecurityGroupRuleIds=[rule["SecurityGroupRuleId"]])


@register
class DefaultSecurityGroup(Resource):
    token = "aws:ec2/defaultSecurityGroup:DefaultSecurityGroup"
    title = "Default Security Group"
    props = {"vpcId": Prop(replace=True), "ingress": RULES, "egress": RULES, **TAGS}

    def create(self, aws: Aws, args: Args) -> str:
        """Adopt the default group of the VPC, and replace its rules with the program's rules."""
        filters = [{"Name": "group-name", "Values": ["default"]}, {"Name": "vpc-id", "Values": [args["vpcId"]]}]
        group = find_first(lambda: aws.client("ec2").describe_security_groups(Filters=filters)["SecurityGroups"])
        if group is None:
            raise Failed(f"reading Default Security Group ({args['vpcId']}): not found")
        id = str(group["GroupId"])
        with report_partial_creation(id):
            update_tags(aws, id, parse_tags(group.get("Tags")), args)
            replace_default_rules(aws, id, group, args)
        return id

    def read(self, aws: Aws, id: str, recorded: State) -> State | None:
        return read_group_state(aws, id, recorded)

    def update(self, aws: Aws, id: str, old: State, new: Args, changed: frozenset[str]) -> None:
        update_security_group(aws, id, old, new, changed)

    def delete(self, aws: Aws, id: str, state: State) -> None:
        """Do nothing: EC2 deletes the default group together with its VPC."""
