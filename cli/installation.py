"""How this command line was installed (in a clone or from a wheel), and the command that runs it."""

import os
import shlex
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
"""Root of the clone, or the folder of the installed packages."""
_SCRIPT: Final = ROOT / "scripts" / "cluster"
_FROM_WHEEL: Final = not _SCRIPT.is_file() or Path(sys.argv[0]).name == "gpumpi"

CLONE: Final = ROOT if _SCRIPT.is_file() else None
"""Root of the clone; None when installed from a wheel."""
NAME: Final = "gpumpi" if _FROM_WHEEL else "cluster"
"""Program name in usage lines and error messages."""
STACKS: Final = CLONE / "stacks" if CLONE else Path("stacks")
"""Default folder of stack files: stacks/ in the clone or, without a clone, stacks/ in the current folder."""


def program_name() -> str:
    """Return the program name for hints, in a form that the user can paste into the current shell."""
    if _FROM_WHEEL:
        return NAME
    here = Path.cwd()
    inside = here == ROOT or ROOT in here.parents
    return shlex.quote(os.path.relpath(_SCRIPT, here) if inside else str(_SCRIPT))


def make_pasteable(text: str) -> str:
    """Replace the command name in a message from `infra`, which does not know how the user started the program."""
    return text.replace("scripts/cluster", program_name()) if "scripts/cluster" in text else text


def program_version() -> str:
    """Return the version: in a clone from pyproject.toml, otherwise from the package metadata."""
    from importlib import metadata

    if CLONE is None:
        return metadata.version("gpumpi")
    import tomllib

    with (CLONE / "pyproject.toml").open("rb") as file:
        return str(tomllib.load(file)["project"]["version"])
