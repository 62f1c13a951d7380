"""Query package registries for the newest version of a package, with the registries' standard clients.

`pip` and `go` read the address of the index or proxy from this machine's configuration, so they use the mirrors
configured there. A failed query is never retried.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from typing import Final

from localcloud.pins.collect import Pin

LIMIT_SECONDS: Final = 60
CAUSES: Final = re.compile(
    r"connection refused|timed out|no such host|name or service not known|temporary failure in name resolution"
    r"|network is unreachable|certificate verify failed|\b[45]\d\d [A-Z][a-z]+(?: [A-Z][a-z]+)*|no matching distribution",
    re.IGNORECASE,
)


class NotAnswered(Exception):
    """The registry did not report a version. The message gives the reason in one line."""


@dataclass(frozen=True)
class Newest:
    version: str
    released: str = ""
    """Release date, if the registry reports it."""


def find_newest_version(pin: Pin) -> Newest:
    """Return the newest version of the pin's package. Raises NotAnswered."""
    return _query_package_index(pin.package, pin.series) if pin.registry == "PyPI" else _query_go_proxy(pin.package)


def _query_package_index(package: str, series: str) -> Newest:
    text = _run_client([sys.executable, "-m", "pip", "--retries", "1", "--timeout", "10", "index", "versions", package])
    match = re.search(r"^Available versions: (.+)$", text, re.MULTILINE)
    versions = [version for version in (match[1].split(", ") if match else ()) if version.startswith(series)]
    if not versions:
        raise NotAnswered(f"pip lists no version {series}*" if series else "pip lists no version")
    return Newest(versions[0])


def _query_go_proxy(module: str) -> Newest:
    go = shutil.which("go")
    if go is None:
        raise NotAnswered("go is not on PATH")
    answer = json.loads(_run_client([go, "list", "-m", "-json", f"{module}@latest"]))
    return Newest(answer["Version"], answer.get("Time", "")[:10])


def _run_client(command: list[str]) -> str:
    environment = os.environ | {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "GOFLAGS": "-mod=mod", "GOWORK": "off"}
    with tempfile.TemporaryDirectory() as empty:  # an empty folder, so that no go.mod applies
        try:
            done = subprocess.run(
                command, cwd=empty, env=environment, capture_output=True, text=True, timeout=LIMIT_SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            raise NotAnswered(f"no answer after {LIMIT_SECONDS} s") from None
    if done.returncode:
        raise NotAnswered(_extract_error(done.stderr))
    return done.stdout


def _extract_error(text: str) -> str:
    """Extract the cause of a failure from a client's output, without the addresses of this machine's mirrors."""
    if match := CAUSES.search(text):
        return match[0].lower()
    lines = [line.strip() for line in text.splitlines() if line.strip()] or ["no reason given"]
    return re.sub(r"https?://\S+", "(registry)", lines[-1])[:160]
