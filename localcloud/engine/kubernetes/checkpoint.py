"""Representation of objects in Pulumi's state: the live object plus its inputs, as in the official provider."""

import secrets as randomness
from collections.abc import Mapping
from typing import Any

from localcloud.engine.codec import Secrets, merge_secrets
from localcloud.engine.kubernetes import objects
from localcloud.engine.kubernetes.managed_fields import LAST_APPLIED
from localcloud.engine.kubernetes.objects import Object

INPUTS, API_VERSION, FIELD_MANAGER = "__inputs", "__initialApiVersion", "__fieldManager"
SUFFIX_BYTES = 4

Masks = dict[str, Secrets]
"""Secret parts of an object, keyed by top-level member."""


def choose_field_manager(state: Mapping[str, Any], inputs: Mapping[str, Any]) -> str:
    """Return the name of the resource's field manager: from the annotation, or else from the state, or else a new random name."""
    named = objects.get_annotation(inputs, objects.PATCH_FIELD_MANAGER) or state.get(FIELD_MANAGER)
    return str(named) if named else f"pulumi-kubernetes-{randomness.token_hex(SUFFIX_BYTES)}"


def build_state(live: Object, inputs: Object, input_secrets: Masks, manager: str) -> tuple[Object, Masks]:
    """Return the state for the engine, and its secret parts: secret inputs and the data of Secrets."""
    shown, shown_inputs = objects.to_pulumi(live), objects.to_pulumi(inputs)
    secret = find_secret_parts(live, input_secrets)
    state = {
        **shown,
        INPUTS: shown_inputs,
        API_VERSION: inputs.get("apiVersion") or live.get("apiVersion"),
        FIELD_MANAGER: manager,
    }
    return state, {**secret, INPUTS: find_secret_parts(inputs, input_secrets)}


def split_state(state: Mapping[str, Any]) -> tuple[Object, Object]:
    """Split a resource's state into its inputs and the live object."""
    live = {name: value for name, value in state.items() if name not in (INPUTS, API_VERSION, FIELD_MANAGER)}
    return objects.from_pulumi(state.get(INPUTS) or {}), objects.from_pulumi(live)


def find_secret_parts(obj: Mapping[str, Any], input_secrets: Masks) -> Masks:
    """Return the secret parts of an object, derived from the secret parts of its inputs."""
    secret_parts = {name: _drop_missing_members(obj[name], secret) for name, secret in input_secrets.items() if name in obj}
    if obj.get("kind") == "Secret":
        secret_parts = merge_secrets(secret_parts, {name: True for name in ("data", "stringData") if name in obj})
        if input_secrets.get("stringData") and "data" in obj:
            secret_parts["data"] = True
        if objects.get_annotation(obj, LAST_APPLIED):
            secret_parts = merge_secrets(secret_parts, {"metadata": {"annotations": {LAST_APPLIED: True}}})
    return secret_parts


def _drop_missing_members(value: Any, secret: Secrets) -> Secrets:
    """Limit the secret parts to existing members. If the value is no longer an object, all of it is secret."""
    if not isinstance(secret, dict):
        return secret
    if not isinstance(value, Mapping):
        return any(secret.values())
    return {name: _drop_missing_members(value[name], inner) for name, inner in secret.items() if name in value}
