"""Ids that AWS gives."""

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


def check(where: str, kind: str, text: str) -> Iterator[Problem]:
    """Whether a text has the form of an id: then AWS can be asked for it."""
    if not re.fullmatch(rf"{kind}-([0-9a-f]{{8}}|[0-9a-f]{{17}})", text):
        yield Problem(where, f"{shown(text)} is not the id of {KINDS[kind]}; it looks like {kind}-0123456789abcdef0")
