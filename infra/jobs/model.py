"""Model of a job, as written in a file for `scripts/cluster submit` or under `gpumpi:jobs` in a stack file."""

from typing import Annotated, Literal

from pydantic import Field, NonNegativeInt, PositiveInt

from infra.config.models import Model, Names
from infra.jobs import starters
from infra.jobs.in_pods import PROGRESS_PATTERN
from infra.jobs.pod_overrides import EnvSource, RoleOverrides

LauncherName = Literal["mpijob", "standalone", "torchrun"]
KeyExchange = Literal["secret", "volume", "s3"]
MpiImplementation = Literal["OpenMPI", "Intel", "MPICH"]
CheckpointSignal = Literal["SIGTERM", "SIGINT", "SIGUSR1", "SIGUSR2"]

RANK_OPTIONS = ("-np", "--num-proc", "-H", "--hosts", "-hostfile", "--hostfile")
"""Options of horovodrun that set the number of ranks and the hosts."""


class SecretKey(Model):
    """One key of a Secret in the job's namespace."""

    name: str = Field(examples=["dataset"], description="Name of the Secret.")
    key: str = Field(examples=["password"], description="Key in the Secret.")


class Mount(Model):
    """A volume and its mount path."""

    name: str = Field(
        examples=["shared"], description="A volume of the cluster, or a PersistentVolumeClaim in the job's namespace."
    )
    mount_path: str | None = Field(None, description="Mount path; optional for volumes of the cluster, which have a default.")
    read_only: bool = Field(False, description="Mount the volume read-only.")


class Resources(Model):
    """Resources of one worker; fields that are not set default to the worker's share of a node."""

    cpu: str | None = Field(None, examples=["8"], description="CPUs, in quotes, such as `500m` or `8`.")
    memory: str | None = Field(None, examples=["64Gi"], description="Memory, such as `64Gi`.")
    efa: NonNegativeInt | None = Field(None, description="EFA interfaces. With 0, MPI and NCCL use TCP.")
    rdma: NonNegativeInt | None = Field(None, description="RDMA devices, on pools with `rdmaResource`; 1 by default.")
    hugepages_mib: NonNegativeInt | None = Field(None, description="Memory in 2 MiB huge pages, given in MiB; 0 for none.")
    shared_memory_mib: PositiveInt | None = Field(
        None, description="Size of /dev/shm in MiB; half of the worker's memory by default."
    )


class SetupResources(Model):
    """Resources of `setup`."""

    cpu: str = Field("2", description="CPUs, in quotes, such as `500m` or `8`.")
    memory: str = Field("1Gi", description="Memory, such as `64Gi`.")


class Progress(Model):
    """Settings for how the job controller reads the steps of a job."""

    pattern: str | None = Field(
        None,
        examples=["'step (\\d+)'"],
        description="Python regular expression that finds the step number in a line of the job's log, in the group `step` or, "
        "without such a group, in the first group. If carriage returns divide a line, as in progress bars, the last part with a "
        "step counts. Further groups are optional: `saved`, the seconds that the last checkpoint "
        "took; `slowest`, the rank that computed longest, and `ratio`, its time divided by the median of all ranks.",
    )
    file: str | None = Field(
        None,
        examples=["/shared/step"],
        description="Alternative to `pattern`: file on a volume of the job to which a rank writes the step number.",
    )
    within: str = Field(
        examples=["10m"],
        description="Maximum time between two steps, including checkpoints and evaluations, such as `90s`, `10m` or `1h`; at "
        "least `30s`. If a step takes longer, the job restarts.",
    )

    @property
    def line_pattern(self) -> str:
        """Regular expression that finds the step in a line of the log."""
        return self.pattern if self.pattern is not None else PROGRESS_PATTERN


Mounts = Annotated[tuple[Mount, ...], Field(strict=False)]
Hosts = Annotated[tuple[int, ...], Field(strict=False)]


class Job(Model):
    """A job: ranks of one program, on the nodes of a pool."""

    name: str = Field(
        examples=["train"],
        description="Job name: a DNS label, unique in its namespace, such that `NAME-worker-9` has at most 63 characters.",
    )
    generate_name: str | None = Field(
        None,
        examples=["train-"],
        description="Prefix of the job's name if `name` is not set; `submit` appends five random characters.",
    )
    launcher: LauncherName = Field(
        "mpijob",
        description="`mpijob`: MPI started by mpi-operator. `standalone`: Open MPI without an operator. "
        "`torchrun`: PyTorch's own launcher, without MPI.",
    )
    pool: str = Field(examples=["train"], description="Pool of the workers.")
    workers: PositiveInt = Field(examples=[2], description="Number of pods that run ranks.")
    image: str = Field(
        examples=["registry.example.com/train:1"],
        description="Image of all pods, with the program, MPI and sshd. A short name "
        "such as `train:1` refers to the cluster's image repository.",
    )
    image_pull_secrets: Names | None = Field(
        None,
        examples=["[registry-login]"],
        description="Names of Secrets in the job's namespace that nodes use to pull the image; the cluster's by default.",
    )
    command: Names = Field(
        examples=["[python3, /shared/train.py]"],
        description="Program that every rank runs. A command that begins with `mpirun`, `mpiexec` or `horovodrun`, even inside "
        "`sh -c`, runs once, unchanged, in the launcher; `horovodrun` without `-np` and `-H` gets both options, except inside "
        "`sh -c`. With `launcher: torchrun`, a command that begins with `torchrun`, `accelerate launch` or `deepspeed` runs once "
        "per worker; missing options are added.",
    )
    gpus_per_worker: PositiveInt | None = Field(None, description="GPUs per worker; by default all GPUs of a node.")
    slots: PositiveInt | None = Field(None, description="Ranks per worker; by default one per GPU, or one per vCPU without GPUs.")
    mpi_implementation: MpiImplementation = Field(
        "OpenMPI", description="MPI implementation in the image; `OpenMPI` stands for Open MPI 4 and 5."
    )
    key_exchange: KeyExchange = Field(
        "secret",
        description="How pods of launcher `standalone` get SSH keys. `secret`: one key for all, from a Secret. `volume`: one key "
        "for all, created by one pod on the first writable volume. `s3`: one key per pod; pods publish public keys in a bucket.",
    )
    ranks: PositiveInt | None = Field(None, description="`-np`: total number of ranks; all slots by default.")
    per_node: PositiveInt | None = Field(None, description="`-npernode`: ranks on each worker.")
    per_socket: PositiveInt | None = Field(
        None, description="`-npersocket`: ranks on each processor socket of a worker; Open MPI only."
    )
    hosts: Hosts | None = Field(None, description="Indexes of the workers that run ranks, starting at 0; all by default.")
    rank_prefix: bool = Field(
        False, description="Prefix each line of output with the number of its rank; with `torchrun`, with the local rank."
    )
    env: dict[str, str] = Field({}, description="Environment variables of every rank.")
    secret_env: dict[str, SecretKey] = Field({}, description="Environment variables from Secrets.")
    env_from: Annotated[tuple[EnvSource, ...], Field(strict=False)] = Field(
        (),
        examples=["[{secretRef: {name: dataset}}]"],
        description="ConfigMaps and Secrets whose keys all become environment variables; `env` and `secretEnv` take "
        "precedence. With MPI, multiline values reach only the launcher.",
    )
    working_dir: str | None = Field(
        None, examples=["/shared/code"], description="Folder in which ranks and `setup` start; the image's by default."
    )
    volumes: Mounts | None = Field(None, description="Volumes mounted in every pod; all volumes of the cluster by default.")
    workdir: str | None = Field(
        None,
        examples=["."],
        description="Folder on your machine, relative to the job file. `submit` sends it to the first writable cluster volume "
        "that the job mounts, or, without such a volume, to the stack's bucket. Ranks start in this folder.",
    )
    setup: Names = Field(
        (),
        description="Command that runs once before the ranks, with the same image, environment and volumes. `setup` is a "
        "separate Job, and only what it writes to volumes reaches the ranks.",
    )
    setup_resources: SetupResources = Field(SetupResources(), description="Resources of `setup`, which gets no GPUs.")
    setup_deadline_seconds: PositiveInt = Field(
        3600, description="Time limit of `setup` in seconds, excluding time in the queue."
    )
    resources: Resources = Field(Resources(), description="Resources of one worker; its share of a node by default.")
    pod_overrides: RoleOverrides = Field(
        RoleOverrides(), description="Additions to the pods of each role, limited to what Pod Security `restricted` allows."
    )
    one_per_node: bool = Field(False, description="Run at most one worker per node, even if more would fit.")
    namespace: str | None = Field(None, description="Namespace of the job; the cluster's first job namespace by default.")
    priority: str | None = Field(None, description="Priority class.")
    active_deadline_seconds: PositiveInt | None = Field(
        None,
        description="Time limit in seconds after which the job fails; none by default.",
    )
    max_restarts: NonNegativeInt = Field(
        2,
        description="Number of restarts after failures. All ranks restart together. Lost nodes, drains and preemption do not "
        "count.",
    )
    no_retry_exit_codes: Annotated[tuple[int, ...], Field(strict=False)] = Field(
        (),
        examples=["[3]"],
        description="Exit codes of the program that fail the job at once, without a restart.",
    )
    progress: Progress | None = Field(
        None,
        description="Where to read the job's current step, and the maximum time for one step. A job that exceeds this time "
        "restarts, which counts as a failure.",
    )
    termination_grace_period_seconds: PositiveInt = Field(
        30,
        description="Seconds that ranks have to save their work after `checkpointSignal`, when a pod of the job is deleted, "
        "drained or preempted, or the job is canceled or reaches its deadline.",
    )
    checkpoint_signal: CheckpointSignal = Field(
        "SIGTERM",
        description="Signal that tells ranks to save their work before they are terminated: `SIGTERM`, `SIGINT`, "
        "`SIGUSR1` or `SIGUSR2`.",
    )
    ttl_seconds_after_finished: NonNegativeInt | None = Field(
        86400,
        description="Seconds after which a finished job is deleted, with its logs. Jobs of a stack stay until they are removed "
        "from the stack file.",
    )
    clean_pod_policy: Literal["Running", "All", "None"] = Field(
        "Running",
        description="Workers to delete when the job ends: running ones, all or none. Workers that remain keep their GPUs.",
    )
    home: str = Field(
        "/home/mpiuser", description="Home directory of user 1000 in the image; SSH keys are mounted in its `.ssh`."
    )
    writable_root: bool = Field(False, description="Allow ranks to write outside volumes and /tmp.")

    @property
    def user(self) -> str:
        """Name of user 1000 in the image: the last part of `home`."""
        return self.home.rstrip("/").rpartition("/")[2]

    @property
    def starts_ranks_itself(self) -> bool:
        """True if the command itself starts the ranks, and sets the number of ranks and the hosts."""
        if starters.find_mpi_starter_in_shell(self.command):
            return True
        return starters.find_mpi_starter(self.command) is not None and not self.needs_horovodrun_options

    @property
    def needs_horovodrun_options(self) -> bool:
        """True if the command is horovodrun without options for the number of ranks and the hosts."""
        if starters.find_mpi_starter(self.command) != starters.HOROVODRUN:
            return False
        return not any(word.partition("=")[0] in RANK_OPTIONS for word in self.command)


StackJobs = Annotated[
    tuple[Job, ...],
    Field(
        strict=False,
        description="Jobs that run once; `pulumi up` does not wait for them to finish. All fields: docs/reference/job-fields.md. "
        "Change: a changed job is deleted and runs again; a job removed from the file is deleted.",
    ),
]
"""Jobs in a stack file."""
