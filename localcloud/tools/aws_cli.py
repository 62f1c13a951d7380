"""The AWS CLI, which every EKS kubeconfig runs (`aws eks get-token`), installed from PyPI into its own virtualenv.

https://docs.aws.amazon.com/eks/latest/userguide/create-kubeconfig.html
"""

import hashlib
import subprocess
import venv
from pathlib import Path

from localcloud.tools.build import BuildError, Report, cache_folder, hold_lock

LOCK = Path(__file__).parent / "aws-cli" / "requirements.lock"


def ensure_installed(report: Report) -> Path:
    """Return the path of `aws`, installing it into the cache if needed."""
    digest = hashlib.sha256(LOCK.read_bytes()).hexdigest()[:12]
    base = cache_folder() / f"aws-cli-{digest}"
    done = base / "installed"
    if not done.exists():
        with hold_lock(base):
            if not done.exists():
                report(f"installing the AWS CLI into its own virtualenv (once; cached in {cache_folder()})")
                _install_cli(base / "venv")
                done.touch()
    return base / "venv" / "bin" / "aws"


def _install_cli(folder: Path) -> None:
    venv.create(folder, with_pip=True, clear=True)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    result = subprocess.run([*pip, "--no-deps", "--require-hashes", "-r", str(LOCK)], capture_output=True, text=True, check=False)
    if result.returncode:
        raise BuildError(
            "the AWS CLI, which kubeconfigs need, could not be installed. Put `aws` on PATH, or allow access to PyPI:\n"
            f"{result.stderr.strip()[-1500:]}"
        )
