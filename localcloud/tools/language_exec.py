"""Fetches `pulumi-language-python-exec`, the script with which Pulumi runs Python programs, from the SDK's Go module.

Source: pulumi/pulumi@v3.246.0:sdk/python/cmd/pulumi-language-python-exec. The script and the Pulumi CLI have the same
version, which pulumi/go.mod pins; pulumi/go.sum contains the checksum.
"""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

from localcloud import whole_file
from localcloud.tools.build import BuildError, Report, cache_folder, hold_lock
from localcloud.tools.catalogue import PULUMI

NAME: Final = "pulumi-language-python-exec"
MODULE: Final = "github.com/pulumi/pulumi/sdk/v3"
FILE: Final = f"python/cmd/{NAME}"


def get_cached_script_path() -> Path:
    """Return the path of the script in the cache, even if it has not been fetched yet."""
    return cache_folder() / f"{NAME}-{PULUMI.version}" / NAME


def ensure_script(report: Report) -> Path:
    """Return the path of the script, fetching it if needed. Raises BuildError."""
    if not get_cached_script_path().exists():
        with hold_lock(get_cached_script_path().parent):
            if not get_cached_script_path().exists():
                report(f"fetching {NAME} {PULUMI.version}")
                whole_file.write_atomically(get_cached_script_path(), _download_script().read_text())
    return get_cached_script_path()


def _download_script() -> Path:
    """Download the module and return the path of the script in it. `go` checks the module against go.sum."""
    go = shutil.which("go")
    if go is None:
        raise BuildError(f"{NAME} is fetched from a Go module and needs Go 1.24 or newer on PATH. Install it: https://go.dev/dl/")
    command = [go, "mod", "download", "-json", MODULE]
    environment = os.environ | {"GOFLAGS": "-mod=readonly"}
    result = subprocess.run(command, cwd=PULUMI.module.folder, env=environment, capture_output=True, text=True, check=False)
    if result.returncode:
        raise BuildError(f"the Go module {MODULE} cannot be fetched:\n{result.stdout.strip() or result.stderr.strip()}")
    return Path(json.loads(result.stdout)["Dir"]) / FILE
