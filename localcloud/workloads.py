"""`python -m localcloud.workloads`: the MNIST training and all that it imports, as an archive for a cluster's shared folder.

python -m localcloud.workloads | scripts/cluster ssh -s STACK -- tar x -C /shared
scripts/cluster run -s STACK -- mpiexec -x PYTHONPATH=/shared/python -n 8 -N 2 python3 train_mnist.py
"""

import hashlib
import os
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Final

from localcloud.processes import ROOT
from localcloud.tools.build import BuildError, Report, cache_folder, only_one

WORKLOADS: Final = ROOT / "workloads"
PROGRAMS: Final = (WORKLOADS / "allreduce.py", WORKLOADS / "mnist" / "train_mnist.py")
REQUIREMENTS, DIGITS = WORKLOADS / "mnist" / "requirements.txt", WORKLOADS / "mnist" / "digits.txt"
PYTHON: Final = "python"
"""Folder of the archive with the packages, for PYTHONPATH."""
DIGITS_FILE: Final = "sklearn/datasets/data/digits.csv.gz"
ONLY_SOURCE: Final = "chainer"
"""PyPI has no wheel of it; its setup.py needs a setuptools that still has pkg_resources as it was."""
BUILT_WITH: Final = "setuptools<70\n"
THEIR_PYTHON: Final = ("--python-version", "3.11", "--implementation", "cp", "--platform", "manylinux_2_17_x86_64")


def pack(to: IO[bytes], report: Report) -> None:
    """Write the archive: packages, which are fetched once, and programs as they are now. Raises BuildError."""
    with tarfile.open(fileobj=to, mode="w|") as archive:
        for path in [*sorted(ensure(report).iterdir()), *PROGRAMS]:
            archive.add(path, path.name, filter=_anybody)


def ensure(report: Report) -> Path:
    """A folder with the packages and the digits. Raises BuildError."""
    folder = cache_folder().parent / "workloads"
    target = folder / f"mnist-{_digest(REQUIREMENTS, DIGITS)}"
    with only_one(folder / "locks" / target.name):
        if not target.exists():
            report(f"fetching ChainerMN and digits to learn (once; kept in {folder})")
            with tempfile.TemporaryDirectory(dir=folder) as work:
                made = Path(work) / "made"
                made.mkdir()
                _install(made / PYTHON, Path(work))
                _take_digits(made, Path(work))
                made.rename(target)
    return target


def _install(target: Path, work: Path) -> None:
    lines = [line for line in REQUIREMENTS.read_text().splitlines() if not line.startswith("#")]
    source, wheels = ([line for line in lines if line.startswith(ONLY_SOURCE) == is_source] for is_source in (True, False))
    (work / "constraints").write_text(BUILT_WITH)
    # older pips read the first for isolated builds, newer ones the second
    constraints = {name: str(work / "constraints") for name in ("PIP_CONSTRAINT", "PIP_BUILD_CONSTRAINT")}
    _pip("wheel", source, work, ["--wheel-dir", str(work / "wheels")], constraints)
    (built,) = (work / "wheels").glob("*.whl")
    _pip("install", wheels, work, ["--only-binary=:all:", *THEIR_PYTHON, "--no-compile", "--target", str(target)])
    with zipfile.ZipFile(built) as wheel:
        wheel.extractall(target)


def _take_digits(made: Path, work: Path) -> None:
    _pip(
        "download", DIGITS.read_text().splitlines(), work, ["--only-binary=:all:", *THEIR_PYTHON, "--dest", str(work / "digits")]
    )
    (wheel,) = (work / "digits").glob("*.whl")
    with zipfile.ZipFile(wheel) as opened, opened.open(DIGITS_FILE) as found:
        (made / Path(DIGITS_FILE).name).write_bytes(found.read())


def _pip(verb: str, lines: Sequence[str], work: Path, options: Sequence[str], more: dict[str, str] | None = None) -> None:
    file = work / "wanted.txt"
    file.write_text("\n".join([*lines, ""]))
    fixed = ["--quiet", "--disable-pip-version-check", "--no-deps", "--require-hashes", "--requirement", str(file)]
    done = subprocess.run(
        [sys.executable, "-m", "pip", verb, *fixed, *options],
        env={**os.environ, **(more or {})},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise BuildError(f"pip could not {verb} what workloads/mnist needs:\n{done.stderr.strip()[-1500:]}")


def _anybody(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """Whoever unpacks it has it, and all may read it."""
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    entry.mode |= 0o755 if entry.isdir() else 0o644
    return entry


def _digest(*files: Path) -> str:
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]


if __name__ == "__main__":
    try:
        pack(sys.stdout.buffer, lambda line: print(line, file=sys.stderr))
    except BuildError as error:
        sys.exit(str(error))
