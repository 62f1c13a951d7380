"""`python -m tests.each_file_alone [FOLDER...]`: collect each test file in its own process; exit with 1 if one fails.

The parent imports slow libraries once, before it forks. Each child imports this repository's modules itself.
"""

import contextlib
import importlib
import io
import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SLOW_LIBRARIES = ("boto3", "moto", "pulumi_aws", "pulumi_kubernetes", "kubernetes", "hypothesis", "typer", "grpc")


def collects(file: Path) -> bool:
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1] == 0
    output = io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        code = pytest.main(["--collect-only", "-q", "-p", "no:cacheprovider", str(file)])
    if code:
        sys.__stderr__.write(output.getvalue()[-2000:])
    os._exit(bool(code))


def main() -> int:
    for name in SLOW_LIBRARIES:
        importlib.import_module(name)
    folders = [Path(name) for name in sys.argv[1:]] or [ROOT / "tests"]
    files = sorted(file for folder in folders for file in folder.rglob("test_*.py"))
    failed = [str(file) for file in files if not collects(file)]
    print(f"{len(files)} files, {len(failed)} cannot be collected alone", *failed, sep="\n  ")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
