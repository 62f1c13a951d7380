"""Secrets of one local cloud: the access key of its account's user, which is also the token of its control API."""

import json
import secrets
import string
from dataclasses import asdict, dataclass, field
from pathlib import Path

_LETTERS = string.ascii_uppercase + "234567"
"""Characters of an access key ID."""


@dataclass(frozen=True)
class Key:
    """Access key with administrator permissions for one local cloud. Every local cloud has its own random key."""

    access_key_id: str
    secret_access_key: str = field(repr=False)

    @classmethod
    def create(cls) -> "Key":
        return cls("AKIA" + "".join(secrets.choice(_LETTERS) for _ in range(16)), secrets.token_urlsafe(30))

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables with which SDKs, the AWS CLI and Pulumi sign their requests."""
        return {"AWS_ACCESS_KEY_ID": self.access_key_id, "AWS_SECRET_ACCESS_KEY": self.secret_access_key}

    @property
    def control_token(self) -> str:
        """Bearer token of the control API."""
        return self.secret_access_key

    def save(self, file: Path) -> None:
        """Write the key to a new file that only the current user can read."""
        file.touch(mode=0o600, exist_ok=False)
        file.write_text(json.dumps(asdict(self)))

    @classmethod
    def load(cls, file: Path) -> "Key":
        return cls(**json.loads(file.read_text()))
