"""Bucket policies: https://docs.aws.amazon.com/AmazonS3/latest/API/API_PutBucketPolicy.html"""

import re
from typing import Any

from localcloud.aws import identity, policy_documents
from localcloud.aws.call import Call
from localcloud.aws.errors import AwsError
from localcloud.aws.iam import check_principals
from localcloud.aws.patching import operation
from localcloud.aws.policy_documents import InvalidPolicy
from localcloud.aws.s3.buckets import find_bucket

_MOST_BYTES = 20 * 1024
_OF_OBJECTS = re.compile(r"s3:(Abort|ListMultipartUploadParts|\w*Object(?!LockConfiguration)\w*)")
_FIXING = {
    # https://docs.aws.amazon.com/AmazonS3/latest/userguide/access-control-block-public-access.html#access-control-block-public-access-policy-status
    "aws:sourceip",
    "aws:sourcearn",
    "aws:sourcevpc",
    "aws:sourcevpce",
    "aws:sourceowner",
    "aws:sourceaccount",
    "aws:userid",
    "aws:principalorgid",
    "aws:principalorgpaths",
    "aws:principalarn",
    "aws:principalaccount",
    "s3:dataaccesspointarn",
    "s3:dataaccesspointaccount",
}


@operation("s3", "PutBucketPolicy")
def _put_bucket_policy(call: Call) -> dict[str, Any]:
    name, text = call.params["Bucket"], str(call.params["Policy"])
    s3_bucket = find_bucket(call)
    if s3_bucket is None:
        return call.moto()
    if len(text.encode()) > _MOST_BYTES:
        raise AwsError("PolicyTooLarge", "Policy exceeds the maximum allowed document size.", 400)
    try:
        document = policy_documents.parse_policy(text)
        for statement in policy_documents.list_statements(document):
            _check_statement(call, statement, name)
    except InvalidPolicy as error:
        is_json = "invalid Json" not in str(error)
        message = str(error) if is_json else "Policies must be valid JSON and the first byte must be '{'"
        raise AwsError("MalformedPolicy", message, 400) from None
    block = s3_bucket.public_access_block
    if block is not None and block.block_public_policy and is_public(document):
        who = identity.caller_arn(call)
        message = (
            f'User: {who} is not authorized to perform: s3:PutBucketPolicy on resource: "arn:aws:s3:::{name}" '
            "because public policies are prevented by the BlockPublicPolicy setting in S3 Block Public Access."
        )
        raise AwsError("AccessDenied", message, 403)
    return call.moto()


def _check_statement(call: Call, statement: dict[str, Any], name: str) -> None:
    if not list(policy_documents.list_principals(statement)):
        raise InvalidPolicy("Missing required field Principal")
    resources = policy_documents.list_resources(statement)
    if not resources:
        raise InvalidPolicy("Missing required field Resource")
    arn = f"arn:aws:s3:::{name}"
    if not all(resource in ("*", "arn:aws:s3:::*", arn, f"{arn}*") or resource.startswith(f"{arn}/") for resource in resources):
        raise InvalidPolicy("Policy has invalid resource")
    for action in policy_documents.list_actions(statement):
        if action != "*" and not action.startswith("s3:"):
            raise InvalidPolicy("Policy has invalid action")
        if "*" not in action and "?" not in action and not any(_can_action_match(action, resource) for resource in resources):
            raise InvalidPolicy("Action does not apply to any resource(s) in statement")
    try:
        check_principals(call, statement)
    except InvalidPolicy:
        raise InvalidPolicy("Invalid principal in policy") from None


def _can_action_match(action: str, resource: str) -> bool:
    if resource.endswith("*") and "/" not in resource:
        return True
    return ("/" in resource) == bool(_OF_OBJECTS.match(action))


def is_public(document: dict[str, Any]) -> bool:
    """Return whether any statement allows public access without a condition that restricts the principal or source."""
    return any(
        statement["Effect"] == "Allow"
        and any(name == "*" for _, name in policy_documents.list_principals(statement))
        and not _restricts_access(statement.get("Condition", {}))
        for statement in policy_documents.list_statements(document)
    )


def _restricts_access(condition: dict[str, Any]) -> bool:
    return any(
        key.lower() in _FIXING and not any("*" in str(value) or "${" in str(value) for value in _as_list(tested))
        for operator, tests in condition.items()
        if "Not" not in operator
        for key, tested in tests.items()
    )


def _as_list(tested: Any) -> list[Any]:
    return tested if isinstance(tested, list) else [tested]
