"""Upstream manifests, which this repository does not contain: downloaded once, verified by hash, and cached.

A mirror, for air-gapped networks, is a directory or https URL with the same paths as raw.githubusercontent.com:
<owner>/<repository>/<version>/<file>.
"""

import hashlib
import os
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from infra.versions import Pinned

UPSTREAM: Final = "https://raw.githubusercontent.com"
MIRROR_VARIABLE: Final = "GPUMPI_MANIFEST_MIRROR"

PARALLEL: Final = 8
TIMEOUT_SECONDS: Final = 15.0
ATTEMPTS: Final = 2
"""Retry once, because the first connection may be slow and time out."""

Objects = Sequence[Mapping[str, Any]]
"""Kubernetes objects of one manifest file."""


class Unavailable(Exception):
    """A manifest is not available. The message is a clause that callers append to a sentence."""


@dataclass(frozen=True)
class Manifests:
    """Loaded manifests, keyed by path, and for each manifest that could not be loaded, the reason."""

    objects: Mapping[str, Objects]
    missing: Mapping[str, str]

    def get_objects(self, file: Pinned) -> Objects:
        return self.objects[file.path]


NONE: Final = Manifests({}, {})


def load_manifests(files: Iterable[Pinned], mirror: str | None) -> Manifests:
    """Read and verify the files: from the cache, else from the mirror if one is set, else from upstream."""
    source = mirror or os.environ.get(MIRROR_VARIABLE) or UPSTREAM

    def load_file(file: Pinned) -> tuple[str, Objects | Unavailable]:
        try:
            return file.path, _parse_objects(_read_verified(file, source))
        except Unavailable as error:
            return file.path, error

    with ThreadPoolExecutor(PARALLEL) as threads:
        loaded = dict(threads.map(load_file, files))
    return Manifests(
        {path: content for path, content in loaded.items() if not isinstance(content, Unavailable)},
        {path: str(content) for path, content in loaded.items() if isinstance(content, Unavailable)},
    )


def find_cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "gpumpi" / "manifests"


def _read_verified(file: Pinned, source: str) -> bytes:
    cached = find_cache_folder() / f"{file.sha256}.yaml"
    if cached.exists() and _compute_digest(content := cached.read_bytes()) == file.sha256:
        return content
    address = f"{source.rstrip('/')}/{file.path}"
    content = _download(address) if "://" in source else _read_file(Path(address).expanduser())
    if (digest := _compute_digest(content)) != file.sha256:
        raise Unavailable(f"{address} does not match its pinned hash: sha256 is {digest}, expected {file.sha256}")
    _write_to_cache(cached, content)
    return content


def _compute_digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _read_file(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise Unavailable(f"{path} cannot be read: {error.strerror}") from None


def _download(address: str) -> bytes:
    if not address.startswith("https://"):
        raise Unavailable(f"{address} is not an https URL")
    reason = ""
    for _ in range(ATTEMPTS):
        try:
            with urllib.request.urlopen(address, timeout=TIMEOUT_SECONDS) as answer:
                content: bytes = answer.read()
                return content
        except urllib.error.HTTPError as error:
            raise Unavailable(f"{address} cannot be fetched: {error.code} {error.reason}") from None
        except (OSError, ValueError) as error:
            reason = str(getattr(error, "reason", error))
    raise Unavailable(f"{address} cannot be fetched: {reason}")


def _write_to_cache(cached: Path, content: bytes) -> None:
    """Write the file to the cache atomically, because several processes may write it at once. Do nothing if the cache
    is not writable."""
    try:
        cached.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=cached.parent, delete=False) as part:
            part.write(content)
        Path(part.name).replace(cached)
    except OSError:
        return


_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The C loader parses a megabyte in 0.1 s, the Python loader in 10 s."""


def _parse_objects(content: bytes) -> Objects:
    return tuple(document for document in yaml.load_all(content, Loader=_LOADER) if document)
