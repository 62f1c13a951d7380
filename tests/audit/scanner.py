"""Run checkov from its own virtual environment, because it pins an old boto3.

The environment is created once per lock file, in the user's cache.
"""

import fcntl
import hashlib
import json
import os
import subprocess
import sys
import venv
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

LOCK = Path(__file__).parent / "requirements.lock"


@dataclass(frozen=True)
class Finding:
    """A failed check."""

    check: str
    resource: str
    text: str


@dataclass(frozen=True)
class Report:
    passed: frozenset[str]
    """IDs of the checks that at least one resource passed."""
    failures: tuple[Finding, ...]


def ensure_checkov() -> Path:
    """Return checkov's executable, installing it on first use."""
    digest = hashlib.sha256(LOCK.read_bytes()).hexdigest()[:12]
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gpumpi" / f"checkov-{digest}"
    done = base / "installed"
    base.mkdir(parents=True, exist_ok=True)
    with (base / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            venv.create(base / "venv", with_pip=True, clear=True)
            pip = [
                str(base / "venv/bin/python"),
                "-m",
                "pip",
                "install",
                "--quiet",
                "--no-deps",
                "--require-hashes",
                "-r",
                str(LOCK),
            ]
            print("installing checkov into its own virtual environment (first use only)", file=sys.stderr)
            subprocess.run(pip, check=True)
            done.touch()
    return base / "venv/bin/checkov"


def scan(plan: dict[str, Any], folder: Path) -> Report:
    """Scan a Terraform plan offline with all checkov checks."""
    file = folder / "tfplan.json"
    file.write_text(json.dumps(plan))
    return _run_checkov(file, "terraform_plan")


def scan_manifests(manifests: Iterable[dict[str, Any]], folder: Path) -> Report:
    """Scan Kubernetes objects."""
    file = folder / "manifests.yaml"
    file.write_text(yaml.safe_dump_all(manifests))
    return _run_checkov(file, "kubernetes")


def _run_checkov(file: Path, framework: str) -> Report:
    command = [str(ensure_checkov()), "--file", str(file), "--framework", framework, "--output", "json", "--compact"]
    # Nothing listens at the proxy's address, so checkov cannot download guidelines from its vendor.
    environment = os.environ | {"HTTPS_PROXY": "http://127.0.0.1:9", "HTTP_PROXY": "http://127.0.0.1:9", "LOG_LEVEL": "ERROR"}
    result = subprocess.run(
        [*command, "--skip-download"], cwd=file.parent, env=environment, capture_output=True, text=True, check=False
    )
    if result.returncode not in (0, 1):
        raise RuntimeError(f"checkov exited with code {result.returncode}:\n{result.stderr[-2000:]}")
    answer = json.loads(result.stdout)
    failures = tuple(
        Finding(entry["check_id"], entry["resource"], entry["check_name"]) for entry in answer["results"]["failed_checks"]
    )
    passed = frozenset(entry["check_id"] for entry in answer["results"]["passed_checks"])
    return Report(passed, failures)
