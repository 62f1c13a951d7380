"""Download and build the programs and root file systems that hosts need. The first run takes a minute or two."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from localcloud.hosts import roots
from localcloud.tools import debian
from localcloud.tools.build import Report


@dataclass(frozen=True)
class Programs:
    nspawn: Path
    dnsmasq: Path
    bare: Path
    """Root file system that emulates the AMIs of AWS and Canonical."""
    node: Callable[[str], Path]
    """Maps each major version of Open MPI to the layer with the content of our AMI. Layers for versions other than the
    default are built on first use."""


def prepare_programs(report: Report) -> Programs:
    """Download and build everything that is not cached. Raises BuildError or ImageError."""
    roots.ensure_node_layer(report)
    return Programs(
        nspawn=debian.ensure_package(debian.NSPAWN, report) / "systemd-nspawn",
        dnsmasq=debian.ensure_package(debian.DNSMASQ, report) / "dnsmasq",
        bare=roots.ensure_bare_root(report),
        node=partial(roots.ensure_node_layer, report),
    )
