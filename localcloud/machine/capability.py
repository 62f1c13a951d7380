"""Check whether this machine can run clusters and hosts. Each check returns an error message, or "" if the check passes."""

import os
import shutil
import sys
from collections.abc import Callable

from localcloud.machine import network


def find_obstacles(who: str, uses: str, *checks: Callable[[], str]) -> tuple[str, ...]:
    """Return the reasons why `who` (clusters or hosts) cannot run on this machine. The checks change nothing. The
    checks are skipped, and the reason is returned, if the system is not Linux or the user is not root."""
    if sys.platform != "linux":
        return (f"{who} need Linux; this is {sys.platform}",)
    if os.geteuid() != 0:
        return (f"{who} need root: {uses}. Start the local cloud as root",)
    return tuple(reason for check in checks if (reason := check()))


def check_programs(*names: str) -> str:
    """Check that these util-linux programs are on PATH."""
    missing = [program for program in names if shutil.which(program) is None]
    return f"{', '.join(missing)} not found on PATH; install the package util-linux" if missing else ""


def check_namespaces() -> str:
    try:
        network.check_network_support()
    except OSError as error:
        return f"cannot create network namespaces and bridges ({error}); start the container with --privileged"
    return ""
