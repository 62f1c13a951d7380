"""Size of a worker: its share of a node's resources, unless the job sets it."""

from dataclasses import dataclass
from fractions import Fraction

from infra.jobs.cluster import PoolDescription
from infra.jobs.model import Job
from infra.jobs.quantities import bytes_of, mib, millis_of
from infra.naming import EFA_RESOURCE, GPU_RESOURCE, HUGEPAGES_RESOURCE

MEBIBYTE = 1024**2


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
        """Return requests and limits. Only the CPU request is scaled, for small nodes that stand in for larger
        nodes."""
        exact = {"memory": mib(self.memory_mib)}
        for name, amount in ((GPU_RESOURCE, self.gpus), (EFA_RESOURCE, self.efa), (self.rdma_resource, self.rdma)):
            if amount:
                exact[name] = str(amount)
        if self.hugepages_mib:
            exact[HUGEPAGES_RESOURCE] = mib(self.hugepages_mib)
        request = max(1, int(self.cpu_millis * cpu_factor))
        return {"requests": {"cpu": f"{request}m", **exact}, "limits": {"cpu": f"{self.cpu_millis}m", **exact}}


def worker_size(job: Job, pool: PoolDescription) -> WorkerSize:
    """Return the worker's resources: those set in the job, or by default a share of the node. The share is proportional
    to the worker's GPUs or, on nodes without GPUs, to its slots."""
    gpus = (job.gpus_per_worker or pool.gpus) if pool.gpus else 0
    slots = job.slots or gpus or pool.slots
    share = Fraction(gpus, pool.gpus) if pool.gpus else min(Fraction(slots, pool.slots), Fraction(1))
    wanted = job.resources
    memory = bytes_of(wanted.memory) // MEBIBYTE if wanted.memory else int(pool.memory_mib * share)
    return WorkerSize(
        gpus=gpus,
        slots=slots,
        efa=int(pool.efa * share) if wanted.efa is None else wanted.efa,
        # round down to whole 2 MiB pages
        hugepages_mib=int(pool.hugepages_mib * share) // 2 * 2 if wanted.hugepages_mib is None else wanted.hugepages_mib,
        memory_mib=memory,
        cpu_millis=millis_of(wanted.cpu) if wanted.cpu else int(pool.cpu_millis * share),
        shared_memory_mib=memory // 2 if wanted.shared_memory_mib is None else wanted.shared_memory_mib,
        # Not a share of the devices: one device of a shared device plugin gives access to all adapters.
        rdma=(1 if pool.rdma_resource else 0) if wanted.rdma is None else wanted.rdma,
        rdma_resource=pool.rdma_resource,
    )


def workers_per_node(job: Job, size: WorkerSize, pool: PoolDescription, cpu_factor: float) -> int:
    """Return the number of workers that fit on one node."""
    if job.one_per_node:
        return 1
    wanted = (
        (pool.gpus, size.gpus),
        (pool.efa, size.efa),
        (pool.rdma_devices, size.rdma),
        (pool.hugepages_mib, size.hugepages_mib),
        (pool.memory_mib, size.memory_mib),
        (pool.cpu_millis, int(size.cpu_millis * cpu_factor)),
    )
    return min((available // each for available, each in wanted if each), default=1)
