"""Versions that AWS and upstream registries have published: dated tables with a source for each entry.

addons.yaml     versions of EKS's add-ons, by Kubernetes version
amis.yaml       public AMIs
images.yaml     tags of container images in public registries
manifests.yaml  Git tags of the repositories with upstream manifests

The local cloud offers only what these tables list. They are separate from the pins in infra/versions.py and amis/, so
that a wrong pin fails, in tests/pure/test_published.py and in the local cloud. New entries need a source that is not a
pin of this repository.
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
    """Day, month or year of the source, or day on which it was read."""
    verified: bool = True
    """False if the entry is only assumed; `source` has the reason."""


def proof(entry: Mapping[str, Any]) -> Proof:
    return Proof(str(entry["source"]), str(entry["date"]), bool(entry.get("verified", True)))


@cache
def table(name: str) -> dict[str, Any]:
    """Return a table unchanged from its file."""
    found: dict[str, Any] = yaml.safe_load((FOLDER / f"{name}.yaml").read_text(encoding="utf-8"))
    return found


def image_tags(repository: str) -> dict[str, Proof]:
    """Return the tags of an image in a public registry. The repository is named as in the catalog of localcloud.images."""
    return {str(tag): proof(entry) for tag, entry in table("images").get(repository, {}).items()}


def manifest_tags(repository: str) -> dict[str, Proof]:
    """Return the known Git tags of a repository on GitHub."""
    return {str(tag): proof(entry) for tag, entry in table("manifests").get(repository, {}).items()}


def addon_seen(addon: str, version: str) -> dict[str, str]:
    """Return Kubernetes version -> source and date, for the Kubernetes versions for which an add-on version was seen."""
    entries = table("addons").get(addon, {}).get("versions", ())
    return next((dict(entry.get("seen", {})) for entry in entries if entry["version"] == version), {})
