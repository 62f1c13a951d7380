"""Auto-naming of objects. A generated name is the logical name plus eight random hex digits; an annotation marks the
object as auto-named.

https://github.com/pulumi/pulumi-kubernetes/blob/master/provider/pkg/metadata/naming.go
"""

import hashlib
import secrets
from collections.abc import Mapping
from random import Random
from typing import Any

from localcloud.engine.codec import Unknown
from localcloud.engine.kubernetes import objects
from localcloud.engine.kubernetes.objects import Object

SUFFIX_LENGTH = 8
DIGITS = "0123456789abcdef"


class Unnamed(Exception):
    """The object has no name, and auto-naming is disabled or unsupported for it."""


def assign_name(obj: Object, previous: Mapping[str, Any], logical: str, *, seed: bytes, proposed: str, disabled: bool) -> Object:
    """Return the object with a name: the name set by the program, or else the previous name, or else a new name. Raises
    Unnamed."""
    if is_named(obj):
        return obj
    if objects.get_nested(obj, "metadata", "generateName"):
        raise Unnamed("the `.metadata.generateName` field is not supported in Server-Side Apply mode")
    if previous:
        if not objects.has_true_annotation(previous, objects.AUTONAMED):
            return obj
        name = objects.get_name(previous)
    elif disabled:
        raise Unnamed("autonaming is disabled, resource requires the .metadata.name field to be set")
    else:
        random = Random(hashlib.sha256(seed).digest()) if seed else secrets.SystemRandom()
        name = proposed or f"{logical}-" + "".join(random.choice(DIGITS) for _ in range(SUFFIX_LENGTH))
    if isinstance(obj.get("metadata"), Unknown):
        return obj
    return objects.copy_with_annotation(objects.copy_with_metadata(obj, name=name), objects.AUTONAMED, "true")


def is_named(obj: Mapping[str, Any]) -> bool:
    """Return whether the object has a name. The name may still be unknown."""
    return bool(objects.get_nested(obj, "metadata", "name"))


def is_autonamed(obj: Mapping[str, Any]) -> bool:
    return objects.has_true_annotation(obj, objects.AUTONAMED)
