"""Rules for the size of a job's workers: what fits on a node and in its pool, and each worker's share."""

from collections.abc import Callable, Iterator

from infra.config.messages import shown
from infra.config.problems import Problem, warning
from infra.jobs.placed import PlacedJob
from infra.jobs.sizing import workers_per_node


def check_node(placed: PlacedJob) -> Iterator[Problem]:
    size, pool, factor = placed.size, placed.pool, placed.cluster.cpu_request_factor
    limits = (
        ("resources.memory", size.memory_mib, pool.memory_mib, "MiB of memory", placed.job.resources.memory),
        ("resources.cpu", int(size.cpu_millis * factor), pool.cpu_millis, "thousandths of a CPU", placed.job.resources.cpu),
        ("resources.efa", size.efa, pool.efa, "EFA interfaces", placed.job.resources.efa),
        ("resources.rdma", size.rdma, pool.rdma_devices, "RDMA devices", placed.job.resources.rdma),
        (
            "resources.hugepagesMib",
            size.hugepages_mib,
            pool.hugepages_mib,
            "MiB of huge pages",
            placed.job.resources.hugepages_mib,
        ),
    )
    for path, each, available, unit, requested in limits:
        if requested is not None and each > available:
            there = f"what a node in pool {pool.name} has available for jobs ({available} {unit})"
            yield Problem(path, f"{shown(requested)} exceeds {there}. Lower it.")
    if size.shared_memory_mib > size.memory_mib:
        fix = "Lower it, or raise memory, which includes it."
        yield Problem(
            "resources.sharedMemoryMib", f"{size.shared_memory_mib} exceeds the worker's memory of {size.memory_mib} MiB. {fix}"
        )


def check_pool(placed: PlacedJob) -> Iterator[Problem]:
    """Reject jobs with more workers than the pool can ever hold: such jobs would wait forever."""
    each = workers_per_node(placed.job, placed.size, placed.pool, placed.cluster.cpu_request_factor)
    most = each * placed.pool.max_size
    if each and placed.job.workers > most:
        nodes = f"at most {placed.pool.max_size} node{'' if placed.pool.max_size == 1 else 's'}"
        holds = f"{each} worker{'' if each == 1 else 's'} per node"
        fix = f"Use at most {most}, or raise the pool's maxSize." if most else "Raise the pool's maxSize."
        yield Problem("workers", f"{placed.job.workers} can never fit: pool {placed.pool.name} has {nodes}, {holds}. {fix}")


def check_slots(placed: PlacedJob) -> Iterator[Problem]:
    job, slots = placed.job, placed.size.slots
    if job.starts_ranks_itself:
        return
    for key, value in (("perNode", job.per_node), ("perSocket", job.per_socket)):
        if value is not None and value > slots:
            yield Problem(key, f"{value} exceeds the {slots} slots of a worker. Lower it, or raise slots.")
    hosts = job.workers if job.hosts is None else len(job.hosts)
    each = job.per_node if job.per_node is not None and job.per_node <= slots else slots
    if job.ranks is not None and job.ranks > hosts * each:
        fix = f"Use at most {hosts * each}, or raise workers or slots."
        yield Problem(
            "ranks", f"{job.ranks} ranks do not fit on {hosts} worker{'' if hosts == 1 else 's'} with {each} each. {fix}"
        )


def check_shared_gpus(placed: PlacedJob) -> Iterator[Problem]:
    """Warn if ranks share GPUs. Few programs are designed for this; most slow down or run out of GPU memory."""
    slots, gpus = placed.size.slots, placed.size.gpus
    if gpus and slots > gpus:
        gpus_text = f"{gpus} GPU{'' if gpus == 1 else 's'}"
        fix = f"Use {gpus}, or ignore this if ranks share GPUs on purpose."
        yield warning("slots", f"{slots} ranks would share the {gpus_text} of a worker. {fix}")


def check_efa(placed: PlacedJob) -> Iterator[Problem]:
    """Reject workers whose share of the node is too small for an EFA interface: such workers would silently use TCP."""
    job, pool = placed.job, placed.cluster.pool(placed.job.pool)
    if pool is None or "efa" not in (pool.transport, pool.nccl_transport):
        return
    if job.workers > 1 and not placed.size.efa and job.resources.efa is None:
        unit, share = (
            ("GPUs", f"{placed.size.gpus} of {pool.gpus}") if pool.gpus else ("slots", f"{placed.size.slots} of {pool.slots}")
        )
        fix = "Use larger workers, or set resources.efa to 1, or to 0 to use TCP."
        yield Problem("resources.efa", f"a worker with {share} {unit} gets none of the node's {pool.efa} EFA interfaces. {fix}")


RULES: tuple[Callable[[PlacedJob], Iterator[Problem]], ...] = (
    check_node,
    check_pool,
    check_slots,
    check_shared_gpus,
    check_efa,
)
