"""Condition keys of requests.

https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_condition-keys.html. A condition key that the
local AWS does not set counts as missing.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from moto.s3.models import s3_backends

from localcloud.aws import identity
from localcloud.aws.call import Call
from localcloud.aws.permissions.actions import get_action_prefix
from localcloud.aws.permissions.need import Need
from localcloud.aws.permissions.resource_tags import read_tags
from localcloud.aws.policy_evaluation import Values

_NAMED_WHEN_CREATED = ("key-pair", "placement-group")
"""EC2 resource types whose ARN contains a name, which the request that creates the resource already contains."""


def read_request_keys(call: Call) -> dict[str, Values]:
    """Return the condition keys for the caller and the connection.

    Plain HTTP on loopback replaces AWS's TLS endpoint, so it counts as secure.
    """
    secure = call.request.scheme == "https" or call.request.from_wsgi_server
    return {
        "aws:SecureTransport": str(secure).lower(),
        "aws:SourceIp": call.request.remote_addr or "127.0.0.1",
        "aws:RequestedRegion": call.region,
        **(identity.caller_condition_keys(call) if call.access_key else {}),
        **({"sts:ExternalId": str(external)} if (external := call.params.get("ExternalId")) else {}),
    }


# --- tags in the request -----------------------------------------------------------------------------------------------


def read_requested_tag_keys(call: Call, need: Need, resource: str | None) -> dict[str, Values]:
    """Return the condition keys for the tags with which a request creates or tags this resource.

    EC2 compares only the tags that `TagSpecifications` contains for the resource's type:
    https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/supported-iam-actions-tagging.html. Requests of other services
    that AWS makes on behalf of the caller do not contain the tags.
    """
    if need.tag_specifications is not None:
        tags = _read_specified_tags(need.tag_specifications, resource or "")
    elif need.action.partition(":")[0] == get_action_prefix(call.service):
        tags = dict(_read_tags(call.params))
    else:
        tags = {}
    removed = () if tags else _read_removed_keys(call)
    return {
        **{f"aws:RequestTag/{key}": value for key, value in tags.items()},
        **({"aws:TagKeys": tuple(tags) or removed} if tags or removed else {}),
    }


def _read_specified_tags(specifications: Sequence[Mapping[str, Any]], arn: str) -> dict[str, str]:
    kind, _, name = arn.split(":", 5)[-1].partition("/")
    if name != "*" and kind not in _NAMED_WHEN_CREATED:
        return {}
    return {key: value for item in specifications if item["ResourceType"] == kind for key, value in _read_tags(item)}


def _read_tags(params: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the tags in a request, which may be a list of keys and values, or a map."""
    for name in ("Tags", "tags", "TagList"):
        tags = params.get(name) or ()
        if isinstance(tags, dict):
            yield from ((str(key), str(value)) for key, value in tags.items())
            continue
        for tag in tags:
            key, value = (
                tag.get("Key", tag.get("TagKey", tag.get("key"))),
                tag.get("Value", tag.get("TagValue", tag.get("value"))),
            )
            yield str(key), str(value or "")


def _read_removed_keys(call: Call) -> tuple[str, ...]:
    """Return the tag keys that a request removes. Only requests to remove tags contain keys without values."""
    return tuple(str(key) for name in ("TagKeys", "tagKeys") for key in call.params.get(name) or ())


# --- the resource ------------------------------------------------------------------------------------------------------


def read_resource_keys(call: Call, action: str, resource: str | None) -> dict[str, Values]:
    """Return the condition keys for the account and the tags of an existing resource."""
    prefix = action.split(":")[0]
    if resource is None or resource == "*":
        return {}
    of_tags = {f"{name}:ResourceTag/{key}": value for key, value in read_tags(call, resource).items() for name in ("aws", prefix)}
    return {
        **of_tags,
        **({"aws:ResourceAccount": _find_bucket_owner(call, resource)} if prefix == "s3" else {}),
        **(_read_boundary_keys(call, action, resource) if prefix == "iam" else {}),
    }


def _find_bucket_owner(call: Call, arn: str) -> str:
    """Return the account of a bucket, which its ARN does not contain."""
    bucket = arn.rpartition(":")[2].partition("/")[0]
    return s3_backends.bucket_accounts.get(bucket, ("", call.account))[1]


_SETS_BOUNDARY = ("iam:CreateRole", "iam:PutRolePermissionsBoundary")
_HAS_BOUNDARY = (
    *("iam:AttachRolePolicy", "iam:DeleteRolePermissionsBoundary", "iam:DeleteRolePolicy", "iam:DetachRolePolicy"),
    "iam:PutRolePolicy",
)
_NAMES_POLICY = ("iam:AttachRolePolicy", "iam:DetachRolePolicy")


def _read_boundary_keys(call: Call, action: str, arn: str) -> dict[str, Values]:
    """Return the keys for the permissions boundary, in the request or of the role, and for the attached policy.

    https://docs.aws.amazon.com/service-authorization/latest/reference/list_awsidentityandaccessmanagementiam.html
    """
    boundary = call.params.get("PermissionsBoundary") if action in _SETS_BOUNDARY else None
    if action in _HAS_BOUNDARY:
        role = next((role for role in call.backend_of("iam").roles.values() if role.arn == arn), None)
        boundary = getattr(role, "permissions_boundary_arn", None)
    policy = call.params.get("PolicyArn") if action in _NAMES_POLICY else None
    keys = {"iam:PermissionsBoundary": boundary, "iam:PolicyARN": policy}
    return {name: str(value) for name, value in keys.items() if value}
