"""KMS: rotation periods, key policies, AWS managed keys, and errors that moto lacks."""

import functools
import re
from datetime import timedelta
from typing import Any

from moto.core.utils import utcnow
from moto.kms.models import KmsBackend
from moto.kms.utils import RESERVED_ALIASES

from localcloud.aws import identity, policy_documents
from localcloud.aws.call import Call
from localcloud.aws.errors import AwsError
from localcloud.aws.iam import check_principals
from localcloud.aws.patching import operation
from localcloud.aws.policy_documents import InvalidPolicy
from localcloud.aws.policy_evaluation import Request, allows

_DEFAULT_ROTATION_DAYS = 365
_OF_AWS = {
    "alias/aws/ecr": "Default key that protects my ECR data when no other key is defined",
    "alias/aws/ebs": "Default key that protects my EBS volumes when no other key is defined",
    "alias/aws/fsx": "Default key that protects my FSx resources when no other key is defined",
    "alias/aws/elasticfilesystem": "Default key that protects my EFS filesystems when no other key is defined",
}


def extend_moto() -> None:
    """Mark keys whose alias starts with `alias/aws/` as AWS managed keys.

    https://docs.aws.amazon.com/kms/latest/developerguide/concepts.html#aws-managed-key
    """
    RESERVED_ALIASES.extend(alias for alias in _OF_AWS if alias not in RESERVED_ALIASES)
    original = KmsBackend._generate_default_keys

    @functools.wraps(original)
    def create_alias_key(self: Any, alias_name: str) -> str | None:
        key_id = original(self, alias_name)
        if key_id is not None:
            self.keys[key_id].key_manager = "AWS"
            self.keys[key_id].description = _OF_AWS.get(alias_name, "Default key of a service")
            self.keys[key_id].key_rotation_status = True
        return key_id

    KmsBackend._generate_default_keys = create_alias_key  # type: ignore[method-assign]
    make = KmsBackend.create_key

    @functools.wraps(make)
    def create_key_object(self: Any, policy: Any, key_usage: Any, *rest: Any, **named: Any) -> Any:
        return make(self, policy, key_usage or "ENCRYPT_DECRYPT", *rest, **named)

    KmsBackend.create_key = create_key_object  # type: ignore[method-assign]


@operation("kms", "CreateKey")
def _create_key(call: Call) -> dict[str, Any]:
    """https://docs.aws.amazon.com/kms/latest/APIReference/API_CreateKey.html"""
    if "Policy" in call.params:
        _check_policy(call)
    return call.moto()


@operation("kms", "PutKeyPolicy")
def _put_key_policy(call: Call) -> dict[str, Any]:
    """https://docs.aws.amazon.com/kms/latest/APIReference/API_PutKeyPolicy.html"""
    _find_usable_key(call)
    if call.params.get("PolicyName", "default") != "default":
        raise AwsError("NotFoundException", "No such policy exists")
    _check_policy(call)
    return call.moto()


@operation("kms", "GetKeyPolicy")
def _get_key_policy(call: Call) -> dict[str, Any]:
    """Return the key policy.

    The policy name is optional: https://docs.aws.amazon.com/kms/latest/APIReference/API_GetKeyPolicy.html
    """
    call.params.setdefault("PolicyName", "default")
    key = _find_key(call)
    if key is None or call.params["PolicyName"] != "default":
        raise AwsError("NotFoundException", f"Key '{call.params['KeyId']}' or its policy does not exist")
    return {"Policy": key.policy, "PolicyName": "default"}


def _check_policy(call: Call) -> None:
    """Check that the policy is valid, has only existing principals, and lets the caller change the policy later."""
    try:
        document = policy_documents.parse_policy(call.params["Policy"])
        for statement in policy_documents.list_statements(document):
            if not list(policy_documents.list_principals(statement)):
                raise InvalidPolicy("Missing required field Principal")
            if not policy_documents.list_resources(statement):
                raise InvalidPolicy("Missing required field Resource")
            check_principals(call, statement)
    except InvalidPolicy as error:
        raise AwsError("MalformedPolicyDocumentException", str(error)) from None
    who = Request("kms:PutKeyPolicy", principal={"AWS": identity.principal_arn(call)})
    if not call.params.get("BypassPolicyLockoutSafetyCheck") and not allows(who, document):
        raise AwsError(
            "MalformedPolicyDocumentException", "The new key policy will not allow you to update the key policy in the future."
        )


@operation("kms", "EnableKeyRotation")
def _enable_key_rotation(call: Call) -> dict[str, Any]:
    """https://docs.aws.amazon.com/kms/latest/APIReference/API_EnableKeyRotation.html"""
    key = _find_usable_key(call)
    days = call.params.get("RotationPeriodInDays", _DEFAULT_ROTATION_DAYS)
    if not 90 <= days <= 2560:
        raise AwsError("ValidationException", f"Value '{days}' at 'rotationPeriodInDays' must be between 90 and 2560")
    if key.key_spec != "SYMMETRIC_DEFAULT":
        raise AwsError("UnsupportedOperationException", f"{key.arn} key spec {key.key_spec} is not valid for this operation.")
    answer = call.moto()
    key.rotation_period_in_days = days
    key.next_rotation = utcnow() + timedelta(days=days)
    return answer


@operation("kms", "GetKeyRotationStatus")
def _get_key_rotation_status(call: Call) -> dict[str, Any]:
    answer = call.moto()
    key: Any = _find_key(call)
    answer["KeyId"] = key.arn
    if answer["KeyRotationEnabled"]:
        answer["RotationPeriodInDays"] = getattr(key, "rotation_period_in_days", _DEFAULT_ROTATION_DAYS)
        answer["NextRotationDate"] = getattr(key, "next_rotation", utcnow() + timedelta(days=_DEFAULT_ROTATION_DAYS))
    return answer


@operation("kms", "ScheduleKeyDeletion")
def _schedule_key_deletion(call: Call) -> dict[str, Any]:
    """https://docs.aws.amazon.com/kms/latest/APIReference/API_ScheduleKeyDeletion.html"""
    key = _find_usable_key(call)
    days = call.params.get("PendingWindowInDays", 30)
    if not 7 <= days <= 30:
        raise AwsError("ValidationException", f"Value '{days}' at 'pendingWindowInDays' must be between 7 and 30")
    if key.key_manager == "AWS":
        raise AwsError("AccessDeniedException", f"{key.arn} is an AWS managed key")
    answer = call.moto()
    return {**answer, "KeyId": key.arn, "KeyState": "PendingDeletion", "PendingWindowInDays": days}


@operation("kms", "CreateAlias")
def _create_alias(call: Call) -> dict[str, Any]:
    """https://docs.aws.amazon.com/kms/latest/APIReference/API_CreateAlias.html"""
    _check_alias(call)
    _find_usable_key(call, "TargetKeyId")
    return call.moto()


@operation("kms", "UpdateAlias")
def _update_alias(call: Call) -> dict[str, Any]:
    _check_alias(call)
    _find_usable_key(call, "TargetKeyId")
    return call.moto()


def _check_alias(call: Call) -> None:
    name = call.params["AliasName"]
    if name.startswith("alias/aws/"):
        raise AwsError("NotAuthorizedException", "Aliases that begin with alias/aws/ are reserved for AWS services.")
    if not re.fullmatch(r"alias/[a-zA-Z0-9/_-]{1,250}", name):
        raise AwsError(
            "ValidationException",
            f"Value '{name}' at 'aliasName' must satisfy regular expression pattern: ^alias/[a-zA-Z0-9/_-]+$",
        )


def _find_key(call: Call, parameter: str = "KeyId") -> Any | None:
    """Return the key specified in the call, or None if it does not exist (moto then returns AWS's error)."""
    try:
        return call.backend.keys.get(call.backend.any_id_to_key_id(call.params[parameter]))
    except (AttributeError, TypeError):
        return None


def _find_usable_key(call: Call, parameter: str = "KeyId") -> Any:
    key = _find_key(call, parameter)
    if key is None:
        raise AwsError("NotFoundException", f"Key '{call.params[parameter]}' does not exist")
    if key.key_state == "PendingDeletion":
        raise AwsError("KMSInvalidStateException", f"{key.arn} is pending deletion.")
    return key
