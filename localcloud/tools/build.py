"""Build programs into the cache, once per version and checksum. Concurrent callers are safe."""

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

from localcloud.tools.catalogue import Module, Tool

Report = Callable[[str], None]
"""Callback for progress messages to the user, one line each."""

REPORT_EVERY_SECONDS = 10.0
SOURCES = (".c", ".go", ".mod", ".sum")


class BuildError(Exception):
    """The tool cannot be built on this machine. The message contains the reason and the fix."""


def cache_folder() -> Path:
    """Return the cache folder for built tools, which is outside the repository."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "gpumpi" / "tools"


def cached_path(tool: Tool) -> Path:
    """Return the path of the program in the cache, even if the program has not been built yet."""
    return get_cached_folder(tool.module) / tool.name


def get_cached_folder(module: Module) -> Path:
    """Return the folder of a module's programs. The path of this folder contains a checksum of the pins and the source files."""
    digest = hashlib.sha256(repr((module.packages, module.variables)).encode())
    for source in sorted(path for path in module.folder.iterdir() if path.suffix in SOURCES):
        digest.update(source.read_bytes())
    return cache_folder() / f"{module.name}-{module.version}-{digest.hexdigest()[:12]}" / "bin"


def ensure_tool(tool: Tool, report: Report) -> Path:
    """Return the path of the tool, building its module's programs if needed."""
    target = get_cached_folder(tool.module)
    if not target.exists():
        with hold_lock(target.parent):
            if not target.exists():
                _build_module(tool.module, target, report)
    return target / tool.name


@contextmanager
def hold_lock(folder: Path) -> Iterator[None]:
    """Hold a lock, so that concurrent processes build a tool only once."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _build_module(module: Module, target: Path, report: Report) -> None:
    started, title = time.monotonic(), f"{module.name} {module.version}"
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        output = Path(folder) / "bin"
        output.mkdir()
        if sources := sorted(module.folder.glob("*.c")):
            _compile_library(title, sources, output / module.programs[0])
        else:
            _build_go_programs(title, module, output, report)
        output.replace(target)
    report(f"built {title} in {time.monotonic() - started:.0f} s")


def _build_go_programs(title: str, module: Module, output: Path, report: Report) -> None:
    go = shutil.which("go")
    if go is None:
        raise BuildError(f"{title} is built from source and needs Go 1.24 or newer on PATH. Install it: https://go.dev/dl/")
    if module.loads_libraries:
        _find_c_compiler(title)
    # Without CGO, the programs need no C library and run on any Linux, even in an empty container image.
    cgo = "1" if module.loads_libraries else "0"
    source = "vendor" if module.added else "readonly"
    environment = os.environ | {"CGO_ENABLED": cgo, "GOFLAGS": f"-mod={source} -trimpath -buildvcs=false"}
    report(f"building {title}: fetching its Go modules (once; cached in {cache_folder()})")
    folder = _vendor_dependencies(go, module, output.parent / "source") if module.added else module.folder
    packages = _count_packages(go, module, folder, environment)
    flags = ["-s", "-w", *(f"-X {variable}" for variable in module.variables)]
    # Lazy binding: the libraries are loaded at run time, so their symbols cannot be resolved at startup.
    flags += ["-extldflags=-Wl,-z,lazy"] if module.loads_libraries else []
    command = [
        go,
        "build",
        "-v",
        *_get_build_tags(module),
        "-ldflags",
        " ".join(flags),
        "-o",
        f"{output}{os.sep}",
        *module.packages,
    ]
    _run_with_progress(command, module, folder, environment, packages, report)


def _vendor_dependencies(go: str, module: Module, folder: Path) -> Path:
    """Vendor the wrapper module's dependencies in a new folder, and add the generated files that a Go module lacks."""
    folder.mkdir()
    for name in ("go.mod", "go.sum"):
        shutil.copy(module.folder / name, folder)
    # -e: continue despite the missing files, which are added below.
    result = subprocess.run([go, "mod", "vendor", "-e"], cwd=folder, capture_output=True, text=True, check=False)
    for path, text in module.added:
        file = folder / "vendor" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    if result.returncode or not (folder / "vendor" / "modules.txt").exists():
        raise BuildError(
            f"{module.name} {module.version}: its Go modules could not be fetched:\n{_get_last_lines(result.stderr)}"
        )
    return folder


def _compile_library(title: str, sources: list[Path], output: Path) -> None:
    """Compile C files into a shared library. Raises BuildError."""
    # Newer C standards need functions that the C library in the images lacks.
    options = ["-std=c11", "-D_POSIX_C_SOURCE=200809L", "-O2", "-Wall", "-Wextra", "-Werror", "-pthread"]
    library = ["-shared", "-fPIC", f"-Wl,-soname,{output.name}"]
    command = [_find_c_compiler(title), *options, *library, "-o", str(output), *map(str, sources)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        raise BuildError(f"{title}: the C compiler failed with exit code {result.returncode}:\n{_get_last_lines(result.stderr)}")


def _find_c_compiler(title: str) -> str:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise BuildError(f"{title} needs a C compiler on PATH. Install gcc with your system's package manager")
    return compiler


def _get_build_tags(module: Module) -> list[str]:
    return ["-tags", ",".join(module.tags)] if module.tags else []


def _count_packages(go: str, module: Module, folder: Path, environment: dict[str, str]) -> int:
    """Fetch the modules and return the number of packages that the build compiles."""
    command = [go, "list", "-deps", *_get_build_tags(module), *module.packages]
    result = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if result.returncode:
        raise BuildError(
            f"{module.name} {module.version}: its Go modules could not be fetched:\n{_get_last_lines(result.stderr)}"
        )
    return len(result.stdout.splitlines())


def _run_with_progress(
    command: list[str], module: Module, folder: Path, environment: dict[str, str], packages: int, report: Report
) -> None:
    """Run `go build -v`, which prints the name of each compiled package, and report progress."""
    lines: list[str] = []
    reported = time.monotonic()
    with subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            lines.append(line)
            if time.monotonic() - reported > REPORT_EVERY_SECONDS:
                reported = time.monotonic()
                report(f"building {module.name} {module.version}: {len(lines)} of {packages} packages compiled")
    if process.returncode:
        ended = f"go build failed with exit code {process.returncode}"
        raise BuildError(f"{module.name} {module.version}: {ended}:\n{_get_last_lines(''.join(lines))}")


def _get_last_lines(text: str, lines: int = 15) -> str:
    return "\n".join(text.strip().splitlines()[-lines:])
