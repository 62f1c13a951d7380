"""Recipes of image layers, and their digests."""

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from localcloud.images.root import AMIS, OPTIONS, PROJECT
from localcloud.tools.build import get_cached_folder
from localcloud.tools.catalogue import Tool

VERSIONS = AMIS / "versions.pkrvars.hcl"
FORM = 3
"""Format version of the archives. Increase it when a code change makes the same recipe produce different bytes."""
LOCK = PROJECT / "requirements.lock"
INSTALL_FRAMEWORKS = "install-frameworks.sh"


@dataclass(frozen=True)
class Root:
    """Layer with a minimal Debian system."""

    pin: str = "debian_suite"
    """Key of the Debian release in `VERSIONS`."""

    @property
    def suite(self) -> str:
        return read_pinned_versions()[self.pin]

    def render_recipe(self) -> str:
        return repr((self.suite, OPTIONS))


@dataclass(frozen=True)
class Provisioned:
    """Layer with the changes made by provisioners from `amis/`."""

    scripts: tuple[str, ...]
    environment: tuple[tuple[str, str], ...] = ()

    def render_recipe(self) -> str:
        """Return the scripts' names, environment and contents, the contents of the files that they use, and all version
        pins that these files mention."""
        texts = {path.name: path.read_text() for path in self._find_source_files()}
        named = {key: value for key, value in read_pinned_versions().items() if any(key in text for text in texts.values())}
        return repr((self.scripts, self.environment, texts, named))

    def _find_source_files(self) -> Sequence[Path]:
        used = {AMIS / "provisioners" / script for script in self.scripts}
        all_files = [*AMIS.glob("provisioners/*"), *AMIS.glob("files/*")]
        while more := [file for file in all_files if file not in used and any(file.name in path.read_text() for path in used)]:
            used.update(more)
        return sorted(used)


@dataclass(frozen=True)
class Frameworks:
    """Layer with the Python packages in a lock file from `amis/frameworks/`, installed in the same way as in the
    AMIs."""

    name: str
    script: str = INSTALL_FRAMEWORKS
    """Provisioner that installs the packages."""

    @property
    def lock_file(self) -> Path:
        return AMIS / "frameworks" / f"{self.name}.txt"

    @property
    def step(self) -> "Provisioned":
        return Provisioned((self.script,), (("FRAMEWORKS", self.name),))

    def render_recipe(self) -> str:
        return repr((self.step.render_recipe(), self.lock_file.read_text()))


@dataclass(frozen=True)
class Program:
    """Layer with a program or library that is built from source. The source is from this project or from upstream."""

    tool: Tool
    path: str

    def render_recipe(self) -> str:
        return f"{get_cached_folder(self.tool.module).parent.name} {self.tool.name} {self.path}"


@dataclass(frozen=True)
class Source:
    """Layer with a single file of this project, or with all Python files of a package."""

    path: str
    target: str
    mode: int = 0o644

    def files(self) -> Iterator[tuple[str, Path]]:
        source = PROJECT / self.path
        if source.is_file():
            yield self.target, source
        for file in sorted(source.rglob("*.py")):
            yield f"{self.target}/{file.relative_to(source)}", file

    def render_recipe(self) -> str:
        return repr([(target, self.mode, file.read_text()) for target, file in self.files()])


@dataclass(frozen=True)
class Packages:
    """Layer with Python packages for the root's Python. requirements.lock pins their versions."""

    names: tuple[str, ...]

    def read_requirements(self) -> str:
        """Return the lock file entries of the packages, including checksums."""
        entries = re.findall(r"^\S+==.*(?:\n    --hash=.*)+", LOCK.read_text(), re.MULTILINE)
        chosen = [entry for entry in entries if entry.partition("==")[0] in self.names]
        missing = set(self.names) - {entry.partition("==")[0] for entry in chosen}
        assert not missing, f"requirements.lock has no {missing}"
        return "\n".join(chosen) + "\n"

    def render_recipe(self) -> str:
        return self.read_requirements()


Layer = Root | Provisioned | Frameworks | Program | Source | Packages


def compute_digests(layers: Sequence[Layer]) -> list[str]:
    """Return the digest of each layer's recipe. The digest of a provisioned layer also depends on all layers below
    it."""
    layer_digests: list[str] = []
    for layer in layers:
        text = f"{FORM} {type(layer).__name__} {layer.render_recipe()}"
        if isinstance(layer, Provisioned | Frameworks):
            text += "".join(layer_digests)
        layer_digests.append(hashlib.sha256(text.encode()).hexdigest()[:16])
    return layer_digests


def read_pinned_versions() -> dict[str, str]:
    """Return the versions and checksums pinned in `amis/`."""
    return dict(re.findall(r'^(\w+)="(.*)"$', VERSIONS.read_text(), re.MULTILINE))
