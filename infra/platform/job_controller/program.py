"""Source text of the controller's program. The program runs from a ConfigMap, so no image has to be published."""

import hashlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parent / "in_pod"
INFRA: Final = Path(__file__).parents[2]
SHARED: Final = (INFRA / "naming.py", *sorted((INFRA / "health").glob("*.py")))
"""Modules that the rest of the program and the command line use, too. They need only the standard library."""
PACKAGE: Final = "job_controller"
MOUNT: Final = "/opt/gpumpi"


@cache
def read_module_sources() -> Mapping[str, str]:
    """Return the source of each module, keyed by the module's key in the ConfigMap."""
    return {key: path.read_text(encoding="utf-8") for key, path in _find_modules().items()}


@cache
def list_volume_items() -> list[dict[str, str]]:
    """Return the key of each module and its path in the pod, relative to MOUNT. Paths are necessary because keys of a
    ConfigMap cannot contain slashes."""
    return [
        {"key": key, "path": str(path.relative_to(INFRA.parent)) if path in SHARED else f"{PACKAGE}/{path.name}"}
        for key, path in _find_modules().items()
    ]


def _find_modules() -> Mapping[str, Path]:
    own = {path.name: path for path in sorted(FOLDER.glob("*.*")) if path.suffix in (".py", ".sh")}
    return {**own, **{".".join(path.relative_to(INFRA.parent).parts): path for path in SHARED}}


@cache
def compute_digest() -> str:
    """Return a checksum of the program, which is part of the ConfigMap's name."""
    whole = "".join(f"{name}\0{text}\0" for name, text in read_module_sources().items())
    return hashlib.sha256(whole.encode()).hexdigest()[:10]
