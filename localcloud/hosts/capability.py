"""Whether this machine can run instances as hosts, and how many."""

import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass

import psutil

from localcloud.machine import capability

VARIABLE = "GPUMPI_LOCAL_HOSTS"
USUAL_HOSTS = 4
BYTES_PER_HOST = 1 << 30
"""Memory for a host and its workload; the system of an idle host uses a tenth of it."""


class BadLimit(Exception):
    """The limit is not a number; the text says how to set it."""


@dataclass(frozen=True)
class Capability:
    """What this machine lacks to run hosts; empty if nothing is missing."""

    missing: tuple[str, ...]

    @property
    def hosts(self) -> bool:
        return not self.missing

    def __str__(self) -> str:
        if self.hosts:
            return "EC2 instances run here as hosts"
        return f"EC2 instances are only records here: {'; '.join(self.missing)}"


def examine() -> Capability:
    """Check this machine without changing it."""
    uses = "network namespaces, mounts and a system of their own"
    return Capability(capability.obstacles("hosts", uses, _architecture, _programs, capability.namespaces))


def limit(environment: Mapping[str, str] = os.environ, memory: int | None = None) -> int:
    """Return the maximum number of hosts; further instances exist only as records. Raises BadLimit."""
    text = environment.get(VARIABLE, "")
    if text and not text.isdecimal():
        raise BadLimit(f"{VARIABLE}={text!r} is not a number of hosts. Set it to a number such as 4")
    total = psutil.virtual_memory().total if memory is None else memory
    return int(text) if text else max(1, min(USUAL_HOSTS, total // BYTES_PER_HOST))


def _architecture() -> str:
    machine = platform.machine()
    return "" if machine == "x86_64" else f"roots for hosts exist only for x86_64; this machine is {machine}"


def _programs() -> str:
    return capability.programs("nsenter", "unshare", "mount", "setpriv")
