"""Manifests for `launcher: torchrun`: an Indexed Job. The Job's pods find the first pod by DNS name, without MPI or
SSH.

https://docs.pytorch.org/docs/stable/elastic/run.html
"""

from collections.abc import Sequence
from typing import Final

from infra.jobs import mpi_environment, rank_environment, starters
from infra.jobs.in_pods import shell
from infra.jobs.mpijob import pod_metadata
from infra.jobs.pod_templates import overridden
from infra.jobs.pods import NODE_NAME, Manifest, PlacedJob, container, on_pool, shared_memory

PORT: Final = rank_environment.MASTER_PORT
BOTH_STREAMS: Final = "3"
"""Value of torchrun's `--tee`: print stdout and stderr of each rank, with the rank as prefix."""
DEEPSPEED_HOSTFILE: Final = "/tmp/hostfile"
"""rendezvous.sh writes this file."""


def torchrun_job(placed: PlacedJob) -> list[Manifest]:
    """Return the headless Service, which gives pods DNS names, and the Job."""
    return [_service(placed), _job(placed)]


def _service(placed: PlacedJob) -> Manifest:
    """Return the Service. The Service also publishes DNS names of pods that are not ready, because ranks look up the
    first pod while that pod starts."""
    name = placed.job.name
    spec = {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "selector": {"batch.kubernetes.io/job-name": name},
        "ports": [{"name": "rendezvous", "port": PORT}],
    }
    return {"apiVersion": "v1", "kind": "Service", "metadata": placed.metadata(name, "service"), "spec": spec}


def _job(placed: PlacedJob) -> Manifest:
    job = placed.job
    metadata = placed.queued_metadata(job.name, "job")
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata,
        "spec": {
            "completionMode": "Indexed",
            "completions": job.workers,
            "parallelism": job.workers,
            # A lost pod breaks the collectives of all other pods, so every pod of an attempt may fail.
            "backoffLimit": job.max_restarts * job.workers,
            "podReplacementPolicy": "Failed",
            **placed.time_limits,
            "template": overridden(placed, "worker", {"metadata": pod_metadata(placed, "worker"), "spec": _pod(placed)}),
        },
    }


def _pod(placed: PlacedJob) -> Manifest:
    more: Manifest = {}
    if placed.prepares:
        made = container(placed, "prepare", shell("first_only.sh", *placed.job.setup), {}, resources=_resources(placed))
        more["initContainers"] = [made]
    return on_pool(placed, [_ranks(placed)], subdomain=placed.job.name, restartPolicy="Never", **more)


def _resources(placed: PlacedJob) -> Manifest:
    return placed.size.resources(placed.cluster.cpu_request_factor)


def _ranks(placed: PlacedJob) -> Manifest:
    job = placed.job
    environment = {
        **rank_environment.of_ranks(placed.pool),
        "GLOO_SOCKET_IFNAME": mpi_environment.INTERFACE,
        # Data loaders fork, which fails with ENOMEM while libfabric holds huge pages: fi_efa(7).
        **({"FI_EFA_USE_HUGE_PAGE": "0"} if placed.pool.nccl_transport == "efa" else {}),
        "MASTER_ADDR": f"{job.name}-0.{job.name}.{placed.namespace.name}.svc",
        "MASTER_PORT": str(PORT),
        rank_environment.STOP_SIGNAL: job.checkpoint_signal.removeprefix("SIG"),
        "NNODES": str(job.workers),
        "NPROC_PER_NODE": str(_ranks_per_node(placed)),
        **({"PET_TEE": BOTH_STREAMS} if job.rank_prefix else {}),
    }
    made = container(
        placed,
        "worker",
        shell("rendezvous.sh", *_command(placed)),
        environment,
        ports=[{"name": "rendezvous", "containerPort": PORT}],
        resources=_resources(placed),
    )
    made["env"].append(NODE_NAME)
    made["volumeMounts"].append(shared_memory())
    return made


def _ranks_per_node(placed: PlacedJob) -> int:
    return placed.job.per_node or placed.size.slots


def _command(placed: PlacedJob) -> list[str]:
    """Return the command that starts a node's ranks: one of the job's own starters, or `torchrun PROGRAM`.

    rendezvous.sh sets PET_* variables, from which torchrun reads options that are missing on its command line. For
    other starters, this module inserts options before the user's options, which take precedence. PyTorch 1 spells
    options with underscores.
    """
    command = placed.job.command
    if starters.in_shell(command):
        return list(command)
    if found := starters.split(command):
        starter, words, arguments = found
        return [*words, *_options(starter, placed, arguments), *arguments]
    return ["torchrun", *([] if command[0].endswith(".py") or command[0] == "-m" else ["--no_python"]), *command]


_ONE_OF: Final = frozenset({"cpu", "multi_gpu", "tpu", "use_deepspeed", "use_fsdp", "use_megatron_lm", "use_xpu", "config_file"})
"""Options of `accelerate launch` that conflict with `--multi_gpu`, or may set it."""


def _options(starter: starters.Starter, placed: PlacedJob, arguments: Sequence[str]) -> list[str]:
    """Return the options for a starter that reads no PET_* variables. Kubernetes expands `$(NAME)`.

    - https://huggingface.co/docs/accelerate/package_reference/cli
    - https://github.com/deepspeedai/DeepSpeed/blob/master/deepspeed/launcher/runner.py
    """
    if starter == "accelerate":
        total = placed.job.workers * _ranks_per_node(placed)
        given = {word.partition("=")[0].lstrip("-").replace("-", "_") for word in arguments if word.startswith("--")}
        return [
            f"--num_machines={placed.job.workers}",
            f"--num_processes={total}",
            "--machine_rank=$(JOB_COMPLETION_INDEX)",
            "--main_process_ip=$(MASTER_ADDR)",
            "--main_process_port=$(MASTER_PORT)",
            *(["--multi_gpu"] if placed.size.gpus and total > 1 and not given & _ONE_OF else []),
            # By default, accelerate runs DeepSpeed on several nodes through pdsh and SSH.
            *(["--deepspeed_multinode_launcher=standard"] if given & {"use_deepspeed", "config_file"} else []),
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
