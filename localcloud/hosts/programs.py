"""What hosts run and start from, brought into the cache while somebody watches: it takes a minute or two."""

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
    """The root of images that AWS or Canonical made."""
    node: Callable[[str], Path]
    """The layer on top that our AMI has, by the major version of Open MPI; made when a first host wants another than usual."""


def prepare(report: Report) -> Programs:
    """Fetch or make what the cache lacks. Raises BuildError, ImageError."""
    roots.node(report)
    return Programs(
        nspawn=debian.ensure(debian.NSPAWN, report) / "systemd-nspawn",
        dnsmasq=debian.ensure(debian.DNSMASQ, report) / "dnsmasq",
        bare=roots.bare(report),
        node=partial(roots.node, report),
    )
