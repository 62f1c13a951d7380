"""Recipes of job images: each is a folder in `images/` with a Dockerfile."""

import hashlib
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cli.errors import CommandError, NotFound
from cli.installation import CLONE
from infra.config.messages import join_with_and, suggest_correction
from infra.jobs.cluster import PoolDescription
from infra.jobs.model import MpiImplementation
from infra.jobs.smoke import IMAGES

ROOT: Final = CLONE or Path()
TAG_CHARACTERS: Final = 12
NOT_VERIFIED: Final = "written from the sources of AWS's images (2026-08-21) and tested with stubs; see docs/guides/images.md"
"""Printed for each recipe with a base image from AWS until a user has reported a build from AWS's images."""


@dataclass(frozen=True)
class Recipe:
    """A Dockerfile and the files that it copies into the image."""

    name: str
    content: str
    """What the image contains."""
    base: str
    """The default base image."""
    files: tuple[str, ...]
    """The Dockerfile and the files that it copies, as paths in the repository."""

    @property
    def dockerfile(self) -> str:
        return self.files[0]

    @property
    def not_verified(self) -> str | None:
        """What has not been tested about the recipe."""
        return NOT_VERIFIED if "deep-learning-containers" in self.base else None

    def tag(self, base: str, arguments: Mapping[str, str]) -> str:
        """Return the default tag, which changes with the Dockerfile, the copied files, the base image and the build
        arguments.

        Tags in ECR repositories of a stack are immutable, so a changed recipe needs another tag.
        """
        digest = hashlib.sha256(repr((base, sorted(arguments.items()))).encode())
        for file in self.files:
            content = hashlib.sha256((ROOT / file).read_bytes()).hexdigest()
            digest.update(f"{file} {(ROOT / file).stat().st_mode & 0o100:o} {content}\n".encode())
        return digest.hexdigest()[:TAG_CHARACTERS]

    @property
    def default_tag(self) -> str:
        """Tag of the image that `image build` creates without further options."""
        return self.tag(self.base, {})

    def write_build_context(self, folder: Path) -> None:
        """Copy only the recipe's files to the folder that the builder reads."""
        for file in self.files:
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / file, folder / file)


def read_recipe(dockerfile: Path) -> Recipe:
    text = dockerfile.read_text(encoding="utf-8")
    joined = text.replace("\\\n", " ")
    sources = [ROOT / word for line in re.findall(r"^COPY (.+)", joined, re.MULTILINE) for word in line.split()[:-1]]
    copied = [path for source in sources for path in ([source] if source.is_file() else list_files(source))]
    files = tuple(str(path.relative_to(ROOT)) for path in (dockerfile, *sorted(copied)))
    return Recipe(
        dockerfile.parent.name,
        match_single_line(r'image\.title="(.+?)"', text),
        match_single_line(r"^ARG BASE=(\S+)", text),
        files,
    )


def list_files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and path.parent.name != "__pycache__"]


def match_single_line(pattern: str, text: str) -> str:
    (match,) = re.findall(pattern, text, re.MULTILINE)
    return str(match)


def list_every_recipe() -> list[Recipe]:
    return [read_recipe(file) for file in sorted((ROOT / "images").glob("*/Dockerfile"))]


def find_recipe(name: str) -> Recipe:
    by_name = {recipe.name: recipe for recipe in list_every_recipe()}
    if name not in by_name:
        raise NotFound(
            f"there is no recipe {name}{suggest_correction(name, by_name) or f'. The recipes are {join_with_and(by_name)}'}"
        )
    return by_name[name]


def choose_default_image(pool: PoolDescription | None, implementation: MpiImplementation) -> str:
    """Return the image for jobs that this program itself runs on a pool.

    For Open MPI on GPU nodes, this is the image of the recipe `mpi`, which contains CUDA, NCCL and EFA. If the recipes
    are not installed, GPU nodes use the same image as other nodes.
    """
    recipe = next((recipe for recipe in list_every_recipe() if recipe.name == "mpi"), None)
    is_for_gpus = pool is not None and pool.gpus and implementation == "OpenMPI"
    return f"{recipe.name}:{recipe.default_tag}" if recipe and is_for_gpus else IMAGES[implementation]


def check_tag(tag: str) -> str:
    """Return the tag unchanged. Raises CommandError if a registry would reject the tag.

    https://github.com/opencontainers/distribution-spec/blob/v1.1.0/spec.md#pulling-manifests
    """
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}", tag):
        raise CommandError(f"--tag: {tag!r} is not a tag. Use letters, digits, `.`, `_` and `-`, at most 128 characters", 2)
    return tag
