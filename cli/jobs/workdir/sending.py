"""Send a folder to any place with a shell: a pod, or the head node of an EC2 cluster.

The receiver first reports the files that it already has from earlier jobs (infra/jobs/in_pods/receive.sh).
"""

import tarfile
import tempfile
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from subprocess import CompletedProcess
from typing import IO

from cli.errors import CommandError
from cli.exit_codes import FAILED
from cli.jobs.workdir.selection import MIB, Selection
from infra.jobs.in_pods import build_shell_command

Place = Callable[[Sequence[str], IO[bytes]], "CompletedProcess[bytes]"]
"""Runs a command with a file as its input."""


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
        note = "" if self.files == self.all_files else "; the others were already there"
        return f"{self.files} of {self.all_files} files ({self.size / MIB:.1f} MiB){note}"


def send_files(selection: Selection, place: Place, jobs: str, folder: str) -> Sent:
    """Send the files to `folder`/workdir. The folder `jobs` contains the folders of all jobs. Raises CommandError."""
    with tempfile.TemporaryFile(prefix="gpumpi-workdir-") as file:
        file.write(
            "".join(f"{'x' if file.executable else '-'} {file.digest}  {file.path}\n" for file in selection.files).encode()
        )
        offered = _run_transfer_script(place, "offer", jobs, folder, file)
    present = set(offered.decode().splitlines())
    missing = [file for file in selection.files if file.path not in present]
    with tempfile.TemporaryFile(prefix="gpumpi-workdir-") as file:
        write_archive(selection, {file.path for file in missing}, file)
        _run_transfer_script(place, "take", jobs, folder, file)
    return Sent(len(missing), sum(file.size for file in missing), len(selection.files))


def write_archive(selection: Selection, paths: Collection[str], file: IO[bytes]) -> None:
    """Write the files with these paths, and all links, to a compressed archive."""
    with tarfile.open(fileobj=file, mode="w:gz", compresslevel=1) as archive:
        for name in (*sorted(paths), *selection.links):
            archive.add(selection.root / name, arcname=name, recursive=False, filter=remove_owner)


def remove_owner(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def _run_transfer_script(place: Place, verb: str, jobs: str, folder: str, file: IO[bytes]) -> bytes:
    size = file.tell()
    file.seek(0)
    words = [part if part != "receive" else verb for part in build_shell_command("receive.sh", jobs, folder, str(size))]
    done = place(words, file)
    if done.returncode:
        reason = " ".join(done.stderr.decode(errors="replace").split()) or f"exit code {done.returncode}"
        raise CommandError(f"workdir: the folder could not be sent: {reason}", FAILED)
    return done.stdout
