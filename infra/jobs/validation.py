"""Rules that check a job and its cluster before anything is created. The rules are pure functions and report all
problems at once."""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace

from infra.config.messages import format_value, join_with_or, suggest_correction
from infra.config.problems import Problem, create_warning, remove_redundant_problems
from infra.jobs import images, mpi, pod_rules, progress, rank_environment, setup
from infra.jobs.cluster import ClusterDescription
from infra.jobs.model import Job
from infra.jobs.placed import PlacedJob
from infra.jobs.render import LAUNCHERS, place_job
from infra.jobs.sizing import check_quantity, count_workers_per_node
from infra.jobs.volumes import find_home_problem, find_path_problem

_DNS_LABEL = re.compile(r"[a-z]([a-z0-9-]*[a-z0-9])?")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OF_SIZE = frozenset({"workers", "slots", "gpusPerWorker", "resources.cpu", "resources.memory"})
"""Fields on which the size of a worker depends."""


def check_job(job: Job, cluster: ClusterDescription, path: str = "") -> list[Problem]:
    """Return all problems of a job. `path` is the job's path in the stack file (`jobs[0]`)."""
    prefix = f"{path}." if path else ""
    return [replace(problem, path=f"{prefix}{problem.path}") for problem in examine_job(job, cluster)[1]]


def examine_job(job: Job, cluster: ClusterDescription) -> tuple[PlacedJob | None, list[Problem]]:
    """Return the placed job (None if it cannot be placed) and all problems."""
    problems = check_without_cluster(job)
    problems += [problem for rule in IN_CLUSTER for problem in rule(job, cluster)]
    placed = None
    if cluster.pool(job.pool) is not None and not _OF_SIZE & {problem.path for problem in problems if problem.is_error}:
        placed = place_job(job, cluster)
        problems += [problem for rule in PLACED for problem in rule(placed)]
    return placed, remove_redundant_problems(problems)


def check_without_cluster(job: Job) -> list[Problem]:
    """Return the problems that can be found without a cluster."""
    return [problem for rule in ALONE for problem in rule(job)]


# --- the job alone -----------------------------------------------------------------------------------------------------


def check_name(job: Job) -> Iterator[Problem]:
    if not _DNS_LABEL.fullmatch(job.name):
        fix = "Use lowercase letters, digits and inner hyphens, starting with a letter."
        yield Problem("name", f"{format_value(job.name)} is not a DNS label. {fix}")
        return
    for name, limit in LAUNCHERS[job.launcher].list_longest_names(job):
        if len(name) > limit:
            most = len(job.name) - (len(name) - limit)
            yield Problem(
                "name",
                f"{format_value(job.name)} results in {format_value(name)}, which has {len(name)} characters. "
                f"Use at most {most}.",
            )
            return


def check_command(job: Job) -> Iterator[Problem]:
    if not job.command or not job.command[0]:
        yield Problem("command", "is empty. Set the program that every rank runs, such as [python3, /shared/train.py].")


def check_exit_codes(job: Job) -> Iterator[Problem]:
    for index, code in enumerate(job.no_retry_exit_codes):
        if not 1 <= code <= 255:
            yield Problem(f"noRetryExitCodes[{index}]", f"{code} is not an exit code of a failure. Use 1 to 255.")


def check_quantities(job: Job) -> Iterator[Problem]:
    yield from check_quantity("resources.cpu", job.resources.cpu)
    yield from check_quantity("resources.memory", job.resources.memory)


def check_environment(job: Job) -> Iterator[Problem]:
    for section, names in (("env", job.env), ("secretEnv", job.secret_env)):
        for key in names:
            where = f"{section}.{key}"
            if not _VARIABLE.fullmatch(key):
                yield Problem(where, "is not a valid variable name. Use letters, digits and _, and no digit at the start.")
            elif rank_environment.is_reserved_variable(key):
                yield Problem(where, "is set by the launcher to place and number ranks. Remove it.")
            elif section == "secretEnv" and key in job.env:
                yield Problem(where, "is also in env. Remove one.")


def check_launcher(job: Job) -> Iterator[Problem]:
    """Report values that the launcher or the MPI implementation does not support, or that have no effect with it."""
    launcher = LAUNCHERS[job.launcher]
    if job.mpi_implementation not in launcher.mpi_implementations:
        fix = "Use OpenMPI, or launcher: mpijob."
        yield Problem("mpiImplementation", f"{job.mpi_implementation} is not supported by launcher {launcher.name}. {fix}")
    if job.key_exchange not in launcher.key_exchanges:
        fix = "Remove it, or set launcher: standalone."
        message = f"{job.key_exchange} works only with launcher standalone, not with {launcher.name}. {fix}"
        yield Problem("keyExchange", message)
    if job.per_socket is not None and job.mpi_implementation != "OpenMPI":
        yield Problem("perSocket", f"is an option of Open MPI only, not of {job.mpi_implementation}. Use perNode.")
    if job.per_socket is not None and job.needs_horovodrun_options:
        yield Problem("perSocket", "is not an option of horovodrun. Use perNode.")
    if job.per_socket is not None and job.per_node is not None:
        yield Problem("perSocket", "cannot be combined with perNode. Remove one.")
    yield from launcher.check(job)
    yield from pod_rules.check_overrides(job, launcher)


def check_hosts(job: Job) -> Iterator[Problem]:
    if job.hosts is None:
        return
    if not job.hosts:
        yield Problem("hosts", "is empty. List worker indexes, starting at 0, or remove the setting.")
    for index, number in enumerate(job.hosts):
        if not 0 <= number < max(1, job.workers):
            fitting = f"0 to {job.workers - 1}" if job.workers > 1 else "0"
            yield Problem(f"hosts[{index}]", f"{number} is not one of the {job.workers} workers. Use {fitting}.")
        elif number in job.hosts[:index]:
            yield Problem(f"hosts[{index}]", f"{number} is listed twice. Remove one.")


def check_home(job: Job) -> Iterator[Problem]:
    if not re.fullmatch(r"/[\w./-]*\w", job.home):
        yield Problem("home", f"{format_value(job.home)} is not an absolute path. Use one such as /home/mpiuser.")


ALONE: tuple[Callable[[Job], Iterator[Problem]], ...] = (
    check_name,
    images.check_image_name,
    lambda job: images.check_secret_names("imagePullSecrets", job.image_pull_secrets or ()),
    check_command,
    check_exit_codes,
    check_quantities,
    setup.check_setup_settings,
    progress.check_progress_settings,
    check_environment,
    check_launcher,
    check_hosts,
    check_home,
    pod_rules.check_env_from,
    pod_rules.check_working_dir,
)

# --- the job in its cluster --------------------------------------------------------------------------------------------


def check_pool(job: Job, cluster: ClusterDescription) -> Iterator[Problem]:
    names = [candidate.name for candidate in cluster.pools]
    if job.pool not in names:
        hint = suggest_correction(job.pool, names) or f". Choose {join_with_or(names)}."
        yield Problem("pool", f"{format_value(job.pool)} is not a pool of {cluster.cluster}{hint}")
        return
    pool = cluster.pool(job.pool)
    gpus = job.gpus_per_worker or 0
    if pool and gpus > pool.gpus:
        if pool.gpus:
            yield Problem("gpusPerWorker", f"{gpus} exceeds the {pool.gpus} GPUs per node of pool {pool.name}. Lower it.")
        else:
            yield Problem(
                "gpusPerWorker", f"is {gpus}, but nodes of pool {pool.name} have no GPUs. Remove it, or choose another pool."
            )


def check_image_repository(job: Job, cluster: ClusterDescription) -> Iterator[Problem]:
    """Reject short names without a repository: nodes would pull them from Docker Hub, where the name may belong to
    someone else.
    """
    is_short = images.is_short_image_name(job.image) and images.is_valid_repository_name(images.strip_tag_and_digest(job.image))
    if is_short and not cluster.image_repository:
        fix = (
            "Write the full name, such as docker.io/library/ubuntu:24.04, or set platform.imageRepositories (target eks) "
            "or platform.imageRepository and run `pulumi up`."
        )
        yield Problem("image", f"{format_value(job.image)} has no registry, and {cluster.cluster} has no image repository. {fix}")


def check_priority(job: Job, cluster: ClusterDescription) -> Iterator[Problem]:
    namespace = cluster.namespace(job.namespace)
    if job.priority and namespace and job.priority not in namespace.priority_classes:
        classes = namespace.priority_classes
        fix = f"Use {join_with_or(classes)}{suggest_correction(job.priority, classes) or '.'}" if classes else "Remove it."
        yield Problem("priority", f"{format_value(job.priority)} is not a priority class for jobs. {fix}")


def check_namespace(job: Job, cluster: ClusterDescription) -> Iterator[Problem]:
    if job.namespace is not None and not re.fullmatch(r"(?=.{1,63}$)[a-z0-9]([a-z0-9-]*[a-z0-9])?", job.namespace):
        fix = "Use lowercase letters, digits and inner hyphens."
        yield Problem("namespace", f"{format_value(job.namespace)} is not a valid namespace name. {fix}")


def check_volumes(job: Job, cluster: ClusterDescription) -> Iterator[Problem]:
    namespace = cluster.namespace(job.namespace)
    defaults = {volume.name: volume.mount_path for volume in namespace.volumes} if namespace else {}
    taken: dict[str, str] = {"/tmp": "the pod itself", "/dev/shm": "the pod itself", mpi.HOSTFILE_DIRECTORY: "the pod itself"}
    for index, mount in enumerate(job.volumes or ()):
        path = mount.mount_path or defaults.get(mount.name)
        where = f"volumes[{index}]"
        if path is None:
            hint = suggest_correction(mount.name, defaults) or "."
            yield Problem(
                f"{where}.mountPath", f"is missing: {format_value(mount.name)} is not a volume of the cluster. Add it{hint}"
            )
        elif path.rstrip("/") in taken:
            yield Problem(f"{where}.mountPath", f"{format_value(path)} is used by {taken[path.rstrip('/')]}. Choose another.")
        elif wrong := find_path_problem(path) or (
            find_home_problem(path, job.home) if LAUNCHERS[job.launcher].uses_ssh else None
        ):
            yield Problem(f"{where}.mountPath", f"{format_value(path)} {wrong}. Use a path such as /data.")
        else:
            taken[path.rstrip("/")] = f"volumes[{index}]"


IN_CLUSTER: tuple[Callable[[Job, ClusterDescription], Iterator[Problem]], ...] = (
    check_pool,
    check_image_repository,
    lambda job, cluster: LAUNCHERS[job.launcher].check_in_cluster(job, cluster),
    check_priority,
    check_namespace,
    check_volumes,
    setup.check_setup_volume,
    progress.check_progress_file,
)


# --- the size of its workers -------------------------------------------------------------------------------------------


def check_resources(placed: PlacedJob) -> Iterator[Problem]:
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
            yield Problem(path, f"{format_value(requested)} exceeds {there}. Lower it.")
    if size.shared_memory_mib > size.memory_mib:
        fix = "Lower it, or raise memory, which includes it."
        yield Problem(
            "resources.sharedMemoryMib", f"{size.shared_memory_mib} exceeds the worker's memory of {size.memory_mib} MiB. {fix}"
        )


def check_workers_fit(placed: PlacedJob) -> Iterator[Problem]:
    """Reject jobs with more workers than the pool can ever hold: such jobs would wait forever."""
    each = count_workers_per_node(placed.job, placed.size, placed.pool, placed.cluster.cpu_request_factor)
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
        yield create_warning("slots", f"{slots} ranks would share the {gpus_text} of a worker. {fix}")


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


PLACED: tuple[Callable[[PlacedJob], Iterator[Problem]], ...] = (
    check_resources,
    check_workers_fit,
    check_slots,
    check_shared_gpus,
    check_efa,
    lambda placed: placed.launcher.check_size(placed),
)
