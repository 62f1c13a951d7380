"""A node's notice: address, public keys, slots. Parsing is strict, because the writer may be compromised."""

import json
import re
from dataclasses import asdict, dataclass, fields
from typing import Any

VERSION = 1
MAX_BYTES = 16_384
_KEY = re.compile(r"(ssh-ed25519|ecdsa-sha2-nistp256|ssh-rsa) [A-Za-z0-9+/]{40,1500}={0,3}")
_HOSTNAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_ADDRESS = re.compile(r"\d{1,3}(\.\d{1,3}){3}")
MAX_SLOTS = 1024


class BadNotice(Exception):
    """The text is not a notice that this service wrote."""


@dataclass(frozen=True)
class Notice:
    """What a node publishes about itself."""

    hostname: str
    address: str
    slots: int
    idle_slots: int
    host_keys: tuple[str, ...]
    """Public keys, each `type base64`."""
    user_key: str

    def to_json(self) -> str:
        return json.dumps({"version": VERSION, **asdict(self)}, sort_keys=True)

    @classmethod
    def parse(cls, text: bytes) -> "Notice":
        """Parse a notice. Raises BadNotice if a value would inject a line or an option into SSH's files."""
        if len(text) > MAX_BYTES:
            raise BadNotice(f"{len(text)} bytes are too many (limit {MAX_BYTES})")
        try:
            content = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise BadNotice(str(error)) from None
        if not isinstance(content, dict) or content.pop("version", None) != VERSION:
            raise BadNotice(f"not a notice of version {VERSION}")
        if set(content) != {field.name for field in fields(cls)}:
            raise BadNotice("unexpected or missing fields")
        _require_valid(_is_full_match(_HOSTNAME, content["hostname"]), "hostname")
        _require_valid(_is_full_match(_ADDRESS, content["address"]), "address")
        for name in ("slots", "idle_slots"):
            value = content[name]
            _require_valid(type(value) is int and 0 <= value <= MAX_SLOTS, name)
        keys = content["host_keys"]
        _require_valid(
            isinstance(keys, list) and 0 < len(keys) <= 4 and all(_is_full_match(_KEY, key) for key in keys), "host_keys"
        )
        _require_valid(_is_full_match(_KEY, content["user_key"]), "user_key")
        return cls(**{**content, "host_keys": tuple(keys)})


def _is_full_match(pattern: "re.Pattern[str]", value: Any) -> bool:
    return isinstance(value, str) and pattern.fullmatch(value) is not None


def _require_valid(valid: bool, name: str) -> None:
    if not valid:
        raise BadNotice(f"{name} is not valid")
