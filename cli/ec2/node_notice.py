"""The notice that a node publishes about itself in the key bucket, parsed as strictly as the join service of other nodes does
(amis/join/gpumpi_join/notice.py): the writer may be compromised."""

from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

MAX_BYTES: Final = 16_384
_Key = Annotated[str, StringConstraints(pattern=r"^(ssh-ed25519|ecdsa-sha2-nistp256|ssh-rsa) [A-Za-z0-9+/]{40,1500}={0,3}$")]
_Slots = Annotated[int, Field(ge=0, le=1024)]


class BadNotice(Exception):
    """The text is not a notice of the join service. The message says why, without content of the text."""


class NodeNotice(BaseModel):
    """Address, slots and public keys of a node."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    version: Literal[1]
    hostname: Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$")]
    address: Annotated[str, StringConstraints(pattern=r"^[0-9]{1,3}(\.[0-9]{1,3}){3}$")]
    slots: _Slots
    idle_slots: _Slots
    host_keys: Annotated[list[_Key], Field(min_length=1, max_length=4)]
    user_key: _Key


def parse_notice(text: bytes) -> NodeNotice:
    """Parse a notice. Raises BadNotice."""
    if len(text) > MAX_BYTES:
        raise BadNotice(f"it has more than {MAX_BYTES:,} bytes")
    try:
        return NodeNotice.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        path = ".".join(str(part) for part in first["loc"] if first["type"] != "extra_forbidden")
        raise BadNotice(f"{path or 'content'}: {first['msg']}") from None
