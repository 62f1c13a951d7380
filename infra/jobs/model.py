"""A job as its author writes it: in a file for `scripts/cluster submit`, or below `gpumpi:jobs` in a stack file."""

from typing import Annotated, Literal

from pydantic import Field

from infra.settings.base import Model, Names

Launcher = Literal["mpijob", "openmpi", "torchrun"]
KeyExchange = Literal["secret", "volume", "s3"]
MpiImplementation = Literal["OpenMPI", "Intel", "MPICH"]

HOROVODRUN = "horovodrun"
WHERE = ("-np", "--num-proc", "-H", "--hosts", "-hostfile", "--hostfile")
"""Options by which horovodrun is told how many ranks to start, and where."""
STARTERS = ("mpirun", "mpiexec", "mpiexec.hydra", HOROVODRUN)
"""Programs that start ranks themselves: a command that begins with one is left as it is, but for horovodrun without those."""


class SecretKey(Model):
    """One value of a Secret in the job's namespace."""

    name: str = Field(examples=["dataset"], description="Name of the Secret.")
    key: str = Field(examples=["password"], description="Key in it.")


class Mount(Model):
    """A volume and where the job sees it."""

    name: str = Field(
        examples=["shared"], description="A volume of the cluster, or a PersistentVolumeClaim of the job's namespace."
    )
    mount_path: str | None = Field(None, description="Where; a volume of the cluster has a usual place.")
    read_only: bool = Field(False, description="Mount it for reading only.")


class Resources(Model):
    """What one worker asks for, where it is not its share of a node."""

    cpu: str | None = Field(None, examples=["8"], description="CPUs, in quotes, like `500m` or `8`.")
    memory: str | None = Field(None, examples=["64Gi"], description="Memory, like `64Gi`.")
    efa: int | None = Field(None, description="EFA interfaces.")
    hugepages_mib: int | None = Field(None, description="Memory in 2 MiB pages, in MiB; 0 for none.")
    shared_memory_mib: int | None = Field(None, description="Size of /dev/shm in MiB; half of the memory by default.")


Mounts = Annotated[tuple[Mount, ...], Field(strict=False)]
Hosts = Annotated[tuple[int, ...], Field(strict=False)]


class Job(Model):
    """Ranks of one program, on the GPUs of a pool."""

    name: str = Field(
        examples=["train"],
        description="DNS label, unique in its namespace; short enough that `NAME-worker-9` has at most 63 characters.",
    )
    launcher: Launcher = Field(
        "mpijob",
        description="`mpijob`: MPI, started by mpi-operator. `openmpi`: Open MPI, without an operator. "
        "`torchrun`: PyTorch's own launcher, without MPI.",
    )
    pool: str = Field(examples=["train"], description="The pool whose nodes do the work.")
    workers: int = Field(examples=[2], description="Pods that hold ranks.")
    image: str = Field(examples=["registry.example.com/train:1"], description="Image of all pods: the program, MPI and sshd.")
    command: Names = Field(
        examples=["[python3, /shared/train.py]"],
        description="The program that every rank runs. One that begins with `mpirun`, `mpiexec` or `horovodrun` runs once, as "
        "it is, in the launcher; `horovodrun` without `-np` and `-H` gets both.",
    )
    gpus_per_worker: int | None = Field(None, description="GPUs of one worker; all of a node by default.")
    slots: int | None = Field(None, description="Ranks that one worker takes; one a GPU by default, without GPUs one a vCPU.")
    mpi_implementation: MpiImplementation = Field("OpenMPI", description="The MPI in the image; Open MPI 4 and 5 both.")
    key_exchange: KeyExchange = Field(
        "secret",
        description="How pods of launcher `openmpi` get the job's SSH key: from a Secret; from the first volume that they "
        "may write, onto which one of them puts a new one; or each makes its own, and `s3` is where they show each other the "
        "public halves.",
    )
    ranks: int | None = Field(None, description="`-np`: ranks in all; every slot by default.")
    per_node: int | None = Field(None, description="`-npernode`: ranks on each worker.")
    per_socket: int | None = Field(None, description="`-npersocket`: ranks on each processor socket of a worker; Open MPI only.")
    hosts: Hosts | None = Field(None, description="Numbers of the workers that get ranks, from 0; all by default.")
    env: dict[str, str] = Field({}, description="Environment of every rank.")
    secret_env: dict[str, SecretKey] = Field({}, description="More of it, from Secrets.")
    volumes: Mounts | None = Field(None, description="What is mounted in every pod; all volumes of the cluster by default.")
    prepare: Names = Field(
        (), description="A command that runs once before the ranks, with the same image, environment and volumes."
    )
    resources: Resources = Field(Resources(), description="What one worker asks for; its share of a node by default.")
    one_per_node: bool = Field(False, description="Never two workers on one node, also where they would fit.")
    namespace: str | None = Field(None, description="Where it runs; the cluster's namespace for jobs by default.")
    priority: str | None = Field(None, description="A priority class.")
    deadline_seconds: int | None = Field(None, description="It is ended as failed after so long; never by default.")
    backoff_limit: int = Field(2, description="How often it is started anew after a failure.")
    ttl_seconds: int | None = Field(
        86400, description="It is removed, its logs too, so long after its end. Jobs of a stack stay until they leave the file."
    )
    clean_pod_policy: Literal["Running", "All", "None"] = Field(
        "Running", description="Workers that go when it ends: those that run, all, or none (they keep their GPUs)."
    )
    home: str = Field("/home/mpiuser", description="Home of the image's user 1000; SSH keys are mounted below it.")
    writable_root: bool = Field(False, description="Ranks may write outside of volumes and /tmp.")

    @property
    def starts_ranks_itself(self) -> bool:
        """Whether the command is no program of a rank, but what starts ranks, and knows how many and where."""
        return bool(self.command) and self.command[0].rpartition("/")[2] in STARTERS and not self.asks_horovodrun

    @property
    def asks_horovodrun(self) -> bool:
        """Whether the command leaves it to us where horovodrun starts ranks."""
        if not self.command or self.command[0].rpartition("/")[2] != HOROVODRUN:
            return False
        return not any(word.partition("=")[0] in WHERE for word in self.command)
