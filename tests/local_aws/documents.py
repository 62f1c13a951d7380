"""Helpers that build policy documents for tests."""

import json
from typing import Any

ACCOUNT_ROOT = "arn:aws:iam::123456789012:root"


def policy(*statements: dict[str, Any], **elements: Any) -> str:
    return json.dumps({"Version": "2012-10-17", **elements, "Statement": list(statements)})


def allow(**elements: Any) -> dict[str, Any]:
    return {"Effect": "Allow", **elements}


def deny(**elements: Any) -> dict[str, Any]:
    return {"Effect": "Deny", **elements}


def trust(principal: Any, action: str = "sts:AssumeRole") -> str:
    return policy(allow(Principal=principal, Action=action))


EC2_TRUST = trust({"Service": "ec2.amazonaws.com"})
READ_OBJECTS = policy(allow(Action="s3:GetObject", Resource="arn:aws:s3:::some-bucket/*"))
