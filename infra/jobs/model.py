"""Model of a job, as written in a file for `scripts/cluster submit` or under `gpumpi:jobs` in a stack file."""

from typing import Annotated, Literal

from pydantic import Field

from infra.settings.base import Model, Names

Launcher = Literal["mpijob", "openmpi", "torchrun"]
KeyExchange = Literal["secret", "volume", "s3"]
MpiImplementation = Literal["OpenMPI", "Intel", "MPICH"]

HOROVODRUN = "horovodrun"
RANK_OPTIONS = ("-np", "--num-proc", "-H", "--hosts", "-hostfile", "--hostfile")
"""Options of horovodrun that set the number of ranks and their hosts."""
STARTERS = ("mpirun", "mpiexec", "mpiexec.hydra", HOROVODRUN)
"""Programs that start ranks themselves. Commands that begin with one run unchanged, except horovodrun without those
options."""


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
    """Resources of one worker; fields that are not set default to its share of a node."""

    cpu: str | None = Field(None, examples=["8"], description="CPUs, in quotes, such as `500m` or `8`.")
    memory: str | None = Field(None, examples=["64Gi"], description="Memory, such as `64Gi`.")
    efa: int | None = Field(None, description="EFA interfaces.")
    hugepages_mib: int | None = Field(None, description="Memory in 2 MiB huge pages, given in MiB; 0 for none.")
    shared_memory_mib: int | None = Field(None, description="Size of /dev/shm in MiB; half of the worker's memory by default.")


Mounts = Annotated[tuple[Mount, ...], Field(strict=False)]
Hosts = Annotated[tuple[int, ...], Field(strict=False)]


class Job(Model):
    """A job: ranks of one program, on the nodes of a pool."""

    name: str = Field(
        examples=["train"],
        description="Job name: a DNS label, unique in its namespace, such that `NAME-worker-9` has at most 63 characters.",
    )
    launcher: Launcher = Field(
        "mpijob",
        description="`mpijob`: MPI started by mpi-operator. `openmpi`: Open MPI without an operator. "
        "`torchrun`: PyTorch's own launcher, without MPI.",
    )
    pool: str = Field(examples=["train"], description="Pool of the workers.")
    workers: int = Field(examples=[2], description="Number of pods that run ranks.")
    image: str = Field(
        examples=["registry.example.com/train:1"], description="Image of all pods, with the program, MPI and sshd."
    )
    command: Names = Field(
        examples=["[python3, /shared/train.py]"],
        description="Program that every rank runs. A command that begins with `mpirun`, `mpiexec` or `horovodrun` runs once, "
        "unchanged, in the launcher; `horovodrun` without `-np` and `-H` gets both options.",
    )
    gpus_per_worker: int | None = Field(None, description="GPUs per worker; by default all GPUs of a node.")
    slots: int | None = Field(None, description="Ranks per worker; by default one per GPU, or one per vCPU without GPUs.")
    mpi_implementation: MpiImplementation = Field(
        "OpenMPI", description="MPI implementation in the image; `OpenMPI` stands for Open MPI 4 and 5."
    )
    key_exchange: KeyExchange = Field(
        "secret",
        description="How pods of launcher `openmpi` get SSH keys. `secret`: one key for all, from a Secret. `volume`: one key "
        "for all, created by one pod on the first writable volume. `s3`: one key per pod; pods publish public keys in a bucket.",
    )
    ranks: int | None = Field(None, description="`-np`: total number of ranks; all slots by default.")
    per_node: int | None = Field(None, description="`-npernode`: ranks on each worker.")
    per_socket: int | None = Field(None, description="`-npersocket`: ranks on each processor socket of a worker; Open MPI only.")
    hosts: Hosts | None = Field(None, description="Indexes of the workers that run ranks, starting at 0; all by default.")
    env: dict[str, str] = Field({}, description="Environment variables of every rank.")
    secret_env: dict[str, SecretKey] = Field({}, description="Environment variables from Secrets.")
    volumes: Mounts | None = Field(None, description="Volumes mounted in every pod; all volumes of the cluster by default.")
    prepare: Names = Field(
        (), description="Command that runs once before the ranks, with the same image, environment and volumes."
    )
    resources: Resources = Field(Resources(), description="Resources of one worker; its share of a node by default.")
    one_per_node: bool = Field(False, description="Run at most one worker per node, even if more would fit.")
    namespace: str | None = Field(None, description="Namespace of the job; the cluster's first job namespace by default.")
    priority: str | None = Field(None, description="Priority class.")
    deadline_seconds: int | None = Field(None, description="Time limit in seconds after which the job fails; none by default.")
    backoff_limit: int = Field(2, description="Number of retries after a failure.")
    ttl_seconds: int | None = Field(
        86400,
        description="Seconds after which a finished job is deleted, with its logs. Jobs of a stack stay until they are removed "
        "from the stack file.",
    )
    clean_pod_policy: Literal["Running", "All", "None"] = Field(
        "Running",
        description="Workers to delete when the job ends: running ones, all or none. Remaining workers keep their GPUs.",
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
        """True if the command itself starts the ranks, and sets their number and hosts."""
        return bool(self.command) and self.command[0].rpartition("/")[2] in STARTERS and not self.needs_horovodrun_options

    @property
    def needs_horovodrun_options(self) -> bool:
        """True if the command is horovodrun without options for the number of ranks and their hosts."""
        if not self.command or self.command[0].rpartition("/")[2] != HOROVODRUN:
            return False
        return not any(word.partition("=")[0] in RANK_OPTIONS for word in self.command)
