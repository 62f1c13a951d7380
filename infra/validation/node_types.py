"""Rules for instance types on which nodes cannot do their work: too small for launchers or workers, without Linux, or
with hardware that this program does not support yet."""

import re
from collections.abc import Iterator
from dataclasses import replace

from infra.config.messages import shown
from infra.config.problems import Problem, warning
from infra.facts.instance_types import InstanceType
from infra.facts.model import Facts
from infra.jobs.containers import LAUNCHER_CPU_MILLIS, LAUNCHER_MEMORY_MIB
from infra.plan.allocatable import for_jobs
from infra.plan.eks_pools import HUGE_PAGES_MIB
from infra.plan.placement import has_efa
from infra.settings.stack import Settings
from infra.validation.pool_paths import head_path, pools_with_types

WORKER_MEMORY_MIB = 256
"""Memory of the smallest useful worker: the SSH server, the MPI runtime and one small rank."""

_NVLINK_DOMAIN = re.compile(r"(u-)?p6e[a-z0-9-]*\..*")
"""Instances of NVL72 UltraServers share one NVLink domain (IMEX), which pods join through a ComputeDomain:
https://docs.aws.amazon.com/eks/latest/userguide/ml-eks-nvidia-ultraserver.html"""


def supported(settings: Settings, facts: Facts) -> Iterator[Problem]:
    head = facts.instance_types.get(settings.target.head_type)
    named = [(head_path(settings), head)] if head else []
    named += [(f"{path}.instanceType", instance) for path, _, instance in pools_with_types(settings, facts)]
    for where, instance in named:
        if not instance.runs_linux:
            fix = "Choose a type such as m7i.large."
            yield Problem(where, f"{shown(instance.name)} runs only macOS, but nodes run Linux. {fix}")
        elif _shares_nvlink(instance):
            needs = "shares an NVLink domain with other instances, which needs IMEX, a ComputeDomain and arm64 images"
            fix = "This program does not support them yet. Choose a type such as p6-b200.48xlarge."
            yield Problem(where, f"{shown(instance.name)} {needs}. {fix}")
        elif instance.has_neuron:
            effect = "this program does not install the Neuron device plugin, so jobs can use only the CPUs"
            fix = "Choose a type with NVIDIA GPUs, such as g5.xlarge, or one without accelerators."
            yield warning(where, f"{shown(instance.name)} has AWS Neuron accelerators, but {effect}. {fix}")


def _shares_nvlink(instance: InstanceType) -> bool:
    """Types with arm64 CPUs, NVIDIA GPUs and EFA are parts of UltraServers; g5g has no EFA."""
    is_grace = instance.architecture == "arm64" and instance.has_nvidia_gpus and instance.efa_maximum > 0
    return is_grace or bool(_NVLINK_DOMAIN.fullmatch(instance.name))


def launchers(settings: Settings, facts: Facts) -> Iterator[Problem]:
    """Check that a launcher fits on a system node: otherwise every MPI job would wait forever."""
    instance = facts.instance_types.get(settings.target.head_type)
    if instance is None or settings.platform.install is False:
        return
    cpu_millis = int(LAUNCHER_CPU_MILLIS * settings.platform.cpu_request_factor)
    left = for_jobs(instance, is_system=True)
    if left.cpu_millis < cpu_millis or left.memory_mib < LAUNCHER_MEMORY_MIB:
        needs = f"a launcher needs {cpu_millis}m CPU and {LAUNCHER_MEMORY_MIB} MiB"
        there = f"a node has only {left.cpu_millis}m and {left.memory_mib} MiB left"
        size = f"{_vcpus(instance, cpu_millis)} vCPUs and {_gib(instance, LAUNCHER_MEMORY_MIB, is_system=True)} GiB"
        yield Problem(
            head_path(settings),
            f"{shown(instance.name)} is too small: {needs}, but {there}. Use a type with at least {size}, such as m7i.large.",
        )


def workers(settings: Settings, facts: Facts) -> Iterator[Problem]:
    """Check that a worker fits on a node of each pool."""
    if settings.platform.install is False:
        return
    for path, pool, instance in pools_with_types(settings, facts):
        pages_mib = HUGE_PAGES_MIB if has_efa(pool, instance) else 0
        left = for_jobs(instance, huge_pages_mib=pages_mib)
        if left.memory_mib < WORKER_MEMORY_MIB:
            needs = f"a worker needs at least {WORKER_MEMORY_MIB} MiB, but a node has only {left.memory_mib} MiB left"
            fix = f"Use a type with at least {_gib(instance, WORKER_MEMORY_MIB, pages_mib)} GiB, such as g5.xlarge."
            yield Problem(f"{path}.instanceType", f"{shown(instance.name)} is too small: {needs}. {fix}")


def _vcpus(instance: InstanceType, millis: int) -> int:
    """Return the number of vCPUs with which such a system node has room for the CPU request."""
    fits = (number for number in (1, 2, 4) if for_jobs(replace(instance, vcpus=number), is_system=True).cpu_millis >= millis)
    return max(instance.vcpus, next(fits))


def _gib(instance: InstanceType, memory_mib: int, pages_mib: int = 0, *, is_system: bool = False) -> int:
    """Return the memory with which such a node has room for the request: a power of 2, as the sizes of a family have."""
    gib = 1
    while (
        for_jobs(replace(instance, memory_mib=gib * 1024), huge_pages_mib=pages_mib, is_system=is_system).memory_mib < memory_mib
    ):
        gib *= 2
    return gib
