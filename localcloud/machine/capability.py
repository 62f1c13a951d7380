"""What this machine must have before anything comes alive on it. Each question is answered by what is missing, or by nothing."""

import os
import shutil
import sys
from collections.abc import Callable

from localcloud.machine import network


def obstacles(who: str, uses: str, *questions: Callable[[], str]) -> tuple[str, ...]:
    """Why `who` cannot be here, in sentences; none where they can. Questions are for root on Linux, and change nothing."""
    if sys.platform != "linux":
        return (f"{who} need Linux, this is {sys.platform}",)
    if os.geteuid() != 0:
        return (f"{who} need root: {uses}; start it as root",)
    return tuple(reason for question in questions if (reason := question()))


def programs(*names: str) -> str:
    """Of util-linux."""
    missing = [program for program in names if shutil.which(program) is None]
    return f"{', '.join(missing)} of util-linux is not on PATH" if missing else ""


def namespaces() -> str:
    try:
        network.try_out()
    except OSError as error:
        return f"this root may not make network namespaces and bridges ({error}): a container needs --privileged for that"
    return ""
