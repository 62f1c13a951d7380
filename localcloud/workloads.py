"""`python -m localcloud.workloads`: write a tar archive of the MNIST training program and its dependencies to stdout.

Unpack it into the cluster's shared folder:

python -m localcloud.workloads | scripts/cluster ssh -s STACK -- tar x -C /shared
scripts/cluster run -s STACK -- mpiexec -x PYTHONPATH=/shared/python -n 8 -N 2 python3 train_mnist.py
"""

import hashlib
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path
from typing import IO, Final

from localcloud.images import frameworks
from localcloud.images.recipes import Frameworks
from localcloud.images.root import ImageError
from localcloud.processes import ROOT
from localcloud.tools.build import BuildError, Report, cache_folder, hold_lock

WORKLOADS: Final = ROOT / "workloads"
PROGRAMS: Final = (WORKLOADS / "allreduce.py", WORKLOADS / "chainermn-mnist" / "train_mnist.py")
LOCK: Final = Frameworks("chainermn").lock_file
SOURCE: Final = "chainer"
WHEELS: Final = ("filelock", "numpy", "protobuf", "six", "typing-extensions")
"""Dependencies of ChainerMN, except mpi4py, which is in the AMI."""
DIGITS: Final = "scikit-learn"
"""Package that contains the handwritten digits used by train_mnist.py. Only the file with the digits is extracted."""
PYTHON: Final = "python"
"""Folder in the archive that contains the packages, for PYTHONPATH."""
DIGITS_FILE: Final = "sklearn/datasets/data/digits.csv.gz"


def pack_archive(to: IO[bytes], report: Report) -> None:
    """Write an archive of the packages and the current training programs. The packages are fetched only once. Raises
    BuildError."""
    with tarfile.open(fileobj=to, mode="w|") as archive:
        for path in [*sorted(ensure_packages(report).iterdir()), *PROGRAMS]:
            archive.add(path, path.name, filter=_remove_owner)


def ensure_packages(report: Report) -> Path:
    """Return the folder of the packages and the digits; fetch them if they are not cached. Raises BuildError."""
    folder = cache_folder().parent / "workloads"
    target = folder / f"mnist-{_hash_sources(LOCK)}"
    with hold_lock(folder / "locks" / target.name):
        if not target.exists():
            report(f"fetching ChainerMN and the training digits (once; cached in {folder})")
            with tempfile.TemporaryDirectory(dir=folder) as work:
                part = Path(work) / "made"
                part.mkdir()
                try:
                    _install_packages(part / PYTHON, Path(work))
                    _extract_digits(part, Path(work))
                except ImageError as error:
                    raise BuildError(str(error)) from error
                part.rename(target)
    return target


def _install_packages(target: Path, work: Path) -> None:
    entries = frameworks.parse_lock_entries(LOCK.read_text())
    frameworks.run_pip("wheel", entries[SOURCE], "--wheel-dir", str(work / "wheels"), sources=True)
    (built,) = (work / "wheels").glob("*.whl")
    frameworks.run_pip("install", "".join(entries[name] for name in WHEELS), "--no-compile", "--target", str(target))
    with zipfile.ZipFile(built) as wheel:
        wheel.extractall(target)


def _extract_digits(target: Path, work: Path) -> None:
    frameworks.run_pip("download", frameworks.parse_lock_entries(LOCK.read_text())[DIGITS], "--dest", str(work / "digits"))
    (wheel,) = (work / "digits").glob("*.whl")
    with zipfile.ZipFile(wheel) as opened, opened.open(DIGITS_FILE) as digits:
        (target / Path(DIGITS_FILE).name).write_bytes(digits.read())


def _remove_owner(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """Clear the owner, because the user who unpacks the archive must own the files, and let everyone read the entry."""
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    entry.mode |= 0o755 if entry.isdir() else 0o644
    return entry


def _hash_sources(*files: Path) -> str:
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]


if __name__ == "__main__":
    try:
        pack_archive(sys.stdout.buffer, lambda line: print(line, file=sys.stderr))
    except BuildError as error:
        sys.exit(str(error))
