"""`launcher: torchrun`: an Indexed Job. The Job's pods find the first pod by DNS name, without MPI or SSH.

https://docs.pytorch.org/docs/stable/elastic/run.html
"""

from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar, Final

from infra.config.problems import Problem
from infra.jobs import rank_environment, starters
from infra.jobs.containers import UserContainer, build_worker_resources
from infra.jobs.launchers.mpi import LABEL_LIMIT
from infra.jobs.model import Job, LauncherName
from infra.jobs.placed import KeyPair, Launcher, Manifest, PlacedJob, Role
from infra.jobs.pods import build_user_pod

PORT: Final = rank_environment.MASTER_PORT
BOTH_STREAMS: Final = "3"
"""Value of torchrun's `--tee`: print stdout and stderr of each rank, with the rank as prefix."""
DEEPSPEED_HOSTFILE: Final = "/tmp/hostfile"
"""rendezvous.sh writes this file."""


class TorchrunLauncher(Launcher):
    """PyTorch's launcher runs in each worker. The log of the job is that of the first worker."""

    name: ClassVar[LauncherName] = "torchrun"
    roles: ClassVar[tuple[Role, ...]] = ("worker",)
    uses_ssh: ClassVar[bool] = False

    def build(self, placed: PlacedJob, generate_keys: Callable[[], KeyPair]) -> list[Manifest]:
        job = placed.job
        template = build_user_pod(placed, _build_worker_container(placed), subdomain=job.name, restartPolicy="Never")
        manifest = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": placed.build_main_metadata(job.name),
            "spec": {
                "completionMode": "Indexed",
                "completions": job.workers,
                "parallelism": job.workers,
                # Kubernetes waits 10 seconds before it retries an index, and doubles the wait each time. With one limit
                # for all indexes, Kubernetes would count all failed pods of an attempt, and wait 10 minutes after 8
                # workers failed.
                "backoffLimitPerIndex": placed.attempts,
                "maxFailedIndexes": 0,
                "podReplacementPolicy": "Failed",
                **placed.deadline,
                **placed.ttl_fields,
                **placed.suspend_fields,
                "template": template,
            },
        }
        # Ranks look up the first pod while it starts, so pods that are not ready have DNS names too.
        pods = {"batch.kubernetes.io/job-name": job.name}
        return [manifest, placed.build_service(pods, "rendezvous", PORT, publishNotReadyAddresses=True)]

    def list_longest_names(self, job: Job) -> Iterator[tuple[str, int]]:
        yield f"{job.name}-{max(0, job.workers - 1)}", LABEL_LIMIT

    def check(self, job: Job) -> Iterator[Problem]:
        if starter := starters.find_any_mpi_starter(job.command):
            fix = "Set launcher: mpijob."
            message = f"starts {starter}, which needs SSH to the workers; launcher torchrun does not set it up. {fix}"
            yield Problem("command", message)
        for key, value in (("ranks", job.ranks), ("perSocket", job.per_socket), ("hosts", job.hosts)):
            if value is not None:
                yield Problem(key, "is an option of mpirun, which the torchrun launcher does not use. Remove it.")


def _build_worker_container(placed: PlacedJob) -> UserContainer:
    job = placed.job
    environment = {
        **rank_environment.build_variables(placed.pool),
        "GLOO_SOCKET_IFNAME": rank_environment.INTERFACE,
        # Data loaders fork, which fails with ENOMEM while libfabric holds huge pages: fi_efa(7).
        **({"FI_EFA_USE_HUGE_PAGE": "0"} if placed.pool.nccl_transport == "efa" else {}),
        "MASTER_ADDR": f"{job.name}-0.{job.name}.{placed.namespace.name}.svc",
        "MASTER_PORT": str(PORT),
        rank_environment.STOP_SIGNAL: job.checkpoint_signal.removeprefix("SIG"),
        "NNODES": str(job.workers),
        "NPROC_PER_NODE": str(_count_ranks_per_node(placed)),
        **({"PET_TEE": BOTH_STREAMS} if job.rank_prefix else {}),
    }
    ports = ({"name": "rendezvous", "containerPort": PORT},)
    return UserContainer(
        "worker", "rendezvous.sh", _build_start_command(placed), build_worker_resources(placed), environment, ports=ports
    )


def _count_ranks_per_node(placed: PlacedJob) -> int:
    return placed.job.per_node or placed.size.slots


def _build_start_command(placed: PlacedJob) -> list[str]:
    """Return the command that starts a node's ranks: one of the job's own starters, or `torchrun PROGRAM`.

    rendezvous.sh sets PET_* variables, from which torchrun reads options that are missing on its command line. For other
    starters, this module inserts options before the user's options, so that the user's take precedence. PyTorch 1 spells
    options with underscores.
    """
    command = placed.job.command
    if starters.find_torch_starter_in_shell(command):
        return list(command)
    if parts := starters.split_command(command):
        starter, words, arguments = parts
        return [*words, *_build_starter_options(starter, placed, arguments), *arguments]
    return ["torchrun", *([] if command[0].endswith(".py") or command[0] == "-m" else ["--no_python"]), *command]


_ONE_OF: Final = frozenset({"cpu", "multi_gpu", "tpu", "use_deepspeed", "use_fsdp", "use_megatron_lm", "use_xpu", "config_file"})
"""Options of `accelerate launch` that conflict with `--multi_gpu` or may set that option."""


def _build_starter_options(starter: starters.Starter, placed: PlacedJob, arguments: Sequence[str]) -> list[str]:
    """Return the options for a starter that reads no PET_* variables. Kubernetes expands `$(NAME)`.

    - https://huggingface.co/docs/accelerate/package_reference/cli
    - https://github.com/deepspeedai/DeepSpeed/blob/master/deepspeed/launcher/runner.py
    """
    if starter == "accelerate":
        total = placed.job.workers * _count_ranks_per_node(placed)
        options = {word.partition("=")[0].lstrip("-").replace("-", "_") for word in arguments if word.startswith("--")}
        return [
            f"--num_machines={placed.job.workers}",
            f"--num_processes={total}",
            "--machine_rank=$(JOB_COMPLETION_INDEX)",
            "--main_process_ip=$(MASTER_ADDR)",
            "--main_process_port=$(MASTER_PORT)",
            *(["--multi_gpu"] if placed.size.gpus and total > 1 and not options & _ONE_OF else []),
            # By default, accelerate runs DeepSpeed on several nodes through pdsh and SSH.
            *(["--deepspeed_multinode_launcher=standard"] if options & {"use_deepspeed", "config_file"} else []),
        ]
    if starter == "deepspeed":
        return [
            f"--hostfile={DEEPSPEED_HOSTFILE}",
            "--no_ssh",
            "--node_rank=$(JOB_COMPLETION_INDEX)",
            "--master_addr=$(MASTER_ADDR)",
            "--master_port=$(MASTER_PORT)",
        ]
    return []
