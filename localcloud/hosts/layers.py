"""Images and disks as layers of an overlay: an image is what hosts changed, on top of what they started from.

<folder>/images/<image id>/       the layers of an image made here, 0 the lowest; a file `base` where it began with another one
         disks/<instance id>/     an instance's own changes (upper), the overlay's workspace (work), the mounted root (root)
"""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path


class NoSuchImage(Exception):
    """No root is known for the image; the text says which there are."""


@dataclass(frozen=True)
class Disk:
    """An instance's root."""

    folder: Path

    @property
    def upper(self) -> Path:
        return self.folder / "upper"

    @property
    def work(self) -> Path:
        return self.folder / "work"

    @property
    def root(self) -> Path:
        return self.folder / "root"

    def make(self) -> None:
        for one in (self.upper, self.work, self.root):
            one.mkdir(parents=True, exist_ok=True)

    def mount_options(self, lower: list[Path]) -> str:
        """Of the overlay: `lower` from the top down."""
        return f"lowerdir={':'.join(map(str, lower))},upperdir={self.upper},workdir={self.work}"

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


class Layers:
    """All images and disks of one local cloud."""

    def __init__(self, folder: Path, base: Path) -> None:
        """`base`: the root below everything."""
        self.folder = folder
        self.base = base

    def disk(self, instance_id: str) -> Disk:
        return Disk(self.folder / "disks" / instance_id)

    def of_image(self, image_id: str) -> list[Path]:
        """An image's layers from the top down, without the base's own; empty for an image that AWS or Canonical made."""
        image = self._image(image_id)
        return sorted((one for one in image.iterdir() if one.is_dir()), key=lambda one: -int(one.name)) if image.exists() else []

    def save(self, disk: Disk, lower: list[Path], image_id: str) -> None:
        """An image of a disk: the layers that it was on, and a copy of its own changes on top."""
        image = self._image(image_id)
        part = image.with_name(f".{image_id}")
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        for number, layer in enumerate(reversed(lower)):
            _copy(layer, part / str(number))
        _copy(disk.upper, part / str(len(lower)))
        part.rename(image)

    def forget(self, image_id: str) -> None:
        """The image was deregistered. Disks that began with it keep their own layers mounted until they are gone."""
        shutil.rmtree(self._image(image_id), ignore_errors=True)

    def _image(self, image_id: str) -> Path:
        return self.folder / "images" / image_id


def _copy(source: Path, target: Path) -> None:
    """With owners, holes, extended attributes and the overlay's white-outs; shared blocks where the file system can."""
    subprocess.run(["cp", "--archive", "--reflink=auto", "--sparse=auto", source, target], check=True, capture_output=True)
