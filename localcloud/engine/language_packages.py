"""Installed packages of a Python interpreter and the Pulumi plugins they need, reported to the engine."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import NamedTuple


class Plugin(NamedTuple):
    """Pulumi provider required by a package, from its pulumi-plugin.json."""

    name: str
    version: str
    server: str


def find_interpreter(root: str, virtualenv: str) -> Path:
    """Return the interpreter of the virtual environment configured in Pulumi.yaml, or the current interpreter if there
    is none."""
    candidate = Path(root, virtualenv, "bin", "python") if virtualenv else Path(sys.executable)
    return candidate if candidate.exists() else Path(sys.executable)


def list_plugins(python: Path) -> list[Plugin]:
    """Return the plugins required by the installed packages.

    The official host runs pip to list the packages. This host reads the packages' metadata files, with the same result.
    """
    required = []
    for folder in _package_folders(python):
        for file in sorted(folder.glob("*/pulumi-plugin.json")):
            entry = json.loads(file.read_text())
            if entry.get("resource"):
                required.append(Plugin(entry["name"], str(entry.get("version", "")).removeprefix("v"), entry.get("server", "")))
    return required


def list_packages(python: Path, *, transitive: bool) -> list[tuple[str, str]]:
    """Return package names and versions. Without `transitive`, omit packages that another package requires."""
    installed = list(_find_distributions(python))
    needed = {
        _normalize_name(re.split(r"[^\w.-]", text, maxsplit=1)[0]) for package in installed for text in package.requires or ()
    }
    listed = [package for package in installed if transitive or _normalize_name(package.name) not in needed]
    return sorted((package.name, package.version) for package in listed)


def read_python_version(python: Path) -> str:
    """Return the Python version of an interpreter."""
    command = [str(python), "-c", "import platform; print(platform.python_version())"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def _find_distributions(python: Path) -> Iterator[Distribution]:
    return iter(distributions(path=[str(folder) for folder in _package_folders(python)]))


def _package_folders(python: Path) -> list[Path]:
    if python == Path(sys.executable):
        return [Path(entry) for entry in sys.path if entry.endswith("-packages") and Path(entry).is_dir()]
    return sorted(python.parent.parent.glob("lib/python*/site-packages"))


def _normalize_name(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
