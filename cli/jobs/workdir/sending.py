"""Send a folder to any place with a shell: a pod, or the head node of an EC2 cluster.

The receiver first reports the files that it already has from earlier jobs (infra/jobs/in_pods/receive.sh).
"""

import tarfile
import tempfile
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import IO, Protocol

from cli.errors import CommandError
from cli.exit_codes import FAILED
from cli.jobs.workdir.selection import MIB, Selection
from infra.jobs.in_pods import shell


class Place(Protocol):
    """Runs a command with a file of known size as its input. Returns the exit code, stdout and stderr."""

    def __call__(self, words: Sequence[str], stdin: IO[bytes], size: int) -> tuple[int, bytes, bytes]: ...


@dataclass(frozen=True)
class Sent:
    """Number and size of the files that were sent."""

    files: int
    size: int
    all_files: int

    def __str__(self) -> str:
        """
        >>> str(Sent(1, 2 * MIB, 12))
        '1 of 12 files (2.0 MiB); the others were already there'
        """
        known = "" if self.files == self.all_files else "; the others were already there"
        return f"{self.files} of {self.all_files} files ({self.size / MIB:.1f} MiB){known}"


def send(selection: Selection, place: Place, jobs: str, folder: str) -> Sent:
    """Send the files to `folder`/workdir. The folder `jobs` contains the folders of all jobs. Raises CommandError."""
    with tempfile.TemporaryFile(prefix="gpumpi-workdir-") as file:
        file.write("".join(f"{'x' if one.executable else '-'} {one.digest}  {one.path}\n" for one in selection.files).encode())
        offered = _run(place, "offer", jobs, folder, file)
    known = set(offered.decode().splitlines())
    missing = [one for one in selection.files if one.path not in known]
    with tempfile.TemporaryFile(prefix="gpumpi-workdir-") as file:
        archive(selection, {one.path for one in missing}, file)
        _run(place, "take", jobs, folder, file)
    return Sent(len(missing), sum(one.size for one in missing), len(selection.files))


def archive(selection: Selection, paths: Collection[str], file: IO[bytes]) -> None:
    """Write the files with these paths, and all links, to a compressed archive."""
    with tarfile.open(fileobj=file, mode="w:gz", compresslevel=1) as archive:
        for name in (*sorted(paths), *selection.links):
            archive.add(selection.root / name, arcname=name, recursive=False, filter=_without_owner)


def _without_owner(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def _run(place: Place, verb: str, jobs: str, folder: str, file: IO[bytes]) -> bytes:
    size = file.tell()
    file.seek(0)
    words = [part if part != "receive" else verb for part in shell("receive.sh", jobs, folder, str(size))]
    code, out, err = place(words, file, size)
    if code:
        reason = " ".join(err.decode(errors="replace").split()) or f"exit code {code}"
        raise CommandError(f"workdir: the folder could not be sent: {reason}", FAILED)
    return out
