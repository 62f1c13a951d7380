"""Download Python packages for images with the running Python's pip, which uses this machine's mirrors and
certificates."""

import os
import platform
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from localcloud.images.root import ImageError, get_last_lines

ONLY_SOURCE: Final = ("chainer", "horovod")
"""Packages that have no wheels on PyPI."""
BUILT_WITH: Final = "setuptools<70"
"""setuptools constraint for builds from source: `setup.py` needs the pkg_resources of these versions."""
ROOT_PYTHON: Final = ("--python-version", "3.11", "--implementation", "cp")
"""pip options for the root's Python version, which may differ from the version of the running Python."""


def download_packages(lock: str, folder: Path) -> None:
    """Download all packages in a lock file from `amis/frameworks/`. Raises ImageError."""
    entries = parse_lock_entries(lock)
    sources = [entry for name, entry in entries.items() if name in ONLY_SOURCE]
    wheels = [entry for name, entry in entries.items() if name not in ONLY_SOURCE]
    run_pip("download", "".join(wheels), "--dest", str(folder))
    if sources:
        run_pip("download", "".join(sources), "--dest", str(folder), sources=True)


def parse_lock_entries(lock: str) -> dict[str, str]:
    """Return a lock file's entries, including checksums, keyed by package name."""
    entries = re.findall(r"^\S+==.*(?:\n    --hash=.*)+", lock, re.MULTILINE)
    return {entry.partition("==")[0]: f"{entry}\n" for entry in entries}


def run_pip(verb: str, requirements: str, *options: str, sources: bool = False) -> None:
    """Run a pip command on locked packages: on source distributions if `sources` is set, otherwise on wheels for the
    root's Python. Raises ImageError."""
    fixed = ["--quiet", "--disable-pip-version-check", "--no-deps", "--require-hashes"]
    with tempfile.TemporaryDirectory() as folder:
        requirements_file, constraints = Path(folder) / "wanted.txt", Path(folder) / "constraints.txt"
        requirements_file.write_text(requirements)
        constraints.write_text(f"{BUILT_WITH}\n")
        command = [sys.executable, "-m", "pip", verb, *fixed, "--requirement", str(requirements_file), *options]
        if sources:
            result = _run_pip_command(
                [*command, f"--no-binary={','.join(ONLY_SOURCE)}"], _build_constraint_variables(constraints)
            )
        else:
            result = _run_pip_command([*command, *_build_wheel_options()], {})
    if result.returncode:
        raise ImageError(f"pip {verb} of an image's packages failed:\n{get_last_lines(result.stderr)}")


def _run_pip_command(command: Sequence[str], more: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, env={**os.environ, **more}, capture_output=True, text=True, check=False)


def _build_wheel_options() -> list[str]:
    platforms = [f"--platform=manylinux{form}_{platform.machine()}" for form in ("_2_28", "_2_27", "_2_17", "2014", "_2_5", "1")]
    return ["--only-binary=:all:", *platforms, *ROOT_PYTHON]


def _build_constraint_variables(constraints: Path) -> dict[str, str]:
    """Return the environment variables that pass the constraints to isolated builds. Older pip versions read the first
    variable; newer versions read the second."""
    return {name: str(constraints) for name in ("PIP_CONSTRAINT", "PIP_BUILD_CONSTRAINT")}
