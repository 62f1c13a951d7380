"""A platform with Kueue 0.15, the version before the pinned one."""

import hashlib
import shutil
from pathlib import Path
from typing import Final

from infra.versions import KUEUE, KUEUE_CRDS, KUEUE_ROLE, KUEUE_WEBHOOKS
from localcloud import mirror
from localcloud.images.build import ensure_image
from localcloud.images.catalogue import KUEUE_0_15
from localcloud.tools.catalogue import KUEUE_BEFORE
from testkit.former_program import copy_program

FORMER: Final = f"v{KUEUE_BEFORE.version}"
FILES: Final = (*KUEUE_CRDS, KUEUE_ROLE, KUEUE_WEBHOOKS)


def fill_mirror(folder: Path) -> Path:
    """Create a mirror with the manifests of this program and of Kueue 0.15."""
    shutil.copytree(mirror.ensure_mirror(print), folder)
    go = shutil.which("go")
    assert go, "building Kueue needed it"
    source = mirror.download_module(go, f"{mirror.MODULES[KUEUE_ROLE.repository]}@{FORMER}")
    for file in FILES:
        target = folder / file.repository / FORMER / file.file
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / file.file, target)
    return folder


def build_former_program(folder: Path, manifests: Path) -> Path:
    """Copy the Pulumi program, set the version and hashes of Kueue 0.15 in the copy, and build Kueue 0.15's image."""
    ensure_image(KUEUE_0_15, print)
    pins = {f'KUEUE: Final = "{KUEUE}"': f'KUEUE: Final = "{FORMER}"'}
    for file in FILES:
        former = hashlib.sha256((manifests / file.repository / FORMER / file.file).read_bytes()).hexdigest()
        pins |= {file.sha256: former} if former != file.sha256 else {}
    return copy_program(folder, pins)
