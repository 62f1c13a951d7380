"""Encoding and decoding of Pulumi's wire format for properties: plain values, unknowns and secrets.

https://github.com/pulumi/pulumi/blob/master/developer-docs/providers/implementers-guide.md
https://github.com/pulumi/pulumi/blob/master/proto/pulumi/provider.proto
"""

from collections.abc import Mapping
from typing import Any, Final

from google.protobuf.struct_pb2 import NULL_VALUE, ListValue, Struct, Value

SIGNATURE = "4dabf18193072939515e22adb298388d"
SECRET = "1b47061264138c4ac30d75fd1eb44270"
OUTPUT_VALUE = "d0e6a833031e9bbcd3f4e8bde6ca49a4"
RESOURCE_REFERENCE = "5cf8f73096256a8f31e491e813e4eb8e"
UNKNOWN_TEXTS = frozenset(
    {
        "04da6b54-80e4-46f7-96ec-b56ff0331ba9",
        "1c4a061d-8072-4f0a-a4cb-0ff528b18fe7",
        "3eeb2bf0-c639-47a8-9e75-3b44932eb421",
        "6a19a0b0-7e62-4c92-b797-7f8e31da9cc2",
        "030794c1-ac77-496b-92df-f27374a8bd58",
        "e48ece36-62e2-4504-bad9-02848725956a",
        "dd056dcd-154b-4c76-9bd3-c8f88648b5ff",
    }
)
UNKNOWN_TEXT = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"


class Unknown:
    """Type of `UNKNOWN`, the placeholder for values that are not known during a preview."""

    def __repr__(self) -> str:
        return "UNKNOWN"

    def __deepcopy__(self, memo: object) -> "Unknown":
        return self


UNKNOWN: Final = Unknown()

Secrets = bool | dict[str, "Secrets"]
"""Secret parts of a value: the whole value (True), nothing (False), or individual members of an object.

As in the engine, a list that contains a secret is entirely secret, because AWS may return its elements in another
order.
"""


class Unsupported(Exception):
    """The type of the value, such as an asset, is not supported by any local resource."""


def decode(properties: Struct) -> tuple[dict[str, Any], dict[str, Secrets]]:
    """Decode properties to plain values (`UNKNOWN` for unknowns) and their secret parts. Nulls are omitted."""
    values: dict[str, Any] = {}
    secrets: dict[str, Secrets] = {}
    for name, value in properties.fields.items():
        plain, secret = _decode_value(value)
        if plain is not None:
            values[name] = plain
            secrets |= {name: secret} if secret else {}
    return values, secrets


def _decode_value(value: Value) -> tuple[Any, Secrets]:
    kind = value.WhichOneof("kind")
    if kind == "string_value":
        return (UNKNOWN if value.string_value in UNKNOWN_TEXTS else value.string_value), False
    if kind == "number_value":
        number = value.number_value
        return (int(number) if number.is_integer() else number), False
    if kind == "bool_value":
        return value.bool_value, False
    if kind == "list_value":
        decoded = [_decode_value(element) for element in value.list_value.values]
        return [plain for plain, _ in decoded], any(secret for _, secret in decoded)
    if kind == "struct_value":
        return _decode_object(value.struct_value)
    return None, False


def _decode_object(value: Struct) -> tuple[Any, Secrets]:
    signature = value.fields[SIGNATURE].string_value if SIGNATURE in value.fields else None
    if signature is None:
        return decode(value)
    if signature == SECRET:
        return _decode_value(value.fields["value"])[0], True
    if signature == OUTPUT_VALUE:
        plain, secret = _decode_value(value.fields["value"]) if "value" in value.fields else (UNKNOWN, False)
        return plain, True if value.fields["secret"].bool_value else secret
    if signature == RESOURCE_REFERENCE:
        return _decode_value(value.fields["id"])
    raise Unsupported("assets and archives are not supported by the local provider")


def encode(values: Mapping[str, Any], secrets: Mapping[str, Secrets] | None = None) -> Struct:
    """Encode plain values in the wire format, and mark the values in `secrets` as secret."""
    struct = Struct()
    for name, value in values.items():
        _encode_value(value, (secrets or {}).get(name, False), struct.fields[name])
    return struct


def _encode_value(value: Any, secret: Secrets, into: Value) -> None:
    if secret is True:
        fields = into.struct_value.fields
        fields[SIGNATURE].string_value = SECRET
        _encode_value(value, False, fields["value"])
    elif value is None:
        into.null_value = NULL_VALUE
    elif isinstance(value, Unknown):
        into.string_value = UNKNOWN_TEXT
    elif isinstance(value, bool):
        into.bool_value = value
    elif isinstance(value, int | float):
        into.number_value = value
    elif isinstance(value, str):
        into.string_value = value
    elif isinstance(value, Mapping):
        inner = secret if isinstance(secret, dict) else {}
        into.struct_value.CopyFrom(encode(value, inner))
    elif isinstance(value, list | tuple | set | frozenset):
        into.list_value.CopyFrom(ListValue())
        for element in sorted(value) if isinstance(value, set | frozenset) else value:
            _encode_value(element, False, into.list_value.values.add())
    else:
        # boto3 parses timestamps. Terraform, and therefore the official provider, keeps timestamps as strings.
        into.string_value = value.isoformat() if hasattr(value, "isoformat") else str(value)


def merge_secrets(first: Mapping[str, Secrets], other: Mapping[str, Secrets]) -> dict[str, Secrets]:
    """Combine two sets of secrets. A value is secret if either set marks it as secret."""
    merged: dict[str, Secrets] = dict(first)
    for name, secret in other.items():
        merged_secret = merged.get(name, False)
        if isinstance(merged_secret, dict) and isinstance(secret, dict):
            merged[name] = merge_secrets(merged_secret, secret)
        else:
            merged[name] = True if merged_secret is True or secret is True else merged_secret or secret
    return merged


def has_unknowns(value: Any) -> bool:
    """Return whether the value is unknown or contains an unknown value."""
    if isinstance(value, Mapping):
        return any(has_unknowns(member) for member in value.values())
    if isinstance(value, list | tuple):
        return any(has_unknowns(element) for element in value)
    return isinstance(value, Unknown)
