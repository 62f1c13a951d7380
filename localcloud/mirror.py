"""Local mirror of upstream manifests, filled from Go modules for machines that can reach only package registries."""

import json
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from infra.versions import MANIFESTS, Pinned
from localcloud.tools.build import BuildError, Report, cache_folder, hold_lock

MODULES: Final = {
    "NVIDIA/k8s-device-plugin": "github.com/NVIDIA/k8s-device-plugin",
    "kubeflow/mpi-operator": "github.com/kubeflow/mpi-operator",
    "kubeflow/trainer": "github.com/kubeflow/trainer/v2",
    "kubernetes-sigs/jobset": "sigs.k8s.io/jobset",
    "kubernetes-sigs/kueue": "sigs.k8s.io/kueue",
}
"""Maps a GitHub repository to the Go module that contains its files."""


def get_mirror_folder() -> Path:
    """Return the mirror's folder, next to the built tools."""
    return cache_folder().parent / "mirror"


def is_complete() -> bool:
    return all((get_mirror_folder() / file.path).exists() for file in MANIFESTS)


def ensure_mirror(report: Report) -> Path:
    """Fill the mirror with all manifests that the Pulumi program uses, and return its folder. Raises BuildError."""
    if not is_complete():
        with hold_lock(get_mirror_folder()):
            if not is_complete():
                _fill_mirror(report)
    return get_mirror_folder()


def _fill_mirror(report: Report) -> None:
    go = shutil.which("go")
    if go is None:
        raise BuildError(
            "go is not on PATH, but it is needed to fetch the upstream manifests. Install Go 1.24 or newer: https://go.dev/dl/"
        )
    by_module: dict[str, list[Pinned]] = {}
    for file in MANIFESTS:
        by_module.setdefault(f"{MODULES[file.repository]}@{file.version}", []).append(file)
    report("fetching the platform's manifests (once)")
    for module, files in by_module.items():
        source = download_module(go, module)
        for file in files:
            _copy_atomically(source / file.file, get_mirror_folder() / file.path)


def download_module(go: str, module: str) -> Path:
    """Download a Go module and return the folder that contains its files."""
    with tempfile.TemporaryDirectory() as empty:  # an empty folder, so that no go.mod applies
        command = [go, "mod", "download", "-json", module]
        result = subprocess.run(command, cwd=empty, capture_output=True, text=True, check=False)
    if result.returncode:
        raise BuildError(f"the Go module {module} cannot be fetched:\n{result.stdout.strip() or result.stderr.strip()}")
    return Path(json.loads(result.stdout)["Dir"])


def _copy_atomically(source: Path, target: Path) -> None:
    """Copy atomically."""
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f"{target.name}.part")
    shutil.copyfile(source, part)
    part.replace(target)
