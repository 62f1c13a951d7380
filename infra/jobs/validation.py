"""What a job may not say, told before anything is created: pure rules over a job and its cluster, all problems at once."""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace

from infra.config.messages import did_you_mean, one_of, shown
from infra.config.problems import Problem, warning, without_echoes
from infra.jobs import hostfile, mpi_environment, openmpi
from infra.jobs import key_exchange as keys
from infra.jobs.cluster import ClusterDescription, NamespaceDescription
from infra.jobs.model import Job
from infra.jobs.mount_paths import problem_of
from infra.jobs.pods import PlacedJob, writable_path
from infra.jobs.quantities import bytes_of, millis_of
from infra.jobs.sizing import workers_per_node

LABEL_LIMIT = 63
STATEFUL_SET_LIMIT = 52
"""Kubernetes adds a hash to its name in a label: https://github.com/kubernetes/kubernetes/issues/64023"""

_DNS_LABEL = re.compile(r"[a-z]([a-z0-9-]*[a-z0-9])?")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_IMAGE = re.compile(r"[a-z0-9]([\w.:/-]*[\w])?(@sha256:[0-9a-f]{64})?", re.ASCII)


def check(job: Job, cluster: ClusterDescription, path: str = "") -> list[Problem]:
    """Every problem of a job; `path` is where a stack file has it (`jobs[0]`)."""
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
        fix = "use lower-case letters, digits and inner hyphens, a letter first"
        yield Problem("name", f"{shown(job.name)} is not a DNS label; {fix}")
        return
    for made, limit in _longest_names(job):
        if len(made) > limit:
            most = len(job.name) - (len(made) - limit)
            yield Problem("name", f"{shown(job.name)} makes {shown(made)}, of {len(made)} characters; use at most {most}")
            return


def _longest_names(job: Job) -> Iterator[tuple[str, int]]:
    """What is called after the job, and how long it may be; the tightest first."""
    last = max(0, job.workers - 1)
    if job.launcher == "torchrun":
        yield f"{job.name}-{last}", LABEL_LIMIT
        return
    if job.launcher == "openmpi":
        yield f"{job.name}-worker", STATEFUL_SET_LIMIT
        yield openmpi.launcher_name(job.name), LABEL_LIMIT
    yield max(hostfile.worker_name(job.name, last), f"{job.name}-launcher", key=len), LABEL_LIMIT


def image(job: Job) -> Iterator[Problem]:
    if not job.image:
        yield Problem("image", "is empty; write one like registry.example.com/train:1")
    elif "://" in job.image:
        yield Problem("image", f"{shown(job.image)} is a URL; write it without {job.image.partition('://')[0]}://")
    elif not _IMAGE.fullmatch(job.image):
        yield Problem("image", f"{shown(job.image)} is not the name of an image; write one like registry.example.com/train:1")
    elif "@" not in job.image and ":" not in job.image.rpartition("/")[2]:
        fix = f"add one, like {job.image}:1"
        yield warning("image", f"{shown(job.image)} has no tag or digest, so a retry may run another image; {fix}")


def program(job: Job) -> Iterator[Problem]:
    if not job.command or not job.command[0]:
        yield Problem("command", "is empty; write the program that every rank runs, like [python3, /shared/train.py]")
    if job.prepare and not job.prepare[0]:
        yield Problem("prepare", "begins with nothing; write a command like [pip, install, --target, /shared/lib, numpy]")


def numbers(job: Job) -> Iterator[Problem]:
    at_least = {
        "workers": (job.workers, 1),
        "gpusPerWorker": (job.gpus_per_worker, 1),
        "slots": (job.slots, 1),
        "ranks": (job.ranks, 1),
        "perNode": (job.per_node, 1),
        "perSocket": (job.per_socket, 1),
        "deadlineSeconds": (job.deadline_seconds, 1),
        "backoffLimit": (job.backoff_limit, 0),
        "ttlSeconds": (job.ttl_seconds, 0),
        "resources.efa": (job.resources.efa, 0),
        "resources.hugepagesMib": (job.resources.hugepages_mib, 0),
        "resources.sharedMemoryMib": (job.resources.shared_memory_mib, 1),
    }
    for path, (value, least) in at_least.items():
        if value is not None and value < least:
            yield Problem(path, f"{value} is too small; write at least {least}")


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
    return f"{shown(value)} is not a quantity; write one like {example}"


def environment(job: Job) -> Iterator[Problem]:
    for section, names in (("env", job.env), ("secretEnv", job.secret_env)):
        for key in names:
            where = f"{section}.{key}"
            if not _VARIABLE.fullmatch(key):
                yield Problem(where, "is not a valid variable name; use letters, digits and _, no digit first")
            elif mpi_environment.is_reserved(key):
                yield Problem(where, "is set by the launcher to place and number ranks; remove it")
            elif section == "secretEnv" and key in job.env:
                yield Problem(where, "is also in env; keep one")


def options_of_launchers(job: Job) -> Iterator[Problem]:
    """Fields that mean nothing to the chosen launcher or MPI."""
    if job.launcher == "torchrun":
        for key, value in (("ranks", job.ranks), ("perSocket", job.per_socket), ("hosts", job.hosts)):
            if value is not None:
                yield Problem(key, "is an option of mpirun, which launcher torchrun does not use; remove it")
    if job.launcher != "mpijob" and job.mpi_implementation != "OpenMPI":
        fix = "write OpenMPI, or launcher: mpijob"
        yield Problem("mpiImplementation", f"{job.mpi_implementation} is not started by launcher {job.launcher}; {fix}")
    if job.launcher != "openmpi" and job.key_exchange != "secret":
        fix = "remove it, or write launcher: openmpi"
        yield Problem("keyExchange", f"{job.key_exchange} is a choice of launcher openmpi only, not of {job.launcher}; {fix}")
    if job.per_socket is not None and job.mpi_implementation != "OpenMPI":
        yield Problem("perSocket", f"is an option of Open MPI only, not of {job.mpi_implementation}; use perNode")
    if job.per_socket is not None and job.needs_horovodrun_options:
        yield Problem("perSocket", "is not an option of horovodrun; use perNode")
    if job.per_socket is not None and job.per_node is not None:
        yield Problem("perSocket", "is given together with perNode; keep one")
    if job.starts_ranks_itself:
        given = {"ranks": job.ranks, "perNode": job.per_node, "perSocket": job.per_socket, "hosts": job.hosts}
        for key, value in given.items():
            if value is not None:
                fix = f"write it there, or remove {job.command[0]}"
                yield Problem(key, f"is ignored, since the command starts ranks itself; {fix}")


def subset(job: Job) -> Iterator[Problem]:
    if job.hosts is None:
        return
    if not job.hosts:
        yield Problem("hosts", "names no worker; write numbers from 0, or remove it")
    for index, number in enumerate(job.hosts):
        if not 0 <= number < max(1, job.workers):
            fitting = f"0 to {job.workers - 1}" if job.workers > 1 else "0"
            yield Problem(f"hosts[{index}]", f"{number} is not one of the {job.workers} workers; write {fitting}")
        elif number in job.hosts[:index]:
            yield Problem(f"hosts[{index}]", f"{number} is listed twice; keep one")


def home(job: Job) -> Iterator[Problem]:
    if not re.fullmatch(r"/[\w./-]*\w", job.home):
        yield Problem("home", f"{shown(job.home)} is not an absolute path; write one like /home/mpiuser")


ALONE: tuple[Callable[[Job], Iterator[Problem]], ...] = (
    name,
    image,
    program,
    numbers,
    amounts,
    environment,
    options_of_launchers,
    subset,
    home,
)

# --- the job in its cluster --------------------------------------------------------------------------------------------


def pool(job: Job, cluster: ClusterDescription) -> Iterator[Problem]:
    names = [pool.name for pool in cluster.pools]
    if job.pool not in names:
        hint = did_you_mean(job.pool, names) or f"; there is {one_of(names)}"
        yield Problem("pool", f"{shown(job.pool)} is not a pool of {cluster.cluster}{hint}")
        return
    found = cluster.pool(job.pool)
    asked = job.gpus_per_worker or 0
    if found and asked > found.gpus:
        if found.gpus:
            yield Problem("gpusPerWorker", f"{asked} is more than the {found.gpus} GPUs of a node of {found.name}; lower it")
        else:
            yield Problem("gpusPerWorker", f"{asked}, but nodes of {found.name} have no GPUs; remove it or choose another pool")


def operator(job: Job, cluster: ClusterDescription) -> Iterator[Problem]:
    if job.launcher == "mpijob" and not cluster.mpi_operator:
        yield Problem("launcher", f"mpijob needs mpi-operator, which {cluster.cluster} does not have; write openmpi or torchrun")


def priority(job: Job, cluster: ClusterDescription) -> Iterator[Problem]:
    namespace = cluster.namespace(job.namespace)
    if job.priority and namespace and job.priority not in namespace.priority_classes:
        known = namespace.priority_classes
        fix = f"write {one_of(known)}{did_you_mean(job.priority, known)}" if known else "remove it"
        yield Problem("priority", f"{shown(job.priority)} is not a priority class for jobs; {fix}")


def namespace(job: Job, cluster: ClusterDescription) -> Iterator[Problem]:
    if job.namespace is not None and not re.fullmatch(r"(?=.{1,63}$)[a-z0-9]([a-z0-9-]*[a-z0-9])?", job.namespace):
        fix = "use lower-case letters, digits and inner hyphens"
        yield Problem("namespace", f"{shown(job.namespace)} is not the name of a namespace; {fix}")


def volumes(job: Job, cluster: ClusterDescription) -> Iterator[Problem]:
    namespace = cluster.namespace(job.namespace)
    known = {volume.name: volume.mount_path for volume in namespace.volumes} if namespace else {}
    taken: dict[str, str] = {"/tmp": "the pod itself", "/dev/shm": "the pod itself", hostfile.DIRECTORY: "the pod itself"}
    for index, mount in enumerate(job.volumes or ()):
        path = mount.mount_path or known.get(mount.name)
        where = f"volumes[{index}]"
        if path is None:
            hint = did_you_mean(mount.name, known)
            yield Problem(f"{where}.mountPath", f"is missing: {shown(mount.name)} is no volume of the cluster; add it{hint}")
        elif path.rstrip("/") in taken:
            yield Problem(f"{where}.mountPath", f"{shown(path)} is used by {taken[path.rstrip('/')]}; choose another")
        elif wrong := problem_of(path):
            yield Problem(f"{where}.mountPath", f"{shown(path)} {wrong}; write one like /data")
        else:
            taken[path.rstrip("/")] = f"volumes[{index}]"


def key_exchange(job: Job, cluster: ClusterDescription) -> Iterator[Problem]:
    if job.launcher != "openmpi" or job.key_exchange == "secret":
        return
    namespace = cluster.namespace(job.namespace) or NamespaceDescription()
    if job.key_exchange == "s3":
        if not namespace.key_bucket:
            fix = "write secret or volume"
            yield Problem("keyExchange", f"s3 needs the key bucket that stacks of target eks make, and this has none; {fix}")
        return
    if writable_path(job, namespace) is None:
        fix = "name a ReadWriteMany volume under volumes, or write secret"
        yield Problem("keyExchange", f"volume needs one that the job may write, and it has none; {fix}")
    if job.clean_pod_policy == "None":
        fix = "write Running, or keyExchange: secret"
        yield Problem("cleanPodPolicy", f"None leaves the key on the volume, since workers that stay need it; {fix}")


OF_CLUSTER: tuple[Callable[[Job, ClusterDescription], Iterator[Problem]], ...] = (
    pool,
    operator,
    priority,
    namespace,
    volumes,
    key_exchange,
)

# --- its size ----------------------------------------------------------------------------------------------------------


def fits_a_node(world: PlacedJob) -> Iterator[Problem]:
    size, pool, factor = world.size, world.pool, world.cluster.cpu_request_factor
    wanted = (
        ("resources.memory", size.memory_mib, pool.memory_mib, "MiB of memory", world.job.resources.memory),
        ("resources.cpu", int(size.cpu_millis * factor), pool.cpu_millis, "thousandths of a CPU", world.job.resources.cpu),
        ("resources.efa", size.efa, pool.efa, "EFA interfaces", world.job.resources.efa),
        (
            "resources.hugepagesMib",
            size.hugepages_mib,
            pool.hugepages_mib,
            "MiB of huge pages",
            world.job.resources.hugepages_mib,
        ),
    )
    for path, each, there, unit, asked in wanted:
        if asked is not None and each > there:
            yield Problem(path, f"{shown(asked)} is more than a node of {pool.name} has for jobs ({there} {unit}); lower it")
    if size.shared_memory_mib > size.memory_mib:
        fix = f"lower it, or raise memory: {size.memory_mib} MiB hold both"
        yield Problem("resources.sharedMemoryMib", f"{size.shared_memory_mib} is more than the worker's memory; {fix}")


def fits_the_pool(world: PlacedJob) -> Iterator[Problem]:
    """A job that needs more workers than the pool can ever have would wait forever."""
    each = workers_per_node(world.job, world.size, world.pool, world.cluster.cpu_request_factor)
    most = each * world.pool.max_size
    if each and world.job.workers > most:
        nodes = f"at most {world.pool.max_size} node{'' if world.pool.max_size == 1 else 's'}"
        holds = f"{each} worker{'' if each == 1 else 's'} per node"
        fix = f"write at most {most}, or raise the pool's maxSize" if most else "raise the pool's maxSize"
        yield Problem("workers", f"{world.job.workers} can never fit: pool {world.pool.name} has {nodes}, {holds}; {fix}")


def fits_the_slots(world: PlacedJob) -> Iterator[Problem]:
    job, slots = world.job, world.size.slots
    if job.starts_ranks_itself:
        return
    for key, value in (("perNode", job.per_node), ("perSocket", job.per_socket)):
        if value is not None and value > slots:
            yield Problem(key, f"{value} is more than the {slots} slots of a worker; lower it or raise slots")
    hosts = job.workers if job.hosts is None else len(job.hosts)
    each = job.per_node if job.per_node is not None and job.per_node <= slots else slots
    if job.ranks is not None and job.ranks > hosts * each:
        fix = f"write at most {hosts * each}, or raise workers or slots"
        yield Problem("ranks", f"{job.ranks} do not fit {hosts} worker{'' if hosts == 1 else 's'} of {each}; {fix}")


def shares_gpus(world: PlacedJob) -> Iterator[Problem]:
    """Some programs do share GPUs between ranks; most slow down or run out of GPU memory."""
    slots, gpus = world.size.slots, world.size.gpus
    if gpus and slots > gpus:
        gpus_text = f"{gpus} GPU{'' if gpus == 1 else 's'}"
        fix = f"write {gpus}, or ignore this if ranks share GPUs on purpose"
        yield warning("slots", f"{slots} ranks would share the {gpus_text} of a worker; {fix}")


def has_room_for_keys(world: PlacedJob) -> Iterator[Problem]:
    """What exchanges keys runs beside the ranks, in the worker's share."""
    least = 2 * keys.FOLLOWER_MEMORY_MIB
    if world.job.key_exchange == "s3" and world.size.memory_mib < least:
        fix = f"raise it to {least}Mi, or write keyExchange: secret"
        yield Problem("resources.memory", f"{world.size.memory_mib} MiB leave no room for keyExchange s3 beside the ranks; {fix}")


OF_WORLD: tuple[Callable[[PlacedJob], Iterator[Problem]], ...] = (
    fits_a_node,
    fits_the_pool,
    fits_the_slots,
    shares_gpus,
    has_room_for_keys,
)
