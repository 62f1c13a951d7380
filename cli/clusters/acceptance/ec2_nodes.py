"""Nodes of an EC2 cluster: scripts run on them through the head node, and verdicts on AMIs, versions, ranks and NCCL."""

import base64
import json
import shlex
import subprocess
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from cli.clusters.acceptance import smoke_levels
from cli.clusters.acceptance.aws_reads import Image, Instance
from cli.clusters.acceptance.report import Notebook
from cli.ec2.ec2_instances import DeployedEc2Cluster, Ec2Node
from cli.ec2.head_node_ssh import connect_to_head_node
from cli.errors import CommandError
from cli.exit_codes import UNREACHABLE
from infra.facts.instance_types import InstanceType
from infra.jobs import in_pods, nccl_verdict, smoke
from infra.jobs.cluster import Transport
from infra.jobs.nccl_verdict import NcclExpected

SSH: Final = "ssh -n -o BatchMode=yes -o ConnectTimeout=30"
SSH_COPY: Final = "scp -q -o BatchMode=yes -o ConnectTimeout=30"
SSH_FAILED: Final = 255
BEGIN: Final = "gpumpi-node"


class Remote:
    """SSH access to one cluster. Each call opens a new connection."""

    def __init__(self, cluster: DeployedEc2Cluster, identity: Path | None, minutes: float) -> None:
        self._cluster, self._identity, self._seconds = cluster, identity, minutes * 60

    def run(self, script: str, *, stdin: bytes = b"") -> tuple[int, str]:
        """Run a script on the head node; return its exit code and its output. Raises CommandError if ssh fails or the
        time limit expires.
        """
        with connect_to_head_node(self._cluster, self._identity) as head_node:
            command = head_node.command("bash", "-lc", script)
            try:
                done = subprocess.run(command, input=stdin, capture_output=True, timeout=self._seconds, check=False)
            except subprocess.TimeoutExpired:
                raise CommandError(f"the head node did not answer within {self._seconds / 60:g} minutes (--minutes)") from None
        errors = done.stderr.decode(errors="replace")
        if done.returncode == SSH_FAILED:
            raise CommandError(f"the head node is unreachable: {errors.strip()}", UNREACHABLE)
        return done.returncode, done.stdout.decode(errors="replace") + errors

    def follow(self, script: str, on_line: Callable[[str], None]) -> tuple[int, list[str]]:
        """Run a script on the head node and call `on_line` with each line; return its exit code and all lines."""
        lines: list[str] = []
        with connect_to_head_node(self._cluster, self._identity) as head_node:
            command = head_node.command("bash", "-lc", f"timeout {self._seconds:.0f} bash -c {shlex.quote(script)} 2>&1")
            with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as process:
                assert process.stdout is not None
                try:
                    for line in process.stdout:
                        lines.append(line.rstrip())
                        on_line(lines[-1])
                except BaseException:
                    process.kill()
                    raise
        return process.returncode, lines

    def run_on_nodes(self, nodes: Sequence[Ec2Node], script: str) -> dict[str, tuple[int, str]]:
        """Run a script on each of `nodes`; return the exit code and the output of each, keyed by address."""
        quoted = shlex.quote(script)
        parts = []
        for node in nodes:
            start = f"bash -lc {quoted}" if node.is_head_node else f"{SSH} {node.address} bash -lc {shlex.quote(quoted)}"
            parts.append(f'out=$({start} 2>&1 </dev/null | base64 --wrap=0; exit "${{PIPESTATUS[0]}}")')
            parts.append(f'echo {BEGIN} {node.address} $? "$out"')
        code, output = self.run("\n".join(parts))
        outputs = {}
        for line in output.splitlines():
            if line.startswith(f"{BEGIN} "):
                _, address, ended, *text = line.split(" ")
                outputs[address] = (int(ended), base64.b64decode("".join(text)).decode(errors="replace"))
        if missing := [node.address for node in nodes if node.address not in outputs]:
            raise CommandError(f"no answer from {', '.join(missing)} (exit code {code}): {output.strip()[-300:]}", UNREACHABLE)
        return outputs

    def put(self, path: str, content: bytes) -> None:
        """Write a file on the head node."""
        code, said = self.run(f"cat >{shlex.quote(path)}", stdin=content)
        if code:
            raise CommandError(f"{path} could not be written on the head node: {said.strip()}")


FIRST_BOOT: Final = "/etc/gpumpi/first-boot.json"
MANIFEST: Final = "/etc/gpumpi/manifest.json"
MPI: Final = "/etc/gpumpi/mpi"

Files = Mapping[str, str]
"""Maps a node's address to the content of one file; the content is empty if the file does not exist on that node."""


def check_amis(notes: Notebook, instances: Sequence[Instance], images: Mapping[str, Image], head_node: str) -> None:
    """Check that all workers have the same AMI. The head node may have an older AMI."""
    for instance in instances:
        notes.record_evidence(
            f"ec2 describe-instances {instance.id} ({instance.address})", f"{instance.type}, AMI {instance.image}"
        )
    for id in sorted({instance.image for instance in instances}):
        notes.record_evidence(f"ec2 describe-images {id}", str(images.get(id, "deregistered")))
    workers = sorted({instance.image for instance in instances if instance.id != head_node})
    if len(workers) > 1:
        notes.record_failure(
            f"the workers use {len(workers)} AMIs: {', '.join(workers)}. Replace the older workers: `scale` to 0 and back"
        )
    if not instances:
        notes.record_failure("EC2 reports no running node")


def check_versions(notes: Notebook, mpi: Files, manifests: Files) -> None:
    """Check that all nodes have the same MPI and the same AMI manifest."""
    for address, text in mpi.items():
        values = " ".join(text.split())
        notes.record_evidence(f"{address}: {MPI}", values or "does not exist")
        if not values:
            notes.record_failure(f"{address} has no {MPI}: its AMI was not built by amis/")
    for address, text in manifests.items():
        notes.record_evidence(
            f"{address}: {MANIFEST}", summarize_manifest(text) if text else "does not exist; the AMI was built without one"
        )
    for name, files in ((MPI, mpi), (MANIFEST, manifests)):
        if len(set(files.values())) > 1:
            notes.record_failure(f"{name} differs between nodes: {', '.join(sorted(files))}")


def summarize_manifest(text: str) -> str:
    try:
        manifest = json.loads(text)
    except ValueError:
        return "not a JSON document"
    versions: Mapping[str, Any] = manifest.get("versions", {})
    relevant = {
        name: value for name, value in versions.items() if any(part in name for part in ("cuda", "efa", "driver", "nccl"))
    }
    shown = [f"kind {manifest.get('kind')}", f"system {manifest.get('system')}", f"kernel {manifest.get('kernel')}"]
    return ", ".join([*shown, *(f"{name} {value}" for name, value in sorted(relevant.items()))])


def check_first_boot(notes: Notebook, files: Files, instances: Sequence[Instance], gpus: Mapping[str, int]) -> None:
    """Check each node's first-boot report. `gpus`: instance type -> GPUs per node, as EC2 reports them."""
    by_address = {instance.address: instance for instance in instances}
    for address, text in files.items():
        instance = by_address[address]
        if not text:
            notes.record_evidence(f"{address}: {FIRST_BOOT}", "does not exist")
            notes.record_missing_hardware(f"{address} has no {FIRST_BOOT}: its first-boot check saw no GPU")
            continue
        boot = json.loads(text)
        notes.record_evidence(f"{address}: {FIRST_BOOT}", json.dumps(boot, sort_keys=True))
        for sentence in boot["problems"]:
            notes.record_failure(f"{address}: {sentence}")
        if not boot["ok"] and not boot["problems"]:
            notes.record_failure(f"{address}: the first-boot check failed without giving a reason")
        for name, expected in (("gpus", gpus.get(instance.type, 0)), ("efa", instance.efa)):
            if boot[name] != expected:
                notes.record_failure(
                    f"{address}: the first boot saw {boot[name]} {name}, but EC2 reports {expected} for {instance.type}"
                )


def check_ranks(notes: Notebook, reports: Sequence[Mapping[str, Any]], slots: Mapping[str, int]) -> None:
    """Check that each host ran one rank per slot, and that the allreduce returned the correct sum.

    `slots`: host name -> number of slots that the node reports.
    """
    total = sum(slots.values())
    where = Counter(report["host"].split(".")[0] for report in reports)
    notes.record_evidence(
        "mpiexec: ranks by host", ", ".join(f"{number} on {host}" for host, number in sorted(where.items())) or "none"
    )
    if dict(where) != dict(slots):
        expected = ", ".join(f"{number} on {host}" for host, number in sorted(slots.items()))
        notes.record_failure(f"the ranks did not run where the hostfile places them: expected {expected}")
    right = total * (total + 1) // 2
    sums = sorted({report["sum"] for report in reports})
    notes.record_evidence("mpiexec: allreduce over all ranks", ", ".join(map(str, sums)) or "none")
    if sums != [right]:
        notes.record_failure(f"allreduce returned {', '.join(map(str, sums)) or 'nothing'}; expected {right}")


def derive_host_name(address: str) -> str:
    """Return the host name that EC2 assigns to an instance.

    >>> host_name("10.0.1.2")
    'ip-10-0-1-2'
    """
    return f"ip-{address.replace('.', '-')}"


NCCL_PROGRAMS: Final = "/opt/nccl-tests/all_reduce_perf /usr/local/cuda*/efa/test-cuda-*/all_reduce_perf"
"""Possible paths of all_reduce_perf: in our AMIs, and in AWS's Deep Learning AMI (NOT VERIFIED: from public logs,
2026-11-22).
"""
NCCL_NODES: Final = 2


def check_nccl(notes: Notebook, remote: Remote, workers: Sequence[Instance], kind: InstanceType, file: str) -> None:
    """Run all_reduce_perf on all GPUs of two workers; each NCCL check becomes a row.

    `kind`: instance type of the workers. `file`: path on the nodes to which the program is copied; the caller deletes
    this file.
    """
    _, said = remote.run(f"ls {NCCL_PROGRAMS} 2>/dev/null | head -n 1")
    program = said.strip()
    notes.record_evidence(f"ls {NCCL_PROGRAMS}", program or "nothing")
    if not program:
        notes.record_missing_hardware("all_reduce_perf is not installed on the nodes")
        return
    chosen = workers[:NCCL_NODES]
    requirements = build_nccl_requirements(chosen, kind)
    remote.put(file, in_pods.read_source("nccl.py").encode())
    copies = "\n".join(f"{SSH_COPY} {file} {worker.address}:{file}" for worker in chosen)
    code, said = remote.run(f"cd; {copies}\n{build_nccl_command(requirements, program, file)}")
    reports = smoke.parse_nccl_reports(said)
    notes.record_evidence(
        "mpiexec all_reduce_perf: exit code, ranks that reported", f"{code}, {len(reports)} of {requirements.ranks}"
    )
    if code and not reports:
        notes.record_failure(f"mpiexec failed with exit code {code}: {said.strip()[-500:]}")
    smoke_levels.record_nccl_checks(notes, nccl_verdict.evaluate_reports(reports, requirements), requirements.instance_type)


def build_nccl_requirements(workers: Sequence[Instance], kind: InstanceType) -> NcclExpected:
    network: Transport = "efa" if any(worker.efa for worker in workers) else "tcp"
    return NcclExpected(len(workers), len(workers) * max(kind.gpus, 1), network, kind.name, kind.line_rate_gbps)


def build_nccl_command(requirements: NcclExpected, program: str, file: str) -> str:
    """Return the NCCL test command for the head node. With EFA, NCCL_NET=Libfabric makes NCCL fail instead of falling back to
    TCP.
    """
    env = dict(smoke.NCCL_LOG)
    if requirements.network == "efa":
        env["NCCL_NET"] = "Libfabric"
    settings = " ".join(f"{name}={value}" for name, value in env.items())
    largest = nccl_verdict.choose_largest_message_size(requirements.line_rate_gbps)
    rank = (
        f"PATH={shlex.quote(program.rpartition('/')[0])}:$PATH GPUMPI_NODE=$(hostname) {settings} exec python3 {file} {largest}"
    )
    return f"mpiexec -n {requirements.ranks} -N {requirements.ranks // max(requirements.workers, 1)} bash -c {shlex.quote(rank)}"
