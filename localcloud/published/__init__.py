"""Versions that AWS and upstream registries have published: dated tables with a source for each entry.

addons.yaml  versions of EKS's add-ons, by Kubernetes version
amis.yaml    public AMIs
images.yaml  tags of container images in public registries

The local cloud offers only the versions in these tables. The tables are separate from the pins in infra/versions.py and
amis/, so a wrong pin fails both in tests/pure/test_published.py and in the local cloud. A new entry needs a source
other than this repository's pins.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Proof:
    source: str
    date: str
    """Date of the source (day, month or year), or the day on which the source was read."""
    verified: bool = True
    """False if the entry is an assumption. `source` then gives the reason for it."""


def parse_proof(entry: Mapping[str, Any]) -> Proof:
    return Proof(str(entry["source"]), str(entry["date"]), bool(entry.get("verified", True)))


@cache
def load_table(name: str) -> dict[str, Any]:
    """Return the parsed content of `<name>.yaml`."""
    content: dict[str, Any] = yaml.safe_load((FOLDER / f"{name}.yaml").read_text(encoding="utf-8"))
    return content


def load_image_tags(repository: str) -> dict[str, Proof]:
    """Return the tags of an image in a public registry. `repository` is the image's name in localcloud.images' catalog."""
    return {str(tag): parse_proof(entry) for tag, entry in load_table("images").get(repository, {}).items()}
