"""Condition keys of requests.

https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_condition-keys.html. A condition key that the
local AWS does not set counts as missing.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from moto.s3.models import s3_backends

from localcloud.aws import identity
from localcloud.aws.call import Call
from localcloud.aws.eks.state import Eks
from localcloud.aws.patching import get_state
from localcloud.aws.policy_evaluation import Values


def read_request_keys(call: Call) -> dict[str, Values]:
    """Return the condition keys for the caller, the connection and the tags in the request.

    Plain HTTP on loopback replaces AWS's TLS endpoint, so it counts as secure.
    """
    secure = call.request.scheme == "https" or call.request.from_wsgi_server
    tags = dict(_read_tags(call.params))
    return {
        "aws:SecureTransport": str(secure).lower(),
        "aws:SourceIp": call.request.remote_addr or "127.0.0.1",
        "aws:RequestedRegion": call.region,
        **(identity.caller_condition_keys(call) if call.access_key else {}),
        **({"sts:ExternalId": str(external)} if (external := call.params.get("ExternalId")) else {}),
        **{f"aws:RequestTag/{key}": value for key, value in tags.items()},
        **({"aws:TagKeys": tuple(tags)} if tags else {}),
    }


def _read_tags(params: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the tags in a request, which may be a list of keys and values, a map, or EC2's TagSpecifications."""
    for name in ("Tags", "tags", "TagList", "TagSpecifications"):
        tags = params.get(name) or ()
        if isinstance(tags, dict):
            yield from ((str(key), str(value)) for key, value in tags.items())
            continue
        for tag in tags:
            if "ResourceType" in tag and "Tags" in tag:
                yield from _read_tags({"Tags": tag["Tags"]})
            else:
                yield str(tag.get("Key", tag.get("TagKey"))), str(tag.get("Value", tag.get("TagValue", "")))


def read_resource_keys(call: Call, action: str, resource: str | None) -> dict[str, Values]:
    """Return the condition keys for the account and the tags of an existing resource."""
    prefix = action.split(":")[0]
    if resource is None or resource == "*":
        return {}
    tags = _TAGS[prefix](call, resource) if prefix in _TAGS else {}
    of_tags = {f"{name}:ResourceTag/{key}": value for key, value in tags.items() for name in ("aws", prefix)}
    return {**of_tags, **({"aws:ResourceAccount": _find_bucket_owner(call, resource)} if prefix == "s3" else {})}


def _find_bucket_owner(call: Call, arn: str) -> str:
    """Return the account of a bucket, which its ARN does not contain."""
    bucket = arn.rpartition(":")[2].partition("/")[0]
    return s3_backends.bucket_accounts.get(bucket, ("", call.account))[1]


def _read_ec2_tags(call: Call, arn: str) -> Mapping[str, str]:
    return dict(call.backend_of("ec2").tags.get(arn.rsplit("/", 1)[-1], {}))


def _read_group_tags(call: Call, arn: str) -> Mapping[str, str]:
    group = call.backend_of("autoscaling").autoscaling_groups.get(arn.rsplit("autoScalingGroupName/", 1)[-1])
    return {tag["Key"]: tag.get("Value") or "" for tag in group.tags} if group is not None else {}


def _read_file_system_tags(call: Call, arn: str) -> Mapping[str, str]:
    tags = call.backend_of("efs").tagging_service.get_tag_dict_for_resource(arn.rsplit("/", 1)[-1])
    return {str(key): str(value) for key, value in tags.items()}


def _read_fsx_tags(call: Call, arn: str) -> Mapping[str, str]:
    tags = call.backend_of("fsx").tagger.get_tag_dict_for_resource(arn)
    return {str(key): str(value) for key, value in tags.items()}


def _read_eks_tags(call: Call, arn: str) -> Mapping[str, str]:
    cluster = get_state(call.backend_of("eks"), Eks).clusters.get(arn.split("/")[1])
    if cluster is None:
        return {}
    records = [cluster.record, *(group.record for group in cluster.node_groups.values())]
    return next((record.get("tags") or {} for record in records if arn in (record.get("arn"), record.get("nodegroupArn"))), {})


def _read_role_tags(call: Call, arn: str) -> Mapping[str, str]:
    role = next((role for role in call.backend_of("iam").roles.values() if role.arn == arn), None)
    return identity.read_role_tags(role)


_TAGS = {
    "autoscaling": _read_group_tags,
    "ec2": _read_ec2_tags,
    "eks": _read_eks_tags,
    "elasticfilesystem": _read_file_system_tags,
    "fsx": _read_fsx_tags,
    "iam": _read_role_tags,
}
