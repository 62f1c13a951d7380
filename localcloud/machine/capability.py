"""Requirements of this machine for clusters and hosts. Each check returns what is missing, or an empty string."""

import os
import shutil
import sys
from collections.abc import Callable

from localcloud.machine import network


def obstacles(who: str, uses: str, *checks: Callable[[], str]) -> tuple[str, ...]:
    """Reasons why `who` cannot run here, as sentences, if any. Checks need root on Linux and change nothing."""
    if sys.platform != "linux":
        return (f"{who} need Linux, this is {sys.platform}",)
    if os.geteuid() != 0:
        return (f"{who} need root: {uses}; start it as root",)
    return tuple(reason for check in checks if (reason := check()))


def programs(*names: str) -> str:
    """Check that these programs of util-linux are on PATH."""
    missing = [program for program in names if shutil.which(program) is None]
    return f"{', '.join(missing)} of util-linux is not on PATH" if missing else ""


def namespaces() -> str:
    try:
        network.try_out()
    except OSError as error:
        return f"root may not create network namespaces and bridges here ({error}); start the container with --privileged"
    return ""
