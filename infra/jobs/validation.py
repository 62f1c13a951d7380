"""Rules that check a job and its cluster before anything is created. The rules are pure functions and report all
problems at once."""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace

from infra.config.messages import did_you_mean, one_of, shown
from infra.config.problems import Problem, without_echoes
from infra.jobs import (
    hostfile,
    image_rules,
    mpi_environment,
    pod_rules,
    progress_rules,
    setup_rules,
    size_rules,
    standalone,
    starters,
)
from infra.jobs import key_exchange as keys
from infra.jobs.cluster import ClusterDescription, NamespaceDescription
from infra.jobs.model import Job
from infra.jobs.mount_paths import problem_of, problem_of_home
from infra.jobs.pods import PlacedJob, writable_path
from infra.jobs.quantities import bytes_of, millis_of

LABEL_LIMIT = 63
STATEFUL_SET_LIMIT = 52
"""Kubernetes puts a StatefulSet's name and a hash into a label of at most 63 characters:
https://github.com/kubernetes/kubernetes/issues/64023"""

_DNS_LABEL = re.compile(r"[a-z]([a-z0-9-]*[a-z0-9])?")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def check(job: Job, cluster: ClusterDescription, path: str = "") -> list[Problem]:
    """Return all problems of a job. `path` is the job's path in the stack file (`jobs[0]`)."""
    found = [problem for rule in ALONE for problem in rule(job)]
    found += [problem for rule in OF_CLUSTER for problem in rule(job, cluster)]
    wrong = {problem.path for problem in found if problem.is_error}
    if cluster.pool(job.pool) is not None and not wrong & {
        "workers",
        "slots",
        "gpusPerWorker",
        "resources.cpu",
        "resources.memory",
    }:
        world = PlacedJob.of(job, cluster)
        found += [problem for rule in OF_WORLD for problem in rule(world)]
    prefix = f"{path}." if path else ""
    return [replace(problem, path=f"{prefix}{problem.path}") for problem in without_echoes(found)]


# --- the job alone -----------------------------------------------------------------------------------------------------


def name(job: Job) -> Iterator[Problem]:
    if not _DNS_LABEL.fullmatch(job.name):
        fix = "Use lowercase letters, digits and inner hyphens, starting with a letter."
        yield Problem("name", f"{shown(job.name)} is not a DNS label. {fix}")
        return
    for made, limit in _longest_names(job):
        if len(made) > limit:
            most = len(job.name) - (len(made) - limit)
            yield Problem(
                "name", f"{shown(job.name)} results in {shown(made)}, which has {len(made)} characters. Use at most {most}."
            )
            return


def _longest_names(job: Job) -> Iterator[tuple[str, int]]:
    """Yield the longest names derived from the job's name, each with its length limit. The tightest limit comes
    first."""
    last = max(0, job.workers - 1)
    if job.launcher == "torchrun":
        yield f"{job.name}-{last}", LABEL_LIMIT
        return
    if job.launcher == "standalone":
        yield f"{job.name}-worker", STATEFUL_SET_LIMIT
        yield standalone.launcher_name(job.name), LABEL_LIMIT
    yield max(hostfile.worker_name(job.name, last), f"{job.name}-launcher", key=len), LABEL_LIMIT


def program(job: Job) -> Iterator[Problem]:
    if not job.command or not job.command[0]:
        yield Problem("command", "is empty. Set the program that every rank runs, such as [python3, /shared/train.py].")
    if job.setup and not job.setup[0]:
        yield Problem("setup", "begins with an empty string. Use a command such as [pip, install, --target, /shared/lib, numpy].")


def numbers(job: Job) -> Iterator[Problem]:
    at_least = {
        "workers": (job.workers, 1),
        "gpusPerWorker": (job.gpus_per_worker, 1),
        "slots": (job.slots, 1),
        "ranks": (job.ranks, 1),
        "perNode": (job.per_node, 1),
        "perSocket": (job.per_socket, 1),
        "activeDeadlineSeconds": (job.active_deadline_seconds, 1),
        "maxRestarts": (job.max_restarts, 0),
        "terminationGracePeriodSeconds": (job.termination_grace_period_seconds, 1),
        "ttlSecondsAfterFinished": (job.ttl_seconds_after_finished, 0),
        "resources.efa": (job.resources.efa, 0),
        "resources.rdma": (job.resources.rdma, 0),
        "resources.hugepagesMib": (job.resources.hugepages_mib, 0),
        "resources.sharedMemoryMib": (job.resources.shared_memory_mib, 1),
    }
    for path, (value, least) in at_least.items():
        if value is not None and value < least:
            yield Problem(path, f"{value} is too small. Use at least {least}.")


def amounts(job: Job) -> Iterator[Problem]:
    understood: tuple[tuple[str, str | None, Callable[[str], int], str], ...] = (
        ("cpu", job.resources.cpu, millis_of, "500m or 8"),
        ("memory", job.resources.memory, bytes_of, "64Gi"),
    )
    for key, value, parse, example in understood:
        try:
            if value is not None and parse(value) <= 0:
                yield Problem(f"resources.{key}", _no_amount(value, example))
        except ValueError:
            yield Problem(f"resources.{key}", _no_amount(str(value), example))


def _no_amount(value: str, example: str) -> str:
    return f"{shown(value)} is not a quantity. Use one such as {example}."


def environment(job: Job) -> Iterator[Problem]:
    for section, names in (("env", job.env), ("secretEnv", job.secret_env)):
        for key in names:
            where = f"{section}.{key}"
            if not _VARIABLE.fullmatch(key):
                yield Problem(where, "is not a valid variable name. Use letters, digits and _, and no digit at the start.")
            elif mpi_environment.is_reserved(key):
                yield Problem(where, "is set by the launcher to place and number ranks. Remove it.")
            elif section == "secretEnv" and key in job.env:
                yield Problem(where, "is also in env. Remove one.")


def nested_starters(job: Job) -> Iterator[Problem]:
    """Reject commands that start ranks themselves: each rank would start all ranks again."""
    starter = starters.torch_starter(job.command)
    mpi = starters.mpi_of(job.command)
    if starter and job.launcher != "torchrun":
        fix = "Set launcher: torchrun."
        yield Problem("command", f"starts {starter}, which launcher {job.launcher} would run once per rank. {fix}")
    if mpi and job.launcher == "torchrun":
        fix = "Set launcher: mpijob."
        yield Problem("command", f"starts {mpi}, which needs SSH to the workers; launcher torchrun does not set it up. {fix}")


def options_of_launchers(job: Job) -> Iterator[Problem]:
    """Report fields that have no effect with the chosen launcher or MPI implementation."""
    if job.launcher == "torchrun":
        for key, value in (("ranks", job.ranks), ("perSocket", job.per_socket), ("hosts", job.hosts)):
            if value is not None:
                yield Problem(key, "is an option of mpirun, which the torchrun launcher does not use. Remove it.")
    if job.launcher != "mpijob" and job.mpi_implementation != "OpenMPI":
        fix = "Use OpenMPI, or launcher: mpijob."
        yield Problem("mpiImplementation", f"{job.mpi_implementation} is not supported by launcher {job.launcher}. {fix}")
    if job.launcher != "standalone" and job.key_exchange != "secret":
        fix = "Remove it, or set launcher: standalone."
        yield Problem("keyExchange", f"{job.key_exchange} works only with launcher standalone, not with {job.launcher}. {fix}")
    if job.per_socket is not None and job.mpi_implementation != "OpenMPI":
        yield Problem("perSocket", f"is an option of Open MPI only, not of {job.mpi_implementation}. Use perNode.")
    if job.per_socket is not None and job.needs_horovodrun_options:
        yield Problem("perSocket", "is not an option of horovodrun. Use perNode.")
    if job.per_socket is not None and job.per_node is not None:
        yield Problem("perSocket", "cannot be combined with perNode. Remove one.")
    if job.starts_ranks_itself:
        given = {"ranks": job.ranks, "perNode": job.per_node, "perSocket": job.per_socket, "hosts": job.hosts}
        for key, value in given.items():
            if value is not None:
                starter = starters.mpi_of(job.command)
                fix = f"Set it in the command, or remove {starter} from the command."
                yield Problem(key, f"is ignored because the command starts ranks itself. {fix}")


def rank_prefix(job: Job) -> Iterator[Problem]:
    if job.rank_prefix and job.launcher != "torchrun" and (job.starts_ranks_itself or job.needs_horovodrun_options):
        yield Problem(
            "rankPrefix", "has no effect, because the command starts the ranks. Remove it, or add --tag-output to the command."
        )


def subset(job: Job) -> Iterator[Problem]:
    if job.hosts is None:
        return
    if not job.hosts:
        yield Problem("hosts", "is empty. List worker indexes, starting at 0, or remove it.")
    for index, number in enumerate(job.hosts):
        if not 0 <= number < max(1, job.workers):
            fitting = f"0 to {job.workers - 1}" if job.workers > 1 else "0"
            yield Problem(f"hosts[{index}]", f"{number} is not one of the {job.workers} workers. Use {fitting}.")
        elif number in job.hosts[:index]:
            yield Problem(f"hosts[{index}]", f"{number} is listed twice. Remove one.")


def home(job: Job) -> Iterator[Problem]:
    if not re.fullmatch(r"/[\w./-]*\w", job.home):
        yield Problem("home", f"{shown(job.home)} is not an absolute path. Use one such as /home/mpiuser.")


ALONE: tuple[Callable[[Job], Iterator[Problem]], ...] = (
    name,
    image_rules.name,
    image_rules.pull_secrets,
    program,
    numbers,
    amounts,
    setup_rules.alone,
    progress_rules.alone,
    environment,
    nested_starters,
    options_of_launchers,
    rank_prefix,
    subset,
    home,
    *pod_rules.RULES,
)

# --- the job in its cluster --------------------------------------------------------------------------------------------


def pool(job: Job, cluster: ClusterDescription) -> Iterator[Problem]:
    names = [pool.name for pool in cluster.pools]
    if job.pool not in names:
        hint = did_you_mean(job.pool, names) or f". Choose {one_of(names)}."
        yield Problem("pool", f"{shown(job.pool)} is not a pool of {cluster.cluster}{hint}")
        return
    found = cluster.pool(job.pool)
    asked = job.gpus_per_worker or 0
    if found and asked > found.gpus:
        if found.gpus:
            yield Problem("gpusPerWorker", f"{asked} exceeds the {found.gpus} GPUs per node of pool {found.name}. Lower it.")
        else:
            yield Problem(
                "gpusPerWorker", f"is {asked}, but nodes of pool {found.name} have no GPUs. Remove it, or choose another pool."
            )


def operator(job: Job, cluster: ClusterDescription) -> Iterator[Problem]:
    if job.launcher == "mpijob" and not cluster.mpi_operator:
        yield Problem(
            "launcher", f"mpijob needs mpi-operator, which {cluster.cluster} does not have. Use standalone or torchrun."
        )


def mpich(job: Job, cluster: ClusterDescription) -> Iterator[Problem]:
    found = cluster.pool(job.pool)
    if found and found.transport == "infiniband" and job.mpi_implementation == "MPICH":
        fix = "Use OpenMPI or Intel."
        yield Problem("mpiImplementation", f"MPICH is not supported on pool {found.name}, which uses InfiniBand. {fix}")


def priority(job: Job, cluster: ClusterDescription) -> Iterator[Problem]:
    namespace = cluster.namespace(job.namespace)
    if job.priority and namespace and job.priority not in namespace.priority_classes:
        known = namespace.priority_classes
        fix = f"Use {one_of(known)}{did_you_mean(job.priority, known) or '.'}" if known else "Remove it."
        yield Problem("priority", f"{shown(job.priority)} is not a priority class for jobs. {fix}")


def namespace(job: Job, cluster: ClusterDescription) -> Iterator[Problem]:
    if job.namespace is not None and not re.fullmatch(r"(?=.{1,63}$)[a-z0-9]([a-z0-9-]*[a-z0-9])?", job.namespace):
        fix = "Use lowercase letters, digits and inner hyphens."
        yield Problem("namespace", f"{shown(job.namespace)} is not a valid namespace name. {fix}")


def volumes(job: Job, cluster: ClusterDescription) -> Iterator[Problem]:
    namespace = cluster.namespace(job.namespace)
    known = {volume.name: volume.mount_path for volume in namespace.volumes} if namespace else {}
    taken: dict[str, str] = {"/tmp": "the pod itself", "/dev/shm": "the pod itself", hostfile.DIRECTORY: "the pod itself"}
    for index, mount in enumerate(job.volumes or ()):
        path = mount.mount_path or known.get(mount.name)
        where = f"volumes[{index}]"
        if path is None:
            hint = did_you_mean(mount.name, known) or "."
            yield Problem(f"{where}.mountPath", f"is missing: {shown(mount.name)} is not a volume of the cluster. Add it{hint}")
        elif path.rstrip("/") in taken:
            yield Problem(f"{where}.mountPath", f"{shown(path)} is used by {taken[path.rstrip('/')]}. Choose another.")
        elif wrong := problem_of(path) or (problem_of_home(path, job.home) if job.launcher != "torchrun" else None):
            yield Problem(f"{where}.mountPath", f"{shown(path)} {wrong}. Use a path such as /data.")
        else:
            taken[path.rstrip("/")] = f"volumes[{index}]"


def key_exchange(job: Job, cluster: ClusterDescription) -> Iterator[Problem]:
    if job.launcher != "standalone" or job.key_exchange == "secret":
        return
    namespace = cluster.namespace(job.namespace) or NamespaceDescription()
    if job.key_exchange == "s3":
        if not namespace.key_bucket:
            fix = "Use secret or volume."
            yield Problem(
                "keyExchange", f"s3 needs the key bucket that stacks with target eks create, and this cluster has none. {fix}"
            )
        return
    if writable_path(job, namespace) is None:
        fix = "List a ReadWriteMany volume under volumes, or use secret."
        yield Problem("keyExchange", f"volume needs a writable volume, but the job has none. {fix}")
    if job.clean_pod_policy == "None":
        fix = "Use Running, or keyExchange: secret."
        yield Problem("cleanPodPolicy", f"None leaves the key on the volume, because the remaining workers need it. {fix}")


OF_CLUSTER: tuple[Callable[[Job, ClusterDescription], Iterator[Problem]], ...] = (
    pool,
    image_rules.repository,
    operator,
    mpich,
    priority,
    namespace,
    volumes,
    setup_rules.controller,
    setup_rules.volume,
    progress_rules.file,
    key_exchange,
)

# --- its size ----------------------------------------------------------------------------------------------------------


def has_room_for_keys(world: PlacedJob) -> Iterator[Problem]:
    """Check that the worker has enough memory for the key exchange sidecar."""
    least = 2 * keys.FOLLOWER_MEMORY_MIB
    if world.job.key_exchange == "s3" and world.size.memory_mib < least:
        fix = f"Raise it to {least}Mi, or use keyExchange: secret."
        yield Problem("resources.memory", f"{world.size.memory_mib} MiB leaves no room for the sidecar of keyExchange s3. {fix}")


OF_WORLD: tuple[Callable[[PlacedJob], Iterator[Problem]], ...] = (
    *size_rules.OF_WORLD,
    has_room_for_keys,
)
