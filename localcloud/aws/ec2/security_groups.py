"""Security groups: name validation, and dependencies that block deletion.

https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CreateSecurityGroup.html
https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DeleteSecurityGroup.html
"""

import functools
import re
from typing import Any

from moto.ec2.models.security_groups import SecurityGroupRule

from localcloud.aws.call import Call
from localcloud.aws.ec2 import interfaces, tagging, vpcs
from localcloud.aws.ec2.refusals import build_invalid_value_error, build_missing_parameter_error, stop_dry_run
from localcloud.aws.errors import AwsError
from localcloud.aws.patching import operation

PREFIX_LIST = 7
"""Index of the prefix list among the positional arguments of moto's rule class."""
_TEXT = re.compile(r"[a-zA-Z0-9. _\-:/()#,@\[\]+=&;{}!$*]{0,255}")
_ALLOWED = "a-zA-Z0-9. _-:/()#,@[]+=&;{}!$*"


def extend_moto() -> None:
    """Keep the descriptions of all rules, as EC2 does.

    moto keeps them only for rules with CIDRs, not for rules with groups or prefix lists.
    """
    make = SecurityGroupRule.__init__

    @functools.wraps(make)
    def init_rule(self: Any, *arguments: Any, **named: Any) -> None:
        make(self, *arguments, **named)
        prefix_list = named.get("prefix_list_id", arguments[PREFIX_LIST] if len(arguments) > PREFIX_LIST else None)
        self.prefix_list_description = prefix_list.get("Description") if isinstance(prefix_list, dict) else None

    def rule_description(self: Any) -> str | None:
        described: str | None = (
            self.ip_range.get("Description") or self.source_group.get("Description") or self.prefix_list_description
        )
        return described

    SecurityGroupRule.__init__ = init_rule  # type: ignore[method-assign]
    SecurityGroupRule.description = property(rule_description)  # type: ignore[assignment]


@operation("ec2", "CreateSecurityGroup")
def create_security_group(call: Call) -> dict[str, Any]:
    params = call.params
    name, description = params.get("GroupName"), params.get("Description")
    if not name:
        raise build_missing_parameter_error("GroupName")
    if not description:
        raise build_missing_parameter_error("GroupDescription")
    if name.startswith("sg-"):
        raise AwsError(
            "InvalidParameterValue",
            f"Value ({name}) for parameter GroupName is invalid. Group names may not be in the format sg-*.",
        )
    if name == "default":
        raise AwsError("InvalidGroup.Reserved", "The security group 'default' is reserved")
    for parameter, text in (("GroupName", name), ("GroupDescription", description)):
        if not _TEXT.fullmatch(text):
            reason = f"Character sets beyond ASCII are not supported. Use at most 255 of these characters: {_ALLOWED}"
            raise build_invalid_value_error(text, parameter, reason)
    if "VpcId" in params:
        vpcs.find_vpc(call.backend, params["VpcId"])
    tagging.read_requested_tags(params.get("TagSpecifications"), "security-group")
    stop_dry_run(call)
    answer = call.moto()
    return {**answer, "Tags": tagging.describe_tags(call.backend, answer["GroupId"])}


@operation("ec2", "DeleteSecurityGroup")
def delete_security_group(call: Call) -> dict[str, Any]:
    backend, params = call.backend, call.params
    group = backend.get_security_group_by_name_or_id(params.get("GroupId") or params.get("GroupName"))
    if group is None:
        raise AwsError(
            "InvalidGroup.NotFound", f"The security group '{params.get('GroupId') or params.get('GroupName')}' does not exist"
        )
    if group.is_default:
        raise AwsError("CannotDelete", f'the specified group: "{group.id}" name: "default" cannot be deleted by a user')
    if interfaces.find_by_group(backend, group.id) or _find_referring_groups(backend, group.id):
        raise AwsError("DependencyViolation", f"resource {group.id} has a dependent object")
    stop_dry_run(call)
    del backend.groups[group.vpc_id][group.id]
    for rule in (*group.ingress_rules, *group.egress_rules):
        tagging.delete_resource_tags(backend, rule.id)
    tagging.delete_resource_tags(backend, group.id)
    return {"Return": True, "GroupId": group.id}


def _find_referring_groups(backend: Any, group_id: str) -> list[Any]:
    """Return the other security groups whose rules reference this group."""
    return [
        group
        for in_vpc in backend.groups.values()
        for group in in_vpc.values()
        if group.id != group_id
        and any(rule.source_group.get("GroupId") == group_id for rule in (*group.ingress_rules, *group.egress_rules))
    ]
