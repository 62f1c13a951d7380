"""`python -m tests.each_file_alone [PATH...]`: run each test file in its own process. Exits with code 1 if a file
fails.

Skips files that have passed before, so you can interrupt a run and continue it later. A file runs again if it changes, or
if a module in tests/ or testkit/ that it imports changes. The result of a test file does not depend on other test files.

The parent process imports slow libraries once, before it forks. Each child imports this repository's modules itself.
"""

import argparse
import ast
import contextlib
import functools
import hashlib
import importlib
import io
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[1]
PASSED: Final = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gpumpi" / "passed-alone"
SLOW_LIBRARIES: Final = ("boto3", "moto", "pulumi_aws", "pulumi_kubernetes", "kubernetes", "hypothesis", "typer", "grpc")
TEST_CODE: Final = ("tests", "testkit")
SELECTION: Final = "not compile and not mission_only"
PRELOADED: Final = "ignore::pytest.PytestAssertRewriteWarning"
NOTHING_SELECTED: Final = pytest.ExitCode.NO_TESTS_COLLECTED


def hash_test_code(file: Path) -> str:
    """Return a hash of the file and of all test code that it imports."""
    digest = hashlib.sha256()
    for module in sorted(_find_dependencies(file)):
        digest.update(f"{module.relative_to(ROOT)}\n".encode() + module.read_bytes())
    return digest.hexdigest()


def _find_dependencies(file: Path) -> set[Path]:
    """Return the file, the conftest.py files that pytest loads for it, and the test code that they import."""
    folders = [folder for folder in file.parents if folder.is_relative_to(ROOT / "tests")]
    dependencies: set[Path] = set()
    waiting = {file, *(path for folder in folders if (path := folder / "conftest.py").exists())}
    while waiting:
        dependencies.add(dependency := waiting.pop())
        waiting |= _find_imports(dependency) - dependencies
    return dependencies


@functools.cache
def _find_imports(file: Path) -> frozenset[Path]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return frozenset(path for name in names if name.split(".")[0] in TEST_CODE for path in _find_module_files(name))


def _find_module_files(module: str) -> Iterator[Path]:
    path = ROOT.joinpath(*module.split("."))
    yield from (file for file in (path.with_suffix(".py"), path / "__init__.py") if file.exists())


def run_tests(file: Path) -> bool:
    """Run the file's tests in a child process, and print the output if a test fails. Return whether all tests pass."""
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1] == 0
    output = io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        code = pytest.main(["-q", "-p", "no:cacheprovider", "-p", "no:randomly", "-m", SELECTION, "-W", PRELOADED, str(file)])
    if code not in (0, NOTHING_SELECTED):
        sys.__stderr__.write(output.getvalue()[-4000:])
    sys.__stderr__.flush()
    os._exit(code not in (0, NOTHING_SELECTED))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.each_file_alone", description="Run each test file on its own.")
    parser.add_argument("path", nargs="*", type=Path, default=[ROOT / "tests"], help="folder or test file; default: tests/")
    parser.add_argument("--again", action="store_true", help="also run files that have passed before")
    arguments = parser.parse_args()
    for name in SLOW_LIBRARIES:
        importlib.import_module(name)
    PASSED.mkdir(parents=True, exist_ok=True)
    files = sorted(
        {file for path in arguments.path for file in (path.resolve().rglob("test_*.py") if path.is_dir() else [path.resolve()])}
    )
    failed: list[str] = []
    skipped = 0
    for number, file in enumerate(files, 1):
        print(f"{number} of {len(files)}: {file.relative_to(ROOT)}", file=sys.stderr, flush=True)
        record = PASSED / hash_test_code(file)
        if record.exists() and not arguments.again:
            skipped += 1
        elif run_tests(file):
            record.touch()
        else:
            failed.append(str(file.relative_to(ROOT)))
    print(f"{len(files)} files: {skipped} passed before, {len(failed)} failed on their own", *failed, sep="\n  ")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
