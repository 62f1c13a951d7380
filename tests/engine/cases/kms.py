"""KMS."""

import json

from tests.engine.cases.case import Case, make_constant, property_names


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
            "description": make_constant("other"),
            "policy": make_constant(_build_policy("two")),
            "bypassPolicyLockoutSafetyCheck": make_constant(True),
            "deletionWindowInDays": make_constant(30),
            "rotationPeriodInDays": make_constant(365),
            "isEnabled": make_constant(False),
            "tags": make_constant({"Name": "other", "more": "1"}),
        },
        removals=property_names("tags"),
        replaces={
            "keyUsage": make_constant("SIGN_VERIFY"),
            "customerMasterKeySpec": make_constant("RSA_2048"),
            "multiRegion": make_constant(True),
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
        replaces={"name": make_constant("alias/other")},
        drift=lambda world, id: world.client("kms").update_alias(AliasName=id, TargetKeyId=world.second_key),
        drifted=property_names("targetKeyId"),
    ),
]
