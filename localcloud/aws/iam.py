"""IAM: validation of requests that AWS rejects and moto accepts."""

import re
from typing import Any

from moto.iam.exceptions import NotFoundException

from localcloud.aws import policy_documents, quotas
from localcloud.aws.call import Call
from localcloud.aws.errors import AwsError
from localcloud.aws.patching import operation
from localcloud.aws.policy_documents import InvalidPolicy

# Quotas: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html
TRUST_POLICY_SIZE = 2048
ROLE_POLICIES_SIZE = 10240
MANAGED_POLICY_SIZE = 6144
POLICIES_PER_ROLE = 10
ROLES = "L-FE177D64"

_NAME = re.compile(r"[\w+=,.@-]+", re.ASCII)
_DESCRIPTION = re.compile("[\t\n\r -~\u00a1-\u00ff]*")
"""Descriptions can contain only Latin-1 characters, so no en or em dashes.

https://docs.aws.amazon.com/IAM/latest/APIReference/API_CreateRole.html
"""
_SERVICE = re.compile(r"[a-z0-9.-]+\.amazonaws\.com(\.cn)?")


def extend_moto() -> None:
    """Do nothing: importing this module has already registered its operations."""


@operation("iam", "CreateRole")
def _create_role(call: Call) -> dict[str, Any]:
    """https://docs.aws.amazon.com/IAM/latest/APIReference/API_CreateRole.html"""
    check_name(call.params["RoleName"], "roleName", 64)
    _check_description(call)
    _check_trust_policy(call, call.params["AssumeRolePolicyDocument"])
    if not 3600 <= call.params.get("MaxSessionDuration", 3600) <= 43200:
        raise build_validation_error(
            "maxSessionDuration", call.params["MaxSessionDuration"], "Member must have value between 3600 and 43200"
        )
    if boundary := call.params.get("PermissionsBoundary"):
        _find_managed_policy(call, boundary)
    limit = quotas.get_quota_value(ROLES)
    if len(call.backend.roles) >= limit:
        raise AwsError("LimitExceeded", f"Cannot exceed quota for RolesPerAccount: {limit:g}", 409)
    return call.moto()


@operation("iam", "GetAccountSummary")
def _get_account_summary(call: Call) -> dict[str, Any]:
    summary = call.moto()["SummaryMap"]
    return {"SummaryMap": {**summary, "RolesQuota": int(quotas.get_quota_value(ROLES))}}


@operation("iam", "UpdateRole")
def _update_role(call: Call) -> dict[str, Any]:
    _check_description(call)
    return call.moto()


@operation("iam", "UpdateAssumeRolePolicy")
def _update_assume_role_policy(call: Call) -> None:
    """Check the document against AWS's rules, because moto's rules are looser in some places and stricter in others."""
    role = call.backend.get_role(call.params["RoleName"])
    _check_trust_policy(call, call.params["PolicyDocument"])
    role.assume_role_policy_document = call.params["PolicyDocument"]


@operation("iam", "PutRolePolicy")
def _put_role_policy(call: Call) -> dict[str, Any]:
    role = call.backend.get_role(call.params["RoleName"])
    check_name(call.params["PolicyName"], "policyName", 128)
    _check_identity_policy(call.params["PolicyDocument"])
    policies = {**role.policies, call.params["PolicyName"]: call.params["PolicyDocument"]}
    if sum(_count_non_space_characters(document) for document in policies.values()) > ROLE_POLICIES_SIZE:
        raise AwsError("LimitExceeded", f"Maximum policy size of {ROLE_POLICIES_SIZE} bytes exceeded for role {role.name}", 409)
    return call.moto()


@operation("iam", "CreatePolicy")
def _create_policy(call: Call) -> dict[str, Any]:
    check_name(call.params["PolicyName"], "policyName", 128)
    _check_identity_policy(call.params["PolicyDocument"])
    if _count_non_space_characters(call.params["PolicyDocument"]) > MANAGED_POLICY_SIZE:
        raise AwsError("LimitExceeded", f"Cannot exceed quota for PolicySize: {MANAGED_POLICY_SIZE}", 409)
    return call.moto()


@operation("iam", "AttachRolePolicy")
def _attach_role_policy(call: Call) -> dict[str, Any]:
    role = call.backend.get_role(call.params["RoleName"])
    arn = call.params["PolicyArn"]
    if not re.fullmatch(r"arn:aws:iam::(aws|\d{12}):policy/.+", arn):
        raise AwsError("InvalidInput", f"ARN {arn} is not valid.")
    _find_managed_policy(call, arn)
    if arn not in role.managed_policies and len(role.managed_policies) >= POLICIES_PER_ROLE:
        raise AwsError("LimitExceeded", f"Cannot exceed quota for PoliciesPerRole: {POLICIES_PER_ROLE}", 409)
    return call.moto()


@operation("iam", "CreateInstanceProfile")
def _create_instance_profile(call: Call) -> dict[str, Any]:
    check_name(call.params["InstanceProfileName"], "instanceProfileName", 128)
    return call.moto()


@operation("iam", "ListInstanceProfileTags")
def _list_instance_profile_tags(call: Call) -> dict[str, Any]:
    return {"Tags": call.backend.get_instance_profile(call.params["InstanceProfileName"]).tags, "IsTruncated": False}


def check_name(name: str, parameter: str, longest: int) -> None:
    """Letters, digits and +=,.@-_ (https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html)."""
    if len(name) > longest:
        raise build_validation_error(parameter, name, f"Member must have length less than or equal to {longest}")
    if not _NAME.fullmatch(name):
        raise AwsError(
            "ValidationError",
            f"The specified value for {parameter} is invalid. It must contain only alphanumeric characters and/or +=,.@_-",
        )


def build_validation_error(parameter: str, value: object, constraint: str) -> AwsError:
    return AwsError(
        "ValidationError",
        f"1 validation error detected: Value '{value}' at '{parameter}' failed to satisfy constraint: {constraint}",
    )


def _check_description(call: Call) -> None:
    description = call.params.get("Description", "")
    if len(description) > 1000:
        raise build_validation_error("description", description, "Member must have length less than or equal to 1000")
    if not _DESCRIPTION.fullmatch(description):
        raise build_validation_error(
            "description", description, "Member must satisfy regular expression pattern: " + _DESCRIPTION.pattern
        )


def _check_identity_policy(text: str) -> None:
    """Check an identity policy of a role or user: its statements must have resources and no principal."""
    try:
        for statement in policy_documents.list_statements(policy_documents.parse_policy(text)):
            if "Principal" in statement or "NotPrincipal" in statement:
                raise InvalidPolicy("Policy document should not specify a principal.")
            if not policy_documents.list_resources(statement):
                raise InvalidPolicy("Policy statement must contain resources.")
            if not re.fullmatch(r"[A-Za-z0-9]*", statement.get("Sid", "")):
                raise InvalidPolicy("Statement IDs (SID) must be alpha-numeric.")
    except InvalidPolicy as error:
        raise AwsError("MalformedPolicyDocument", str(error)) from None


def _check_trust_policy(call: Call, text: str) -> None:
    """Check a role's trust policy: its principals must exist, and it must have only STS actions and no resources.

    https://docs.aws.amazon.com/IAM/latest/UserGuide/id_roles_update-role-trust-policy.html
    """
    try:
        for statement in policy_documents.list_statements(policy_documents.parse_policy(text)):
            if "Resource" in statement or "NotResource" in statement:
                raise InvalidPolicy("Has prohibited field Resource")
            if not list(policy_documents.list_principals(statement)):
                raise InvalidPolicy("Missing required field Principal")
            if not all(re.match(r"\*$|sts:", action) for action in policy_documents.list_actions(statement)):
                raise InvalidPolicy("AssumeRole policy may only specify STS AssumeRole actions.")
            check_principals(call, statement)
    except InvalidPolicy as error:
        raise AwsError("MalformedPolicyDocument", str(error)) from None
    if _count_non_space_characters(text) > TRUST_POLICY_SIZE:
        raise AwsError("LimitExceeded", f"Cannot exceed quota for ACLSizePerRole: {TRUST_POLICY_SIZE}", 409)


def check_principals(call: Call, statement: dict[str, Any]) -> None:
    """Check that the users and roles of this account exist, and that service principals have a valid format."""
    for kind, name in policy_documents.list_principals(statement):
        if not _principal_exists(call, kind, str(name)):
            raise InvalidPolicy(f'Invalid principal in policy: "{kind.upper() if kind != "AWS" else kind}":"{name}"')


def _principal_exists(call: Call, kind: str, name: str) -> bool:
    if kind == "Service":
        return bool(_SERVICE.fullmatch(name))
    if kind == "Federated":
        return "/" in name or name.count(".") >= 1
    if kind == "CanonicalUser" or name == "*" or re.fullmatch(r"\d{12}|arn:aws:(iam|sts)::\d{12}:(root|assumed-role/.+)", name):
        return True
    principal = re.fullmatch(r"arn:aws:iam::(\d{12}):(user|role)/(.+)", name)
    if kind != "AWS" or not principal:
        return False
    if principal[1] != call.account:
        return True
    iam = call.backend_of("iam")
    entities = iam.roles.values() if principal[2] == "role" else iam.users.values()
    return any(entity.arn == name for entity in entities)


def _find_managed_policy(call: Call, arn: str) -> Any:
    if arn not in call.backend.managed_policies:
        raise NotFoundException(f"Policy {arn} does not exist or is not attachable.")
    return call.backend.managed_policies[arn]


def _count_non_space_characters(document: str) -> int:
    """Return the length without white space, which IAM does not count."""
    return len(re.sub(r"\s", "", document))
