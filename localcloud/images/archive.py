"""Read and write images in the OCI image layout, a folder of blobs named after their digests:
https://github.com/opencontainers/image-spec/blob/v1.1.0/image-layout.md"""

import hashlib
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar"
CREATED = "2026-01-01T00:00:00Z"


@dataclass(frozen=True)
class Blob:
    """A content-addressed file."""

    digest: str
    """`sha256:...`"""
    size: int

    @classmethod
    def from_file(cls, path: Path) -> "Blob":
        with path.open("rb") as file:
            return cls(f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}", path.stat().st_size)

    @classmethod
    def from_bytes(cls, content: bytes) -> "Blob":
        return cls(f"sha256:{hashlib.sha256(content).hexdigest()}", len(content))

    def build_descriptor(self, media_type: str) -> dict[str, Any]:
        return {"mediaType": media_type, "digest": self.digest, "size": self.size}


def write_layout(folder: Path, layers: Sequence[Path], settings: Mapping[str, Any], architecture: str) -> None:
    """Write an image with these layers (bottom first) and container settings."""
    blobs = folder / "blobs" / "sha256"
    blobs.mkdir(parents=True)
    contents = [Blob.from_file(layer) for layer in layers]
    for layer, content in zip(layers, contents, strict=True):
        _link_or_copy(layer, blobs / content.digest.removeprefix("sha256:"))
    config = {
        "architecture": architecture,
        "os": "linux",
        "created": CREATED,
        "config": dict(settings),
        "rootfs": {"type": "layers", "diff_ids": [content.digest for content in contents]},
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": _write_document(blobs, config).build_descriptor(CONFIG),
        "layers": [content.build_descriptor(LAYER) for content in contents],
    }
    index = {"schemaVersion": 2, "manifests": [_write_document(blobs, manifest).build_descriptor(MANIFEST)]}
    (folder / "index.json").write_text(_to_json(index))
    (folder / "oci-layout").write_text(_to_json({"imageLayoutVersion": "1.0.0"}))


def read_manifest_digest(layout: Path) -> str:
    index: dict[str, Any] = json.loads((layout / "index.json").read_text())
    return str(index["manifests"][0]["digest"])


def get_blob_path(layout: Path, digest: str) -> Path:
    """Return the path of a blob in the layout. The blob need not exist."""
    return layout / "blobs" / "sha256" / digest.removeprefix("sha256:")


def list_layer_paths(layout: Path) -> list[Path]:
    """Return the paths of an image's layers, bottom first."""
    manifest: dict[str, Any] = json.loads(get_blob_path(layout, read_manifest_digest(layout)).read_text())
    return [get_blob_path(layout, layer["digest"]) for layer in manifest["layers"]]


def _write_document(blobs: Path, document: Mapping[str, Any]) -> Blob:
    content = _to_json(document).encode()
    blob = Blob.from_bytes(content)
    (blobs / blob.digest.removeprefix("sha256:")).write_bytes(content)
    return blob


def _to_json(document: Mapping[str, Any]) -> str:
    return json.dumps(document, sort_keys=True, separators=(",", ":"))


def _link_or_copy(source: Path, target: Path) -> None:
    """Hard-link a layer into the image, or copy it if linking fails."""
    if target.exists():
        return
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)
