"""An object as Pulumi's state keeps it: the live object, and beside it the inputs that made it, as the official provider does."""

import secrets as randomness
from collections.abc import Mapping
from typing import Any

from localcloud.engine.codec import Secrets, merge
from localcloud.engine.kubernetes import objects
from localcloud.engine.kubernetes.managed_fields import LAST_APPLIED
from localcloud.engine.kubernetes.objects import Object

INPUTS, API_VERSION, FIELD_MANAGER = "__inputs", "__initialApiVersion", "__fieldManager"
SUFFIX_BYTES = 4

Masks = dict[str, Secrets]
"""Which parts of an object are secret."""


def field_manager(state: Mapping[str, Any], inputs: Mapping[str, Any]) -> str:
    """The name under which the resource's fields are applied: the annotation's, or a random one for life."""
    named = objects.annotation(inputs, objects.PATCH_FIELD_MANAGER) or state.get(FIELD_MANAGER)
    return str(named) if named else f"pulumi-kubernetes-{randomness.token_hex(SUFFIX_BYTES)}"


def state_of(live: Object, inputs: Object, told: Masks, manager: str) -> tuple[Object, Masks]:
    """What the engine records, and what of it is secret: what is secret in the inputs, and the data of Secrets."""
    shown, kept = objects.to_pulumi(live), objects.to_pulumi(inputs)
    secret = masks(live, told)
    state = {**shown, INPUTS: kept, API_VERSION: inputs.get("apiVersion") or live.get("apiVersion"), FIELD_MANAGER: manager}
    return state, {**secret, INPUTS: masks(inputs, told)}


def split(state: Mapping[str, Any]) -> tuple[Object, Object]:
    """The inputs and the live object in a state."""
    live = {name: value for name, value in state.items() if name not in (INPUTS, API_VERSION, FIELD_MANAGER)}
    return objects.from_pulumi(state.get(INPUTS) or {}), objects.from_pulumi(live)


def masks(obj: Mapping[str, Any], told: Masks) -> Masks:
    """What of an object is secret when this of its inputs is."""
    found = {name: _narrowed(obj[name], secret) for name, secret in told.items() if name in obj}
    if obj.get("kind") == "Secret":
        found = merge(found, {name: True for name in ("data", "stringData") if name in obj})
        if told.get("stringData") and "data" in obj:
            found["data"] = True
        if objects.annotation(obj, LAST_APPLIED):
            found = merge(found, {"metadata": {"annotations": {LAST_APPLIED: True}}})
    return found


def _narrowed(value: Any, secret: Secrets) -> Secrets:
    """As deep as the value goes: where it has another form than the input, all of it is secret."""
    if not isinstance(secret, dict):
        return secret
    if not isinstance(value, Mapping):
        return any(secret.values())
    return {name: _narrowed(value[name], inner) for name, inner in secret.items() if name in value}
