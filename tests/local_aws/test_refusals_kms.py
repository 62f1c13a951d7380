"""Calls that KMS rejects."""

from typing import Any

import pytest

from testkit.aws_clients import Client
from tests.local_aws.documents import ACCOUNT_ROOT, allow_statement, make_policy
from tests.local_aws.refusals import Refusal

API = "https://docs.aws.amazon.com/kms/latest/APIReference/API_"
LOCKOUT = "https://docs.aws.amazon.com/kms/latest/developerguide/key-policy-default.html"


def reject_policy(what: str, text: str, message: str = "") -> Refusal:
    return Refusal(what, "create_key", {"Policy": text}, "MalformedPolicyDocumentException", LOCKOUT, message)


def reject_call(what: str, operation: str, code: str, key: str = "key", **params: Any) -> Refusal:
    """Return a rejected call for the test's key."""
    source = f"{API}{''.join(word.capitalize() for word in operation.split('_'))}.html"
    return Refusal(what, operation, lambda **keys: {"KeyId": keys[key], **params}, code, source)


def reject_alias(what: str, name: str, code: str, key: str = "key") -> Refusal:
    return Refusal(
        what, "create_alias", lambda **keys: {"AliasName": name, "TargetKeyId": keys[key]}, code, f"{API}CreateAlias.html"
    )


REFUSALS = [
    reject_policy("a policy that is not JSON", "{nope"),
    reject_policy("a statement without a principal", make_policy(allow_statement(Action="kms:*", Resource="*")), "Principal"),
    reject_policy(
        "a statement without a resource",
        make_policy(allow_statement(Principal={"AWS": ACCOUNT_ROOT}, Action="kms:*")),
        "Resource",
    ),
    reject_policy(
        "a nonexistent role",
        make_policy(allow_statement(Principal={"AWS": "arn:aws:iam::123456789012:role/nobody"}, Action="kms:*", Resource="*")),
        "Invalid principal",
    ),
    reject_policy(
        "a key policy that locks everyone out",
        make_policy(allow_statement(Principal={"AWS": ACCOUNT_ROOT}, Action="kms:Encrypt", Resource="*")),
        "update the key policy in the future",
    ),
    reject_policy(
        "a key policy that allows only another account",
        make_policy(allow_statement(Principal={"AWS": "arn:aws:iam::111122223333:root"}, Action="kms:*", Resource="*")),
        "update the key policy in the future",
    ),
    reject_call(
        "a policy that is not JSON", "put_key_policy", "MalformedPolicyDocumentException", PolicyName="default", Policy="{nope"
    ),
    reject_call("a rotation period of ten years", "enable_key_rotation", "ValidationException", RotationPeriodInDays=3650),
    reject_call("a key pending deletion", "enable_key_rotation", "KMSInvalidStateException", key="dying"),
    reject_call("an asymmetric key", "enable_key_rotation", "UnsupportedOperationException", key="asymmetric"),
    reject_call("a waiting period of 6 days", "schedule_key_deletion", "ValidationException", PendingWindowInDays=6),
    reject_call("a waiting period of 31 days", "schedule_key_deletion", "ValidationException", PendingWindowInDays=31),
    reject_call("a key pending deletion", "schedule_key_deletion", "KMSInvalidStateException", key="dying"),
    Refusal(
        "a missing key",
        "describe_key",
        {"KeyId": "00000000-0000-0000-0000-000000000000"},
        "NotFoundException",
        f"{API}DescribeKey.html",
    ),
    reject_alias("an alias without its prefix", "mine", "ValidationException"),
    reject_alias("a reserved alias", "alias/aws/mine", "NotAuthorizedException"),
    reject_alias("a name with a space", "alias/my key", "ValidationException"),
    reject_alias("a name in use", "alias/in-use", "AlreadyExistsException"),
    reject_alias("a key pending deletion", "alias/new", "KMSInvalidStateException", key="dying"),
    reject_alias("a missing key", "alias/new", "NotFoundException", key="missing"),
]


@pytest.mark.parametrize("refusal", REFUSALS, ids=str)
def test_kms_rejects_invalid_requests(aws: Client, refusal: Refusal) -> None:
    kms = aws("kms")
    key = kms.create_key()["KeyMetadata"]["KeyId"]
    dying = kms.create_key()["KeyMetadata"]["KeyId"]
    kms.create_alias(AliasName="alias/in-use", TargetKeyId=key)
    kms.schedule_key_deletion(KeyId=dying, PendingWindowInDays=7)
    asymmetric = kms.create_key(KeySpec="ECC_NIST_P256", KeyUsage="SIGN_VERIFY")["KeyMetadata"]["KeyId"]
    refusal.check(kms, key=key, dying=dying, asymmetric=asymmetric, missing="00000000-0000-0000-0000-000000000000")


def test_a_key_has_the_requested_rotation_period(aws: Client) -> None:
    kms = aws("kms")
    key = kms.create_key()["KeyMetadata"]["KeyId"]
    assert not kms.get_key_rotation_status(KeyId=key)["KeyRotationEnabled"]
    kms.enable_key_rotation(KeyId=key, RotationPeriodInDays=180)
    assert kms.get_key_rotation_status(KeyId=key)["RotationPeriodInDays"] == 180
    kms.disable_key_rotation(KeyId=key)
    kms.enable_key_rotation(KeyId=key)
    assert kms.get_key_rotation_status(KeyId=key)["RotationPeriodInDays"] == 365


def test_the_default_ebs_key_is_aws_managed(aws: Client) -> None:
    assert aws("kms").describe_key(KeyId="alias/aws/ebs")["KeyMetadata"]["KeyManager"] == "AWS"


def test_the_policy_lockout_check_can_be_bypassed(aws: Client) -> None:
    text = make_policy(allow_statement(Principal={"AWS": ACCOUNT_ROOT}, Action=["kms:Encrypt", "kms:GetKeyPolicy"], Resource="*"))
    key = aws("kms").create_key(Policy=text, BypassPolicyLockoutSafetyCheck=True)["KeyMetadata"]["KeyId"]
    assert aws("kms").get_key_policy(KeyId=key)["Policy"] == text
