"""Store AMIs and the root disks of hosts as overlayfs layers. An AMI consists of the layers that its source host
started from and the changes that the host made.

`<folder>/images/<image id>/` contains the layers of an AMI that was created in this local cloud. The lowest layer is 0.
`base` lists the cached root file systems below layer 0.
`<folder>/disks/<instance id>/` contains the changes of an instance (upper), the overlay's work directory (work), the
mount point (root), and links to the layers of its AMI (below). The hard links keep the layers available after the AMI
is deregistered.
"""

import json
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

BASE = "base"
RootsOf = Callable[[str], list[Path]]
"""Function that returns the root file systems of an AMI that was not created in this local cloud, top first."""


@dataclass(frozen=True)
class Disk:
    """Root disk of an instance."""

    folder: Path

    @property
    def upper(self) -> Path:
        return self.folder / "upper"

    @property
    def work_folder(self) -> Path:
        return self.folder / "work"

    @property
    def root(self) -> Path:
        return self.folder / "root"

    def make(self) -> None:
        for folder in (self.upper, self.work_folder, self.root):
            folder.mkdir(parents=True, exist_ok=True)

    def build_mount_options(self, lower: list[Path]) -> str:
        """Return the overlay's mount options. `lower`: read-only layers, top first."""
        return f"lowerdir={':'.join(map(str, lower))},upperdir={self.upper},workdir={self.work_folder}"

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


class Layers:
    """AMIs and disks of one local cloud."""

    def __init__(self, folder: Path, roots_of: RootsOf) -> None:
        self.folder = folder
        self._roots_of = roots_of

    def get_disk(self, instance_id: str) -> Disk:
        return Disk(self.folder / "disks" / instance_id)

    def find_image_layers(self, image_id: str) -> list[Path]:
        """Return the layers of an AMI, top first."""
        image = self._get_image_folder(image_id)
        if not image.exists():
            return self._roots_of(image_id)
        own = sorted((layer for layer in image.iterdir() if layer.is_dir()), key=lambda layer: -int(layer.name))
        return [*own, *map(Path, json.loads((image / BASE).read_text()))]

    def prepare_disk_layers(self, disk: Disk, image_id: str) -> list[Path]:
        """Return the AMI's layers. Layers from `images/` are hard-linked into the disk's folder, so that the host can
        restart after the AMI is deregistered."""
        layers = []
        for number, layer in enumerate(self.find_image_layers(image_id)):
            if layer.is_relative_to(self.folder):
                own = disk.folder / "below" / str(number)
                own.parent.mkdir(parents=True, exist_ok=True)
                _copy_files(layer, own, "--link")
                layer = own
            layers.append(layer)
        return layers

    def save_image(self, disk: Disk, below: list[Path], image_id: str) -> None:
        """Create an AMI from a disk. The AMI consists of the layers below the disk and a copy of the disk's changes."""
        image, part = self._get_image_folder(image_id), self._get_image_folder(f".{image_id}")
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        made_here = [layer for layer in below if layer.is_relative_to(self.folder)]
        for number, layer in enumerate(reversed(made_here)):
            _copy_files(layer, part / str(number), "--link")  # hard links suffice, since layers are never modified
        _copy_files(disk.upper, part / str(len(made_here)))
        (part / BASE).write_text(json.dumps([str(layer) for layer in below if layer not in made_here]))
        part.rename(image)

    def copy(self, source_id: str, image_id: str) -> None:
        """Copy an AMI under a new id."""
        below = self.find_image_layers(source_id)
        made_here = [layer for layer in below if layer.is_relative_to(self.folder)]
        part = self._get_image_folder(f".{image_id}")
        part.mkdir(parents=True)
        for number, layer in enumerate(reversed(made_here)):
            _copy_files(layer, part / str(number), "--link")
        (part / BASE).write_text(json.dumps([str(layer) for layer in below if layer not in made_here]))
        part.rename(self._get_image_folder(image_id))

    def delete_image(self, image_id: str) -> None:
        """Delete a deregistered AMI. Hosts that use the AMI keep its layers."""
        shutil.rmtree(self._get_image_folder(image_id), ignore_errors=True)

    def clear(self) -> None:
        for name in ("images", "disks"):
            shutil.rmtree(self.folder / name, ignore_errors=True)

    def _get_image_folder(self, image_id: str) -> Path:
        return self.folder / "images" / image_id


def _copy_files(source: Path, target: Path, *options: str) -> None:
    """Copy files with owners, holes, extended attributes and overlay whiteouts. Use reflinks where supported."""
    subprocess.run(
        ["cp", "--archive", *(options or ("--reflink=auto", "--sparse=auto")), source, target], check=True, capture_output=True
    )
