"""Kubernetes objects of a job, with their owners."""

from dataclasses import dataclass
from typing import Literal

from infra.jobs.pods import Manifest

Owner = Literal["main", "cleanup controller"]


@dataclass(frozen=True)
class Piece:
    """One Kubernetes object of a job."""

    manifest: Manifest
    owner: Owner | None = "main"
    """Object that owns this one and is deleted with it; None for the main object of the job."""

    @property
    def key(self) -> str:
        return f"{self.manifest['kind']}/{self.manifest['metadata']['name']}"
