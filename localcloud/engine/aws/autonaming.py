"""Auto-naming: the physical name of a resource is its logical name plus a random suffix.

The official provider uses the same scheme:
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
    """The name plus its random suffix exceeds the maximum length."""


@dataclass(frozen=True)
class Wish:
    """Naming options from the engine: the stack's `pulumi:autonaming` setting, and a seed for reproducible names."""

    seed: bytes = b""
    proposed: str = ""
    disabled: bool = False


def generate_name(rule: AutoName, logical: str, inputs: Mapping[str, Any], previous: str | None, wish: Wish) -> str | None:
    """Return the generated name, or None if the program sets a name or auto-naming is disabled.

    `previous` is the name that an earlier run generated, if any. It is reused.
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
