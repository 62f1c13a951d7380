"""Build a tool into the cache: once per version and checksum, with progress, safe when several start at the same time."""

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from localcloud.tools.catalogue import Tool

Report = Callable[[str], None]
"""Takes one line for the person who waits."""

REPORT_EVERY_SECONDS = 10.0


class BuildError(Exception):
    """The tool cannot be built here; the text says what to do."""


def cache_folder() -> Path:
    """Where built tools live, outside the repository."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "gpumpi" / "tools"


def cached_path(tool: Tool) -> Path:
    """Where the built program is, or will be: a change of any pin gives another folder."""
    digest = hashlib.sha256()
    for name in ("go.mod", "go.sum"):
        digest.update((tool.module / name).read_bytes())
    digest.update(repr((tool.package, tool.variables)).encode())
    return cache_folder() / f"{tool.name}-{tool.version}-{digest.hexdigest()[:12]}" / tool.name


def ensure(tool: Tool, report: Report) -> Path:
    """The path of the built tool; builds it when the cache lacks it."""
    target = cached_path(tool)
    if target.exists():
        return target
    with _only_one(target.parent):
        if not target.exists():
            _build(tool, target, report)
    return target


@contextmanager
def _only_one(folder: Path) -> Iterator[None]:
    """Two processes that want the same tool build it once."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _build(tool: Tool, target: Path, report: Report) -> None:
    go = shutil.which("go")
    if go is None:
        raise BuildError(
            f"{tool.name} {tool.version} is built from source and needs Go 1.24 or newer on PATH: see https://go.dev/dl/"
        )
    # CGO off: the programs need no C library, so the result runs on every Linux.
    environment = os.environ | {"CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly -trimpath"}
    started = time.monotonic()
    report(f"building {tool.name} {tool.version}: fetching its Go modules (once; kept in {cache_folder()})")
    packages = _package_count(go, tool, environment)
    flags = " ".join(["-s", "-w", *(f"-X {variable}" for variable in tool.variables)])
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        output = Path(folder) / tool.name
        command = [go, "build", "-v", "-ldflags", flags, "-o", str(output), tool.package]
        _run_with_progress(command, tool, environment, packages, report)
        output.replace(target)
    report(f"built {tool.name} {tool.version} in {time.monotonic() - started:.0f} s")


def _package_count(go: str, tool: Tool, environment: dict[str, str]) -> int:
    """How many packages the build compiles; fetches the modules on the way."""
    command = [go, "list", "-deps", tool.package]
    result = subprocess.run(command, cwd=tool.module, env=environment, capture_output=True, text=True, check=False)
    if result.returncode:
        raise BuildError(f"{tool.name} {tool.version}: its Go modules cannot be fetched:\n{_tail(result.stderr)}")
    return len(result.stdout.splitlines())


def _run_with_progress(command: list[str], tool: Tool, environment: dict[str, str], packages: int, report: Report) -> None:
    """Run `go build -v`, which names each package when it is compiled."""
    lines: list[str] = []
    reported = time.monotonic()
    with subprocess.Popen(
        command, cwd=tool.module, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            lines.append(line)
            if time.monotonic() - reported > REPORT_EVERY_SECONDS:
                reported = time.monotonic()
                report(f"building {tool.name} {tool.version}: {len(lines)} of {packages} packages compiled")
    if process.returncode:
        ended = f"go build ended with exit code {process.returncode}"
        raise BuildError(f"{tool.name} {tool.version}: {ended}:\n{_tail(''.join(lines))}")


def _tail(text: str, lines: int = 15) -> str:
    return "\n".join(text.strip().splitlines()[-lines:])
