"""KMS."""

import json

from tests.engine.cases.case import Case, names, value


def _policy(sid: str) -> str:
    root = {"AWS": "arn:aws:iam::123456789012:root"}
    statement = {"Sid": sid, "Effect": "Allow", "Principal": root, "Action": "kms:*", "Resource": "*"}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


CASES = [
    Case(
        "aws:kms/key:Key",
        make_inputs=lambda world: {
            "description": "secrets of the cluster",
            "policy": _policy("one"),
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
        needed=names(),
        updates={
            "description": value("other"),
            "policy": value(_policy("two")),
            "bypassPolicyLockoutSafetyCheck": value(True),
            "deletionWindowInDays": value(30),
            "rotationPeriodInDays": value(365),
            "isEnabled": value(False),
            "tags": value({"Name": "other", "more": "1"}),
        },
        removals=names("tags"),
        replaces={"keyUsage": value("SIGN_VERIFY"), "customerMasterKeySpec": value("RSA_2048"), "multiRegion": value(True)},
        drift=lambda world, id: world.client("kms").disable_key_rotation(KeyId=id),
        drifted=names("enableKeyRotation", "rotationPeriodInDays"),
    ),
    Case(
        "aws:kms/alias:Alias",
        make_inputs=lambda world: {"name": f"alias/{world.name('secrets')}", "targetKeyId": world.key},
        needed=names("name", "targetKeyId"),
        instead=(lambda world: {"namePrefix": f"alias/{world.name('secrets-')}", "targetKeyId": world.key},),
        updates={"targetKeyId": lambda world: world.second_key},
        replaces={"name": value("alias/other")},
        drift=lambda world, id: world.client("kms").update_alias(AliasName=id, TargetKeyId=world.second_key),
        drifted=names("targetKeyId"),
    ),
]
