"""KMS."""

import json

from tests.engine.cases.case import Case, constant, property_names


def _build_policy(sid: str) -> str:
    root = {"AWS": "arn:aws:iam::123456789012:root"}
    statement = {"Sid": sid, "Effect": "Allow", "Principal": root, "Action": "kms:*", "Resource": "*"}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


CASES = [
    Case(
        "aws:kms/key:Key",
        make_inputs=lambda world: {
            "description": "secrets of the cluster",
            "policy": _build_policy("one"),
            "bypassPolicyLockoutSafetyCheck": False,
            "deletionWindowInDays": 7,
            "enableKeyRotation": True,
            "rotationPeriodInDays": 180,
            "isEnabled": True,
            "keyUsage": "ENCRYPT_DECRYPT",
            "customerMasterKeySpec": "SYMMETRIC_DEFAULT",
            "multiRegion": False,
            "tags": {"Name": "secrets"},
        },
        needed=property_names(),
        updates={
            "description": constant("other"),
            "policy": constant(_build_policy("two")),
            "bypassPolicyLockoutSafetyCheck": constant(True),
            "deletionWindowInDays": constant(30),
            "rotationPeriodInDays": constant(365),
            "isEnabled": constant(False),
            "tags": constant({"Name": "other", "more": "1"}),
        },
        removals=property_names("tags"),
        replaces={
            "keyUsage": constant("SIGN_VERIFY"),
            "customerMasterKeySpec": constant("RSA_2048"),
            "multiRegion": constant(True),
        },
        drift=lambda world, id: world.client("kms").disable_key_rotation(KeyId=id),
        drifted=property_names("enableKeyRotation", "rotationPeriodInDays"),
    ),
    Case(
        "aws:kms/alias:Alias",
        make_inputs=lambda world: {"name": f"alias/{world.name('secrets')}", "targetKeyId": world.key},
        needed=property_names("name", "targetKeyId"),
        instead=(lambda world: {"namePrefix": f"alias/{world.name('secrets-')}", "targetKeyId": world.key},),
        updates={"targetKeyId": lambda world: world.second_key},
        replaces={"name": constant("alias/other")},
        drift=lambda world, id: world.client("kms").update_alias(AliasName=id, TargetKeyId=world.second_key),
        drifted=property_names("targetKeyId"),
    ),
]
