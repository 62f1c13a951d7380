"""A root file system in which provisioners run as they do on the EC2 instance that Packer starts."""

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from localcloud.hosts import roots
from localcloud.images import build, root
from tests.amis.test_templates import list_provisioners

STEPS = [f"{name}.sh" for name in list_provisioners("ec2")]
BUILT = "var/cache/built"
"""Folder in a machine's root file system where `build-openmpi.sh` caches its builds."""


@dataclass
class Machine:
    """A root file system of overlay layers; only the top layer is writable."""

    layer: Path
    below: Sequence[Path]
    settings: dict[str, str] = field(default_factory=dict)

    def run(self, *command: str, **settings: str) -> "subprocess.CompletedProcess[str]":
        """Run a program as root. A program name that ends in .sh selects a provisioner."""
        program = f"/tmp/amis/provisioners/{command[0]}" if command[0].endswith(".sh") else command[0]
        merged = {**root.WHEELS_ONLY, **self.settings, **settings}
        return roots.run_in_overlay(self.layer, self.below, [program, *command[1:]], merged, build.download_wheels())

    def run_checked(self, *command: str, **settings: str) -> str:
        done = self.run(*command, **settings)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        return done.stdout

    def clone_with_layer(self, layer: Path) -> "Machine":
        """Return a machine with a new writable layer on top of this one, so that this machine does not change."""
        layer.mkdir()
        return Machine(layer, [self.layer, *self.below], self.settings)
