"""Fill the cache with the programs and roots of hosts, with progress: it takes a minute or two."""

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
    """Return the root of images by AWS or Canonical."""
    node: Callable[[str], Path]
    """Return our AMI's layer by major version of Open MPI; the first host with an unusual one has it built."""


def prepare(report: Report) -> Programs:
    """Fetch or build what the cache lacks. Raises BuildError, ImageError."""
    roots.node(report)
    return Programs(
        nspawn=debian.ensure(debian.NSPAWN, report) / "systemd-nspawn",
        dnsmasq=debian.ensure(debian.DNSMASQ, report) / "dnsmasq",
        bare=roots.bare(report),
        node=partial(roots.node, report),
    )
