"""Source text of the controller's program. It runs from a ConfigMap, so no image of ours has to be published."""

import hashlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parent / "in_pod"
PACKAGE: Final = "job_controller"
MOUNT: Final = "/opt/gpumpi"


@cache
def files() -> Mapping[str, str]:
    """Return file name -> source of each module."""
    return {path.name: path.read_text(encoding="utf-8") for path in sorted(FOLDER.glob("*.py"))}


@cache
def digest() -> str:
    """Return a checksum of the program, which is part of the ConfigMap's name."""
    whole = "".join(f"{name}\0{text}\0" for name, text in files().items())
    return hashlib.sha256(whole.encode()).hexdigest()[:10]
