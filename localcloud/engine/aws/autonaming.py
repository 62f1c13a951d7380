"""Physical names for resources that the program does not name: the logical name plus a random suffix.

This follows the official provider:
https://github.com/pulumi/pulumi-terraform-bridge/blob/main/pkg/tfbridge/names.go
"""

import hashlib
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from localcloud.engine.aws.resource import AutoName

SUFFIX_LENGTH = 7
DIGITS = "0123456789abcdef"


class NameTooLong(Exception):
    """The name leaves no room for the suffix."""


@dataclass(frozen=True)
class Wish:
    """The engine's naming request: the stack's `pulumi:autonaming`, and a seed if names must be reproducible."""

    seed: bytes = b""
    proposed: str = ""
    disabled: bool = False


def name_for(rule: AutoName, logical: str, inputs: Mapping[str, Any], previous: str | None, wish: Wish) -> str | None:
    """Return the name to fill in, or None if the program names the resource itself or automatic naming is disabled.

    `previous`: the name filled in by an earlier run, which is kept.
    """
    if rule.property in inputs or any(name in inputs for name in rule.unless):
        return None
    if previous:
        return previous
    if wish.disabled:
        return None
    if wish.proposed:
        return wish.proposed
    stem = rule.prefix + (logical.lower() if rule.lower else logical) + rule.separator
    if len(stem) + SUFFIX_LENGTH > rule.max_length:
        raise NameTooLong(f"name '{stem}' plus {SUFFIX_LENGTH} random chars is longer than maximum length {rule.max_length}")
    random = Random(hashlib.sha256(wish.seed).digest()) if wish.seed else secrets.SystemRandom()
    return stem + "".join(random.choice(DIGITS) for _ in range(SUFFIX_LENGTH))
