"""Resource policies of buckets, KMS keys, file systems and repositories, and trust policies of roles."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from localcloud.aws.call import Call, backend_of
from localcloud.aws.policy_evaluation import Policy, Request, parse_document


@dataclass(frozen=True)
class ResourcePolicy:
    policy: Policy | None = None
    must_allow: bool = False
    """Whether this policy must allow a request even if an identity policy allows it."""


def find_resource_policy(call: Call, request: Request) -> ResourcePolicy:
    """Return the policy of the resource on which a request acts."""
    prefix, name = request.action.split(":")
    find = _FINDERS.get(prefix)
    if prefix == "sts" and request.resource is None:  # not a valid role ARN, so no trust policy allows the request
        return ResourcePolicy(must_allow=True)
    if find is None or request.resource is None or request.resource == "*" or name == "CreateBucket":
        return ResourcePolicy()
    return find(call, request.resource)


def _find_bucket_policy(call: Call, arn: str) -> ResourcePolicy:
    bucket = backend_of("s3", call.account, call.region).buckets.get(arn.split(":::", 1)[1].split("/", 1)[0])
    return ResourcePolicy(parse_document(_to_text(bucket.policy)) if bucket is not None and bucket.policy else None)


def _find_key_policy(call: Call, arn: str) -> ResourcePolicy:
    """A key policy must allow every use of its key:
    https://docs.aws.amazon.com/kms/latest/developerguide/key-policies.html. Grants are not checked.
    """
    kms_key = call.backend_of("kms").keys.get(arn.rsplit("/", 1)[-1]) if ":key/" in arn else None
    if kms_key is None or kms_key.key_manager == "AWS":  # the key policies of AWS managed keys are not emulated
        return ResourcePolicy()
    return ResourcePolicy(parse_document(kms_key.policy), must_allow=True)


def _find_file_system_policy(call: Call, arn: str) -> ResourcePolicy:
    file_system = call.backend_of("efs").file_systems_by_id.get(arn.rsplit("/", 1)[-1])
    policy = getattr(file_system, "file_system_policy", None)
    return ResourcePolicy(parse_document(policy) if policy else None)


def _find_repository_policy(call: Call, arn: str) -> ResourcePolicy:
    repository = call.backend_of("ecr").repositories.get(arn.split("repository/", 1)[-1])
    policy = getattr(repository, "policy", None)
    return ResourcePolicy(parse_document(policy) if policy else None)


def _find_trust_policy(call: Call, arn: str) -> ResourcePolicy:
    """A role's trust policy must allow every session: https://docs.aws.amazon.com/IAM/latest/UserGuide/id_roles.html"""
    roles = backend_of("iam", arn.split(":")[4], call.region).roles.values()
    role = next((role for role in roles if role.arn == arn), None)
    return ResourcePolicy(parse_document(role.assume_role_policy_document) if role else None, must_allow=True)


def _to_text(policy: Any) -> str:
    return policy.decode() if isinstance(policy, bytes) else str(policy)


_FINDERS: dict[str, Callable[[Call, str], ResourcePolicy]] = {
    "s3": _find_bucket_policy,
    "kms": _find_key_policy,
    "elasticfilesystem": _find_file_system_policy,
    "ecr": _find_repository_policy,
    "sts": _find_trust_policy,
}
