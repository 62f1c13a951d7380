"""Check whether this machine can run EC2 instances as hosts, and how many."""

import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass

import psutil

from localcloud.machine import capability

VARIABLE = "GPUMPI_LOCAL_HOSTS"
USUAL_HOSTS = 4
BYTES_PER_HOST = 1 << 30
"""Memory per host, including its workload. An idle host uses a tenth of this."""


class BadLimit(Exception):
    """The value of GPUMPI_LOCAL_HOSTS is not a number."""


@dataclass(frozen=True)
class Capability:
    """Reasons why this machine cannot run hosts; empty if it can."""

    missing: tuple[str, ...]

    @property
    def hosts(self) -> bool:
        return not self.missing

    def __str__(self) -> str:
        if self.hosts:
            return "EC2 instances run as local hosts"
        return f"EC2 instances exist only as API records: {'; '.join(self.missing)}"


def check_machine() -> Capability:
    """Check this machine without changing it."""
    uses = "each host has its own network namespace, mounts and systemd"
    return Capability(capability.find_obstacles("hosts", uses, _check_architecture, _check_programs, capability.check_namespaces))


def read_host_limit(environment: Mapping[str, str] = os.environ, memory: int | None = None) -> int:
    """Return the maximum number of hosts. Instances beyond this number exist only as API records. Raises BadLimit."""
    text = environment.get(VARIABLE, "")
    if text and not text.isdecimal():
        raise BadLimit(f"{VARIABLE}={text!r} is not a number. Set it to the maximum number of hosts, such as 4")
    total = psutil.virtual_memory().total if memory is None else memory
    return int(text) if text else max(1, min(USUAL_HOSTS, total // BYTES_PER_HOST))


def _check_architecture() -> str:
    machine = platform.machine()
    return "" if machine == "x86_64" else f"hosts run only on x86_64; this machine is {machine}"


def _check_programs() -> str:
    return capability.check_programs("nsenter", "unshare", "mount", "setpriv")
