"""Write files completely or not at all: after a full disk or a killed process, the old file is still there."""

import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

PRIVATE: Final = 0o600


def write_file(path: Path, text: str, *, private: bool = False) -> None:
    """Create or replace a file. If the path is a symlink, replace its target.

    An existing file keeps its owner and its mode; a private file is always readable only by its owner. Raises OSError,
    which contains the path.
    """
    try:
        if path.exists() and not path.is_file():  # such as /dev/stdout
            path.write_text(text, encoding="utf-8")
        else:
            _replace_file(Path(os.path.realpath(path)), text, private=private)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None


def _replace_file(path: Path, text: str, *, private: bool) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    before = path.stat() if path.exists() else None
    handle, part = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:100]}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        if before is not None:
            with suppress(PermissionError):
                os.chown(part, before.st_uid, before.st_gid)
        Path(part).chmod(PRIVATE if private else stat.S_IMODE(before.st_mode) if before else 0o666 & ~read_umask())
        Path(part).replace(path)
    except BaseException:
        Path(part).unlink(missing_ok=True)
        raise


def read_umask() -> int:
    """Return the umask, which can only be read by setting it."""
    umask = os.umask(0o077)
    os.umask(umask)
    return umask
