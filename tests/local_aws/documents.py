"""Helpers that build policy documents for tests."""

import json
from typing import Any

ACCOUNT_ROOT = "arn:aws:iam::123456789012:root"


def make_policy(*statements: dict[str, Any], **elements: Any) -> str:
    return json.dumps({"Version": "2012-10-17", **elements, "Statement": list(statements)})


def allow_statement(**elements: Any) -> dict[str, Any]:
    return {"Effect": "Allow", **elements}


def deny_statement(**elements: Any) -> dict[str, Any]:
    return {"Effect": "Deny", **elements}


def make_trust_policy(principal: Any, action: str = "sts:AssumeRole") -> str:
    return make_policy(allow_statement(Principal=principal, Action=action))


EC2_TRUST = make_trust_policy({"Service": "ec2.amazonaws.com"})
READ_OBJECTS = make_policy(allow_statement(Action="s3:GetObject", Resource="arn:aws:s3:::some-bucket/*"))
