"""Rule for AWS resource IDs in the settings."""

import re
from collections.abc import Iterator

from infra.config.messages import shown
from infra.config.problems import Problem

KINDS = {
    "vpc": "a VPC",
    "subnet": "a subnet",
    "fs": "an EFS file system",
    "ami": "an AMI",
    "cr": "a capacity reservation",
}


def check(where: str, kind: str, text: str, what: str | None = None) -> Iterator[Problem]:
    """Check the format of an ID, so that AWS can be queried for it."""
    if not re.fullmatch(rf"{kind}-([0-9a-f]{{8}}|[0-9a-f]{{17}})", text):
        yield Problem(where, f"{shown(text)} is not the ID of {what or KINDS[kind]}. Use one such as {kind}-0123456789abcdef0.")
