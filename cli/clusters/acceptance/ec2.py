"""Checks that acceptance runs on an EC2 cluster. Each check becomes a row of the report."""

import os
import shlex
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Final

from cli.clusters.acceptance import aws_reads, ec2_nodes, own_jobs, smoke_levels, target
from cli.clusters.acceptance.ec2_nodes import SSH, SSH_COPY, Remote
from cli.clusters.acceptance.report import Check, LeftOut, Notebook
from cli.clusters.acceptance.target import Bill, Cost, Options, Plan
from cli.ec2 import hostfile_check, remote_run, wait
from cli.ec2.ec2_instances import DeployedEc2Cluster, Ec2Node
from cli.errors import CommandError, NotFound
from cli.installation import CLONE
from infra.config.stack_file import RawStack
from infra.facts.clients import Clients
from infra.naming import EMULATED_DEVICES_FILE

AMIS: Final = "nodes have joined with the same AMI"
VERSIONS: Final = "installed versions"
DRIVERS: Final = "NVIDIA driver, EFA and CUDA-aware MPI on first boot"
KILLED: Final = "a job loses a rank and finishes"
SCALE: Final = "scale down and back"
ATTEMPTS: Final = 3
RUNNING: Final = r"""
for run in ~/.gpumpi/runs/*/; do
  if test -e "$run/exit" || ! kill -0 "$(cat "$run/pid" 2>/dev/null)" 2>/dev/null; then continue; fi
  echo "run $(basename "$run"): $(cat "$run/command")"
done
pgrep --list-full --exact 'mpirun|mpiexec|prterun|prte|orterun' | sed 's/^/process /'
true
"""


class Ec2Target:
    """A running EC2 cluster to check."""

    kind = "ec2"

    def __init__(self, raw: RawStack, folder: Path, options: Options) -> None:
        self._nodes = DeployedEc2Cluster(raw.stack, folder)
        self.region, self.cluster = self._nodes.region, self._nodes.naming.cluster
        self._options, self._clients = options, Clients(self.region)
        self._remote = Remote(self._nodes, options.identity, options.minutes)
        self._before = self._nodes.group()
        self._mark = f"{own_jobs.MARK}-{remote_run.generate_run_id()}"

    # --- preparation before the run ----------------------------------------------------------------------------------

    def list_foreign_jobs(self) -> list[str]:
        _, said = self._remote.run(RUNNING)
        return [line for line in said.splitlines() if line.startswith(("run ", "process "))]

    def read_device_declarations(self) -> Mapping[str, str]:
        return target.read_host_declarations(self._read_files(EMULATED_DEVICES_FILE))

    def plan(self) -> Plan:
        nodes = self._nodes.nodes()
        running = aws_reads.list_instances(self._clients, [node.id for node in nodes])
        now = Bill(self.region, Counter(instance.type for instance in running), eks=False)
        size, other = self._before.desired, self._choose_other_size()
        text = f"scales the workers from {size} to {other} and back to {size}" if other is not None else "starts no nodes"
        workers = [node.instance_type for node in nodes if not node.is_head_node]
        more = {workers[0]: max(0, (other or 0) - size)} if workers else {}
        checks, left_out = self._list_checks(sorted(set(workers)))
        return Plan(checks, Cost(now, now.plus(more), [text]), left_out)

    def clean_up(self) -> list[str]:
        """Kill the ranks that acceptance started, and restore the number of workers."""
        problems = []
        try:
            self._kill_ranks()
        except CommandError as error:
            problems.append(f"ranks that acceptance started may still be running on the nodes: {error}")
        try:
            if self._nodes.group().desired != self._before.desired:
                self._nodes.scale(self._before.desired)
        except CommandError as error:
            problems.append(f"the cluster was not scaled back to {self._before.desired} workers: {error}")
        return problems

    def _kill_ranks(self) -> None:
        # The marker in the command line is unique to this run. Because of the brackets, the pkill pattern does not
        # match its own shell.
        folder, name = os.path.split(self._mark)
        end = f"pkill -9 -f '[{name[0]}]{name[1:]}'; rm -f {folder}/[{name[0]}]{name[1:]}*; true"
        self._remote.run_on_nodes(self._list_joined_nodes(), end)

    def _choose_other_size(self) -> int | None:
        """Return the size to scale to: minSize, or one more worker if the group is already at minSize."""
        group = self._before
        if group.desired > group.minimum:
            return group.minimum
        return group.minimum + 1 if group.maximum > group.minimum else None

    # --- rows ----------------------------------------------------------------------------------------------------------

    def _list_checks(self, types: list[str]) -> tuple[list[Check], list[LeftOut]]:
        """Return the rows. `types`: instance types of the workers."""
        left_out: list[LeftOut] = []
        checks = [Check(AMIS, self._check_amis), Check(VERSIONS, self._check_versions, (AMIS,))]
        gpus = {name: aws_reads.read_instance_type(self._clients, name).gpus for name in types}
        has_gpus = any(gpus.values()) or bool(self.read_device_declarations())
        rows: list[tuple[str, Callable[[Notebook], None], str]] = [
            (DRIVERS, partial(self._check_first_boot, gpus), AMIS),
            ("smoke: devices", self._check_ranks, VERSIONS),
        ]
        rows += [("smoke: cuda", self._check_cuda, DRIVERS), ("smoke: nccl", self._check_nccl, "smoke: cuda")]
        smoke_rows = {f"smoke: {level}" for level in smoke_levels.list_levels_up_to(self._options.level)}
        for name, run, before in rows:
            if name.startswith("smoke: ") and name not in smoke_rows:
                continue
            if name != "smoke: devices" and not has_gpus:
                left_out.append(LeftOut(name, f"{', '.join(types) or 'the workers'}: this instance type has no GPUs"))
            else:
                checks.append(Check(name, run, (before,)))
        checks.append(Check(KILLED, self._check_killed_rank, ("smoke: devices",)))
        if (other := self._choose_other_size()) is None:
            left_out.append(LeftOut(SCALE, "minSize and maxSize are equal"))
        else:
            checks.append(Check(SCALE, partial(self._check_scaling, other), (AMIS,)))
        return checks, left_out

    def _list_joined_nodes(self) -> list[Ec2Node]:
        return [node for node in self._nodes.nodes() if self._nodes.read_notice(node) is not None]

    def _read_files(self, path: str) -> dict[str, str]:
        outputs = self._remote.run_on_nodes(self._list_joined_nodes(), f"if test -e {path}; then cat {path}; fi")
        return {address: text for address, (_, text) in outputs.items()}

    def _check_amis(self, notes: Notebook) -> None:
        nodes = self._nodes.nodes()
        if silent := [node.id for node in nodes if self._nodes.read_notice(node) is None]:
            notes.record_failure(f"{', '.join(silent)}: not joined; `wait` shows why")
        try:
            difference = hostfile_check.compare_hostfile(self._nodes, nodes, identity=self._options.identity)
        except hostfile_check.Unseen as error:
            difference = f"the hostfile was not checked: {error}"
        notes.record_evidence("hostfile of the head node, compared with AWS", difference or "lists exactly the nodes that joined")
        if difference:
            notes.record_failure(difference)
        if len([node for node in nodes if not node.is_head_node]) != self._before.desired:
            notes.record_failure(f"{len(nodes) - 1} of {self._before.desired} workers exist")
        instances = aws_reads.list_instances(self._clients, [node.id for node in nodes])
        images = aws_reads.read_images(self._clients, [instance.image for instance in instances])
        ec2_nodes.check_amis(notes, instances, images, next((node.id for node in nodes if node.is_head_node), ""))

    def _check_versions(self, notes: Notebook) -> None:
        ec2_nodes.check_versions(notes, self._read_files(ec2_nodes.MPI), self._read_files(ec2_nodes.MANIFEST))

    def _check_first_boot(self, gpus: Mapping[str, int], notes: Notebook) -> None:
        workers = {node.address: node.id for node in self._list_joined_nodes() if not node.is_head_node}
        instances = aws_reads.list_instances(self._clients, list(workers.values()))
        files = {address: text for address, text in self._read_files(ec2_nodes.FIRST_BOOT).items() if address in workers}
        if not files:
            notes.record_failure("the cluster has no workers")
        ec2_nodes.check_first_boot(notes, files, instances, gpus)

    def _read_slots(self) -> dict[str, int]:
        expected, silent = hostfile_check.read_expected_slots(self._nodes, self._nodes.nodes())
        if silent or not expected:
            raise CommandError(f"not joined: {', '.join(silent) or 'no node has slots'}")
        return {ec2_nodes.derive_host_name(address): slots for address, slots in expected.items()}

    def _check_ranks(self, notes: Notebook) -> None:
        slots = self._read_slots()
        code, said = self._remote.run(f"cd; mpiexec -n {sum(slots.values())} python3 -c {shlex.quote(own_jobs.RANKS)}")
        notes.record_evidence(f"mpiexec -n {sum(slots.values())}: exit code", code)
        if code:
            notes.record_failure(f"mpiexec failed with exit code {code}: {said.strip()[-500:]}")
        ec2_nodes.check_ranks(notes, own_jobs.parse_reports(said.splitlines()), slots)

    def _check_cuda(self, notes: Notebook) -> None:
        """Run bench/gpu/device_buffers.py, which checks that MPI transfers GPU memory correctly between two nodes."""
        if CLONE is None:
            raise CommandError("bench/gpu is not installed with this program; run acceptance in a clone of the repository")
        program = f"{self._mark}.py"
        self._remote.put(program, (CLONE / "bench/gpu/device_buffers.py").read_bytes())
        copy = "\n".join(
            f"{SSH_COPY} {program} {node.address}:{program}" for node in self._list_joined_nodes() if not node.is_head_node
        )
        number = min(2, len(self._read_slots()))
        code, said = self._remote.run(
            f"cd; {copy}\nmpiexec -n 2 -N {2 // number} python3 {program} --bytes 65536,1048576 --repeats 3"
        )
        lines = said.strip().splitlines()  # mpiexec prints its own lines after the program's output
        last = [line for line in lines if line.startswith("device_buffers: ")] or lines[-1:] or ["no output"]
        notes.record_evidence("mpiexec -n 2 python3 bench/gpu/device_buffers.py: exit code and last line", f"{code}: {last[0]}")
        if code == 2:
            notes.record_missing_hardware(f"MPI with GPU memory could not run: {last[0]}")
        elif code:
            notes.record_failure(f"MPI with GPU memory failed with exit code {code}: {said.strip()[-500:]}")

    def _check_nccl(self, notes: Notebook) -> None:
        workers = [node.id for node in self._list_joined_nodes() if not node.is_head_node]
        instances = aws_reads.list_instances(self._clients, workers)
        if not instances:
            raise CommandError("the cluster has no workers")
        kind = aws_reads.read_instance_type(self._clients, instances[0].type)
        ec2_nodes.check_nccl(notes, self._remote, instances, kind, f"{self._mark}-nccl.py")

    def _check_killed_rank(self, notes: Notebook) -> None:
        """Kill a rank while all ranks run. A later attempt with the same command must succeed."""
        addresses = {ec2_nodes.derive_host_name(node.address): node for node in self._list_joined_nodes()}
        number = min(2, len(self._read_slots()))
        run = f"mpiexec -n {number} -N 1 python3 -u -c {shlex.quote(own_jobs.TWICE)} {self._mark}"
        script = (
            f"cd; for attempt in $(seq {ATTEMPTS}); do {run} && exit 0; echo acceptance: attempt $attempt failed; done; exit 1"
        )
        killed: list[str] = []

        def kill_rank_on_line(line: str) -> None:
            if own_jobs.FIRST in line and not killed:
                host, _, process = line.split()[-1].partition(":")
                node = addresses[host.split(".")[0]]
                self._kill_process(node, int(process))
                killed.append(f"process {process} on {node.address}")
                print(f"  killed rank {number - 1}: {killed[0]}", file=sys.stderr, flush=True)

        try:
            code, lines = self._remote.follow(script, kill_rank_on_line)
        finally:
            self._kill_ranks()
        said = [line for line in lines if "acceptance: " in line]
        notes.record_evidence("kill -9 in the first attempt", killed[0] if killed else "nothing was killed")
        notes.record_evidence("mpiexec: exit code of the last attempt, log", f"{code}: {'; '.join(said)}")
        if code or not killed or not any(own_jobs.SECOND in line for line in said):
            notes.record_failure(
                f"after a rank was killed, the next attempt did not succeed (exit code {code}): {'; '.join(lines[-3:])}"
            )

    def _kill_process(self, node: Ec2Node, process: int) -> None:
        there = "" if node.is_head_node else f"{SSH} {node.address} "
        code, said = self._remote.run(f"{there}kill -9 {process}")
        if code:
            raise CommandError(f"process {process} on {node.address} could not be killed: {said.strip()}")

    def _check_scaling(self, other: int, notes: Notebook) -> None:
        size = self._before.desired
        for workers in (other, size):
            self._nodes.scale(workers)
            snapshot = wait.wait_and_print_progress(self._nodes, self._options.minutes, self._options.identity)
            notes.record_evidence(f"scale to {workers}: workers in service", snapshot.workers_in_service)
            if snapshot.workers_in_service != workers:
                raise NotFound(f"scaled to {workers} workers, but {snapshot.workers_in_service} are in service")
        code, said = self._remote.run(f"cd; mpiexec -n {sum(self._read_slots().values())} hostname | sort | uniq -c")
        notes.record_evidence("mpiexec hostname, afterwards", " ".join(said.split()))
        if code:
            notes.record_failure(f"after scaling back, mpiexec failed with exit code {code}: {said.strip()[-300:]}")
