"""Checks that acceptance runs on an EKS cluster, and the pools that they use. Each check becomes a row of the report."""

import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from cli.clusters.acceptance import aws_reads, eks_nodes, own_jobs, smoke_levels, target
from cli.clusters.acceptance.eks_nodes import Scaling
from cli.clusters.acceptance.own_jobs import JobWorld
from cli.clusters.acceptance.report import Check, LeftOut, Notebook
from cli.clusters.acceptance.target import Bill, Cost, Options, Plan
from cli.clusters.kubernetes_access import Access
from cli.clusters.status.cluster_status import PoolStatus
from cli.clusters.status.in_aws import EksAccount
from cli.errors import CommandError, NotFound
from cli.exit_codes import REFUSED
from cli.jobs import objects
from cli.stacks import kubeconfig_command
from infra.config.stack_file import RawStack
from infra.facts.clients import Clients
from infra.jobs.cluster import ClusterDescription, PoolDescription
from infra.jobs.smoke import Level
from infra.naming import Naming
from infra.settings.platform import PlatformSettings

WORKERS = 2


@dataclass(frozen=True)
class Choice:
    """The pools of a run."""

    smoke: PoolDescription
    """Pool of the smoke test and of the job that loses a worker."""
    workers: int
    scale: PoolDescription | None
    """Pool to scale from zero; None if no pool can be scaled to zero."""

    def list_node_starts(self, there: Mapping[str, int]) -> list[tuple[PoolDescription, int]]:
        """Return how many nodes the run may add to each pool, given the number of ready nodes."""
        most = [(self.smoke, self.workers)]
        if self.scale is not None and self.scale.name != self.smoke.name:
            most.append((self.scale, 1))
        return [(pool, number - there.get(pool.name, 0)) for pool, number in most if number > there.get(pool.name, 0)]

    def describe_node_starts(self, there: Mapping[str, int]) -> list[str]:
        """Return sentences about the nodes that the run starts and removes."""
        started = [f"{number} x {pool.instance_type} in pool {pool.name}" for pool, number in self.list_node_starts(there)]
        text = [f"starts {', '.join(started)}; the autoscaler removes them again"] if started else ["starts no nodes"]
        if self.scale is not None and there.get(self.scale.name, 0):
            text.append(f"waits until the autoscaler has removed the nodes of pool {self.scale.name}, then adds one again")
        return text


def choose_pools(
    described: ClusterDescription,
    there: Mapping[str, int],
    in_aws: Mapping[str, PoolStatus],
    *,
    pool: str | None = None,
    scale_pool: str | None = None,
) -> Choice:
    """Return the pools to use. Prefers pools whose nodes already run, because each new node costs money."""
    compute = [candidate for candidate in described.pools if candidate.name != described.launcher_pool] or list(described.pools)
    smoke = objects.find_pool(pool, compute) if pool else choose_smoke_pool(compute, there)
    scale = objects.find_pool(scale_pool, compute) if scale_pool else choose_scale_pool(compute, in_aws)
    return Choice(smoke, min(WORKERS, smoke.max_size), scale)


def choose_smoke_pool(pools: Sequence[PoolDescription], there: Mapping[str, int]) -> PoolDescription:
    """Return the best pool. Prefer pools with GPUs, then pools with enough running nodes, then pools with room for two
    nodes. If several pools are equal, return the first one in the stack file.
    """

    def rank_pool(pool: PoolDescription) -> tuple[bool, bool, bool]:
        return not pool.gpus, there.get(pool.name, 0) < WORKERS, pool.max_size < WORKERS

    return min(pools, key=rank_pool)


def choose_scale_pool(pools: Sequence[PoolDescription], in_aws: Mapping[str, PoolStatus]) -> PoolDescription | None:
    """Return an empty pool or, if there is none, a pool that may be scaled to zero."""
    can = [
        candidate for candidate in pools if candidate.max_size and (status := in_aws.get(candidate.name)) and status.min_size == 0
    ]
    return next((candidate for candidate in can if not in_aws[candidate.name].wanted), can[0] if can else None)


VERSIONS: Final = "AMI and Kubernetes versions"
DEVICES: Final = "device plugins and advertised devices"
DRIVERS: Final = "NVIDIA driver, CUDA and EFA versions"
SMOKE: Final = "smoke test, level"
KILLED: Final = "a job that loses a worker still finishes"
SCALE: Final = "scale from zero and back"
RETRIES: Final = 4
"""Retries of the job that loses a worker. A deleted pod's name stays in use for a while, so some attempts may fail."""


class EksTarget:
    """A running EKS stack to check."""

    kind = "eks"

    def __init__(self, raw: RawStack, folder: Path, options: Options, access: Access, scratch: Path) -> None:
        """Connect to the cluster. `folder`: folder of the stack files; `scratch`: folder for a temporary kubeconfig."""
        self.region, self._raw, self._options = raw.region, raw, options
        self.cluster = Naming(raw.stack).cluster
        self._account, self._clients = EksAccount(raw.stack, raw.region), Clients(raw.region)
        self._access = Access(access.kubeconfig, access.context)
        if self._access == Access():
            self._access = Access(scratch / "kubeconfig.yaml")
            kubeconfig_command.command(raw.stack, folder, self._access.kubeconfig)
        api = self._access.connect()
        described = api.description()
        if described.cluster != self.cluster:
            raise CommandError(f"the kubeconfig belongs to cluster {described.cluster}, not to {self.cluster}", REFUSED)
        namespace = objects.choose_namespace(api, access.namespace)
        self._jobs = JobWorld(api, described, namespace, options.image, options.minutes)

    # --- preparation before the run ----------------------------------------------------------------------------------

    def list_foreign_jobs(self) -> list[str]:
        return own_jobs.find_foreign_jobs(self._jobs.cluster)

    def read_device_declarations(self) -> Mapping[str, str]:
        api, pools = self._jobs.cluster, self._jobs.described.pools
        by_pool = [api.list("Node", selector=pool.node_selector) for pool in pools if pool.gpus or pool.efa]
        return target.read_node_declarations([node for nodes in by_pool for node in nodes])

    def plan(self) -> Plan:
        pools = self._read_pools()
        every_node = self._jobs.cluster.list("Node")
        there = {pool.name: len(eks_nodes.select_ready_nodes(pool, every_node)) for pool in self._jobs.described.pools}
        options = self._options
        choice = choose_pools(self._jobs.described, there, pools, pool=options.pool, scale_pool=options.scale_pool)
        checks, left_out = self._list_checks(choice)
        return Plan(checks, self._compute_cost(choice, there), left_out)

    def clean_up(self) -> list[str]:
        return self._jobs.clean()

    def _read_pools(self) -> dict[str, PoolStatus]:
        cluster = self._account.cluster()
        if cluster is None:
            raise NotFound(f"there is no cluster {self.cluster} in {self.region}; `pulumi up -s {self._raw.stack}` creates it")
        status = self._account.status(cluster)
        if status.unknown:
            raise CommandError("; ".join(status.unknown))
        return {pool.name: pool for pool in status.pools}

    def _compute_cost(self, choice: Choice, there: Mapping[str, int]) -> Cost:
        running = aws_reads.list_stack_instances(self._clients, self._raw.stack)
        now = Bill(self.region, Counter(instance.type for instance in running), eks=True)
        more: Counter[str] = Counter()
        for pool, number in choice.list_node_starts(there):
            more[pool.instance_type] += number
        return Cost(now, now.plus(more), choice.describe_node_starts(there))

    # --- rows ----------------------------------------------------------------------------------------------------------

    def _list_checks(self, choice: Choice) -> tuple[list[Check], list[LeftOut]]:
        pool, left_out, checks = choice.smoke, list[LeftOut](), list[Check]()
        if pool.gpus:  # run this check first, because its job adds the nodes that the next checks inspect
            checks.append(Check(DRIVERS, partial(self._check_drivers, choice)))
        else:
            left_out.append(LeftOut(DRIVERS, f"pool {pool.name} has no GPUs"))
        checks += [Check(VERSIONS, self._check_versions), Check(DEVICES, partial(self._check_devices, choice), (VERSIONS,))]
        level = self._options.level if pool.gpus else "devices"
        if level != self._options.level:
            left_out.append(LeftOut(f"{SMOKE} {self._options.level}", f"pool {pool.name} has no GPUs"))
        checks.append(Check(f"{SMOKE} {level}", partial(self._run_smoke, choice, level), (DEVICES,)))
        if choice.workers > 1:
            checks.append(Check(KILLED, partial(self._check_lost_worker, choice), (DEVICES,)))
        else:
            left_out.append(LeftOut(KILLED, f"pool {pool.name} has at most one node"))
        platform = self._raw.values.get("platform")
        settings = platform if isinstance(platform, Mapping) else {}
        if choice.scale is None:
            left_out.append(LeftOut(SCALE, "no pool with minSize 0 is empty, and none can lose its nodes"))
        elif settings.get("autoscaler") is False:
            left_out.append(LeftOut(SCALE, "platform.autoscaler is false"))
        else:
            idle = settings.get("idleMinutes", PlatformSettings().idle_minutes)
            checks.append(Check(SCALE, partial(self._check_scaling, choice, float(str(idle))), (DEVICES,)))
        return checks, left_out

    def _check_versions(self, notes: Notebook) -> None:
        api = self._jobs.cluster
        running = aws_reads.list_stack_instances(self._clients, self._raw.stack)
        images = aws_reads.read_images(self._clients, [instance.image for instance in running])
        eks_nodes.check_versions(notes, api.list("Node"), running, images, api.version())

    def _check_devices(self, choice: Choice, notes: Notebook) -> None:
        api = self._jobs.cluster
        eks_nodes.check_devices(notes, self._jobs.described, choice.smoke, api.list("Node"), api.list("DaemonSet"))

    def _check_drivers(self, choice: Choice, notes: Notebook) -> None:
        job = self._jobs.job("versions", choice.smoke.name, choice.workers, ("python3", "-c", own_jobs.VERSIONS))
        state, log = self._jobs.run(job)
        notes.record_evidence(f"job {job.name}: phase", state.phase)
        if state.phase != "Succeeded":
            notes.record_failure(f"job {job.name} is {state.phase}: {state.reason or '; '.join(log[-3:])}")
        eks_nodes.check_drivers(notes, own_jobs.parse_reports(log), choice.smoke, choice.workers)

    def _run_smoke(self, choice: Choice, level: Level, notes: Notebook) -> None:
        flags = {
            "--level": level,
            "--pool": choice.smoke.name,
            "--workers": choice.workers,
            "--name": f"{own_jobs.PREFIX}smoke",
            "--launcher": self._jobs.launcher,
            "--namespace": self._jobs.namespace,
            "--kubeconfig": self._access.kubeconfig,
            "--context": self._access.context,
            "--image": self._options.image,
        }
        words = [word for option, value in flags.items() if value is not None for word in (option, str(value))]
        smoke_levels.record_smoke_run(notes, smoke_levels.run_smoke(words), f"smoke --level {level}", choice.smoke)

    def _check_lost_worker(self, choice: Choice, notes: Notebook) -> None:
        """Delete a worker pod while all ranks run. The job must succeed in a later attempt."""
        command = ("python3", "-u", "-c", own_jobs.TWICE, own_jobs.MARK)
        job = self._jobs.job("killed", choice.smoke.name, choice.workers, command, retries=RETRIES)
        victim = f"{job.name}-worker-{choice.workers - 1}"
        deleted: list[str] = []

        def delete_worker_on_line(line: str) -> None:
            if own_jobs.FIRST in line and not deleted:
                deleted.append(self._jobs.cluster.get("Pod", victim, self._jobs.namespace)["metadata"]["uid"])
                self._jobs.cluster.delete("Pod", victim, self._jobs.namespace)
                print(f"  pod {victim} deleted while all ranks ran", file=sys.stderr, flush=True)

        state, log = self._jobs.run(job, delete_worker_on_line)
        said = [line for line in log if "acceptance: " in line]
        notes.record_evidence(f"pod {victim}: uid when deleted in the first attempt", deleted[0] if deleted else "not deleted")
        notes.record_evidence(f"job {job.name}: phase and failed attempts", f"{state.phase}, {state.failures}")
        notes.record_evidence(f"job {job.name}: log", json.dumps(said))
        if state.phase != "Succeeded":
            notes.record_failure(f"job {job.name} is {state.phase} after losing a worker: {state.reason or 'see its log'}")
        elif not deleted or not any(own_jobs.SECOND in line for line in said) or not state.failures:
            notes.record_failure(f"job {job.name} succeeded, but it should have lost a worker and succeeded in a later attempt")

    def _check_scaling(self, choice: Choice, idle_minutes: float, notes: Notebook) -> None:
        pool = choice.scale
        if pool is None:
            raise CommandError("there is no pool to scale")
        Scaling(self._jobs, pool, idle_minutes, lambda: self._read_pools()[pool.name]).run(notes)
