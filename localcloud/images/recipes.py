"""Recipes of images: kinds of layers and the digest of each layer's recipe."""

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from localcloud.images.root import AMIS, OPTIONS, PROJECT
from localcloud.tools.build import cached_folder
from localcloud.tools.catalogue import Tool

VERSIONS = AMIS / "versions.pkrvars.hcl"
FORM = 3
"""Format of the archives; changes if the same recipe would produce other bytes."""
LOCK = PROJECT / "requirements.lock"
INSTALL_FRAMEWORKS = "install-frameworks.sh"


@dataclass(frozen=True)
class Root:
    """A minimal Debian."""

    def recipe(self) -> str:
        return repr((versions()["debian_suite"], OPTIONS))


@dataclass(frozen=True)
class Provisioned:
    """Changes that provisioners of `amis/` make to the layers below."""

    scripts: tuple[str, ...]
    environment: tuple[tuple[str, str], ...] = ()

    def recipe(self) -> str:
        """Return the texts of the scripts and of all that they call and install, with the versions that these name."""
        texts = {path.name: path.read_text() for path in self._sources()}
        named = {key: value for key, value in versions().items() if any(key in text for text in texts.values())}
        return repr((self.scripts, self.environment, texts, named))

    def _sources(self) -> Sequence[Path]:
        found = {AMIS / "provisioners" / script for script in self.scripts}
        all_files = [*AMIS.glob("provisioners/*"), *AMIS.glob("files/*")]
        while more := [file for file in all_files if file not in found and any(file.name in one.read_text() for one in found)]:
            found.update(more)
        return sorted(found)


@dataclass(frozen=True)
class Frameworks:
    """A set of Python packages of `amis/frameworks/`, installed as in AMIs."""

    name: str
    script: str = INSTALL_FRAMEWORKS
    """The provisioner that installs it."""

    @property
    def lock(self) -> Path:
        return AMIS / "frameworks" / f"{self.name}.txt"

    @property
    def step(self) -> "Provisioned":
        return Provisioned((self.script,), (("FRAMEWORKS", self.name),))

    def recipe(self) -> str:
        return repr((self.step.recipe(), self.lock.read_text()))


@dataclass(frozen=True)
class Program:
    """A static program, ours or upstream's, built from its Go module."""

    tool: Tool
    path: str

    def recipe(self) -> str:
        return f"{cached_folder(self.tool.module).parent.name} {self.tool.name} {self.path}"


@dataclass(frozen=True)
class Source:
    """A file of this project, or the Python files of a package of it."""

    path: str
    target: str
    mode: int = 0o644

    def files(self) -> Iterator[tuple[str, Path]]:
        source = PROJECT / self.path
        if source.is_file():
            yield self.target, source
        for file in sorted(source.rglob("*.py")):
            yield f"{self.target}/{file.relative_to(source)}", file

    def recipe(self) -> str:
        return repr([(target, self.mode, file.read_text()) for target, file in self.files()])


@dataclass(frozen=True)
class Packages:
    """Python packages in the versions of requirements.lock, for the root's Python."""

    names: tuple[str, ...]

    def requirements(self) -> str:
        """Return the packages' lines of the lock, with checksums."""
        entries = re.findall(r"^\S+==.*(?:\n    --hash=.*)+", LOCK.read_text(), re.MULTILINE)
        chosen = [entry for entry in entries if entry.partition("==")[0] in self.names]
        missing = set(self.names) - {entry.partition("==")[0] for entry in chosen}
        assert not missing, f"requirements.lock has no {missing}"
        return "\n".join(chosen) + "\n"

    def recipe(self) -> str:
        return self.requirements()


Layer = Root | Provisioned | Frameworks | Program | Source | Packages


def digests(layers: Sequence[Layer]) -> list[str]:
    """Return the digest of each layer's recipe. Layers that change a root depend on all layers below."""
    found: list[str] = []
    for layer in layers:
        text = f"{FORM} {type(layer).__name__} {layer.recipe()}"
        if isinstance(layer, Provisioned | Frameworks):
            text += "".join(found)
        found.append(hashlib.sha256(text.encode()).hexdigest()[:16])
    return found


def versions() -> dict[str, str]:
    """Return the pinned versions and checksums of `amis/`."""
    return dict(re.findall(r'^(\w+)="(.*)"$', VERSIONS.read_text(), re.MULTILINE))
