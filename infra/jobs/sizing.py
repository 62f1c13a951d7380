"""Resources: Kubernetes quantities, and the size of a worker, which is its share of a node unless the job sets it.

https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from fractions import Fraction

from infra.config.messages import format_value
from infra.config.problems import Problem
from infra.jobs.cluster import PoolDescription
from infra.jobs.model import Job
from infra.naming import EFA_RESOURCE, GPU_RESOURCE, HUGEPAGES_RESOURCE

MEBIBYTE = 1024**2


def parse_bytes(text: str) -> int:
    """
    >>> parse_bytes("64Gi"), parse_bytes("1.5k"), parse_bytes("12e6")
    (68719476736, 1500, 12000000)
    """
    return int(_parse_quantity(text))


def parse_millicores(text: str) -> int:
    """Return a CPU quantity in millicores.

    >>> parse_millicores("500m"), parse_millicores("8"), parse_millicores("0.5")
    (500, 8000, 500)
    """
    return int(_parse_quantity(text) * 1000)


def _parse_quantity(text: str) -> Decimal:
    """Raises ValueError."""
    from kubernetes.utils import parse_quantity  # imported here because it takes 0.5 s, and most commands parse no quantity

    if not text.isascii() or any(character.isspace() or character == "_" for character in text):
        raise ValueError(text)
    try:
        amount: Decimal = parse_quantity(text)
    except InvalidOperation:
        raise ValueError(text) from None
    if not math.isfinite(amount):
        raise ValueError(text)
    return amount


def format_mib(amount: int) -> str:
    """
    >>> format_mib(512)
    '512Mi'
    """
    return f"{amount}Mi"


def check_quantity(path: str, value: str | None) -> Iterator[Problem]:
    """Reject a text that is not a positive quantity. The last part of `path` is `cpu` or `memory`."""
    parse, example = (parse_millicores, "500m or 8") if path.endswith("cpu") else (parse_bytes, "64Gi")
    try:
        is_valid = value is None or parse(value) > 0
    except ValueError:
        is_valid = False
    if not is_valid:
        yield Problem(path, f"{format_value(value)} is not a quantity. Use one such as {example}.")


def build_resources(cpu_millis: int, cpu_limit: str, exact: dict[str, str], cpu_factor: float) -> dict[str, dict[str, str]]:
    """Return requests and limits. Only the CPU request is scaled, for small nodes that are used in place of larger nodes."""
    request = max(1, int(cpu_millis * cpu_factor))
    return {"requests": {"cpu": f"{request}m", **exact}, "limits": {"cpu": cpu_limit, **exact}}


@dataclass(frozen=True)
class WorkerSize:
    """Resources of a worker, before CPU requests are scaled."""

    gpus: int
    slots: int
    efa: int
    hugepages_mib: int
    memory_mib: int
    cpu_millis: int
    shared_memory_mib: int
    rdma: int = 0
    rdma_resource: str = ""

    def resources(self, cpu_factor: float) -> dict[str, dict[str, str]]:
        """Return requests and limits. Only the CPU request is scaled, for small nodes that are used in place of larger nodes."""
        exact = {"memory": format_mib(self.memory_mib)}
        for name, amount in ((GPU_RESOURCE, self.gpus), (EFA_RESOURCE, self.efa), (self.rdma_resource, self.rdma)):
            if amount:
                exact[name] = str(amount)
        if self.hugepages_mib:
            exact[HUGEPAGES_RESOURCE] = format_mib(self.hugepages_mib)
        return build_resources(self.cpu_millis, f"{self.cpu_millis}m", exact, cpu_factor)


def compute_worker_size(job: Job, pool: PoolDescription) -> WorkerSize:
    """Return the worker's resources: those set in the job, or by default a share of the node. The share is proportional
    to the worker's GPUs or, on nodes without GPUs, to its slots."""
    gpus = (job.gpus_per_worker or pool.gpus) if pool.gpus else 0
    slots = job.slots or gpus or pool.slots
    share = Fraction(gpus, pool.gpus) if pool.gpus else min(Fraction(slots, pool.slots), Fraction(1))
    requested = job.resources
    memory = parse_bytes(requested.memory) // MEBIBYTE if requested.memory else int(pool.memory_mib * share)
    return WorkerSize(
        gpus=gpus,
        slots=slots,
        efa=int(pool.efa * share) if requested.efa is None else requested.efa,
        # round down to whole 2 MiB pages
        hugepages_mib=int(pool.hugepages_mib * share) // 2 * 2 if requested.hugepages_mib is None else requested.hugepages_mib,
        memory_mib=memory,
        cpu_millis=parse_millicores(requested.cpu) if requested.cpu else int(pool.cpu_millis * share),
        shared_memory_mib=memory // 2 if requested.shared_memory_mib is None else requested.shared_memory_mib,
        # This is not a share of the devices: one device of a shared device plugin gives access to all adapters.
        rdma=(1 if pool.rdma_resource else 0) if requested.rdma is None else requested.rdma,
        rdma_resource=pool.rdma_resource,
    )


def count_workers_per_node(job: Job, size: WorkerSize, pool: PoolDescription, cpu_factor: float) -> int:
    """Return the number of workers that fit on one node."""
    if job.one_per_node:
        return 1
    shares = (
        (pool.gpus, size.gpus),
        (pool.efa, size.efa),
        (pool.rdma_devices, size.rdma),
        (pool.hugepages_mib, size.hugepages_mib),
        (pool.memory_mib, size.memory_mib),
        (pool.cpu_millis, int(size.cpu_millis * cpu_factor)),
    )
    return min((available // each for available, each in shares if each), default=1)
