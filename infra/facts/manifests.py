"""Upstream's manifests: fetched once, judged by their content, kept in the user's cache. None is part of this repository.

A mirror, for closed networks, is a folder or an https address in which the files lie as on raw.githubusercontent.com:
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
"""One more than one: the first connection of a day may be slow."""

Objects = Sequence[Mapping[str, Any]]
"""The objects of one file."""


class Unavailable(Exception):
    """A manifest cannot be had; the message says why, in words that end a sentence."""


@dataclass(frozen=True)
class Manifests:
    """Files by their path, and for those that could not be had why."""

    objects: Mapping[str, Objects]
    missing: Mapping[str, str]

    def of(self, file: Pinned) -> Objects:
        return self.objects[file.path]


NONE: Final = Manifests({}, {})


def load(files: Iterable[Pinned], mirror: str | None) -> Manifests:
    """Read and check the files: from the cache, from the mirror if there is one, else from upstream."""
    place = mirror or os.environ.get(MIRROR_VARIABLE) or UPSTREAM
    objects: dict[str, Objects] = {}
    missing: dict[str, str] = {}

    def one(file: Pinned) -> tuple[str, Objects | Unavailable]:
        try:
            return file.path, _parsed(_content(file, place))
        except Unavailable as error:
            return file.path, error

    with ThreadPoolExecutor(PARALLEL) as threads:
        for path, found in threads.map(one, files):
            if isinstance(found, Unavailable):
                missing[path] = str(found)
            else:
                objects[path] = found
    return Manifests(objects, missing)


def cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "gpumpi" / "manifests"


def _content(file: Pinned, place: str) -> bytes:
    cached = cache_folder() / f"{file.sha256}.yaml"
    if cached.exists() and _digest(content := cached.read_bytes()) == file.sha256:
        return content
    address = f"{place.rstrip('/')}/{file.path}"
    content = _fetched(address) if "://" in place else _read(Path(address).expanduser())
    if (found := _digest(content)) != file.sha256:
        raise Unavailable(f"{address} is not the file that was tested: its sha256 is {found}, not {file.sha256}")
    _keep(cached, content)
    return content


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise Unavailable(f"{path} cannot be read: {error.strerror}") from None


def _fetched(address: str) -> bytes:
    if not address.startswith("https://"):
        raise Unavailable(f"{address} is not an https address")
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


def _keep(cached: Path, content: bytes) -> None:
    """Whole or not at all, also when several runs want it at once; a cache that cannot be written is no reason to stop."""
    try:
        cached.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=cached.parent, delete=False) as part:
            part.write(content)
        Path(part.name).replace(cached)
    except OSError:
        return


_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The one in C reads a megabyte in a tenth of a second, the other in ten."""


def _parsed(content: bytes) -> Objects:
    return tuple(document for document in yaml.load_all(content, Loader=_LOADER) if document)
