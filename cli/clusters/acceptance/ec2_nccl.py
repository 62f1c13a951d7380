"""Check NCCL on an EC2 cluster, with the same program and the same requirements as `smoke --level nccl`."""

import shlex
from collections.abc import Sequence
from typing import Final

from cli.clusters.acceptance import smoke_levels
from cli.clusters.acceptance.aws_reads import Instance
from cli.clusters.acceptance.checklist import Notebook
from cli.clusters.acceptance.remote import SSH_COPY, Remote
from infra.facts.instance_types import InstanceType
from infra.jobs import nccl_requirements, nccl_verdict, smoke
from infra.jobs.cluster import Transport
from infra.jobs.in_pods import text
from infra.jobs.nccl_verdict import NcclExpected

PROGRAMS: Final = "/opt/nccl-tests/all_reduce_perf /usr/local/cuda*/efa/test-cuda-*/all_reduce_perf"
"""Possible paths of all_reduce_perf: in our AMIs, and in AWS's Deep Learning AMI (NOT VERIFIED: from public logs,
2026-11-22).
"""
NODES: Final = 2


def check(notes: Notebook, remote: Remote, workers: Sequence[Instance], kind: InstanceType, file: str) -> None:
    """Run all_reduce_perf on all GPUs of two workers; each NCCL check becomes a row.

    `kind`: instance type of the workers. `file`: path on the nodes to which the program is copied; the caller deletes
    this file.
    """
    _, said = remote.run(f"ls {PROGRAMS} 2>/dev/null | head -n 1")
    program = said.strip()
    notes.saw(f"ls {PROGRAMS}", program or "nothing")
    if not program:
        notes.needs_hardware("all_reduce_perf is not installed on the nodes")
        return
    chosen = workers[:NODES]
    wanted = expected(chosen, kind)
    remote.put(file, text("nccl.py").encode())
    copies = "\n".join(f"{SSH_COPY} {file} {one.address}:{file}" for one in chosen)
    code, said = remote.run(f"cd; {copies}\n{command(wanted, program, file)}")
    reports = smoke.nccl_reports(said)
    notes.saw("mpiexec all_reduce_perf: exit code, ranks that reported", f"{code}, {len(reports)} of {wanted.ranks}")
    if code and not reports:
        notes.fail(f"mpiexec failed with exit code {code}: {said.strip()[-500:]}")
    smoke_levels.add_nccl(notes, nccl_verdict.checks(reports, wanted), wanted.instance_type)


def expected(workers: Sequence[Instance], kind: InstanceType) -> NcclExpected:
    network: Transport = "efa" if any(one.efa for one in workers) else "tcp"
    return NcclExpected(len(workers), len(workers) * max(kind.gpus, 1), network, kind.name, kind.line_rate_gbps)


def command(wanted: NcclExpected, program: str, file: str) -> str:
    """Return the command for the head node. With EFA, NCCL_NET=Libfabric makes NCCL fail instead of falling back to
    TCP.
    """
    env = dict(smoke.NCCL_LOG)
    if wanted.network == "efa":
        env["NCCL_NET"] = "Libfabric"
    settings = " ".join(f"{name}={value}" for name, value in env.items())
    largest = nccl_requirements.largest_message(wanted.line_rate_gbps)
    rank = (
        f"PATH={shlex.quote(program.rpartition('/')[0])}:$PATH GPUMPI_NODE=$(hostname) {settings} exec python3 {file} {largest}"
    )
    return f"mpiexec -n {wanted.ranks} -N {wanted.ranks // max(wanted.workers, 1)} bash -c {shlex.quote(rank)}"
