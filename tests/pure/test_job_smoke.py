"""The smoke job's verdict for each possible fault on its own."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from infra.jobs import smoke
from infra.jobs.in_pods.smoke import transports
from infra.jobs.smoke_verdict import Expected, Report, failures
from tests.pure.job_world import cluster

EXPECTED = Expected(workers=2, slots=4, gpus=4, transport="tcp")


def report(rank: int, **more: Any) -> Report:
    worker = rank // 4
    return {
        "rank": rank,
        "size": 8,
        "host": f"smoke-worker-{worker}",
        "node": f"node-{worker}",
        "gpus": 4,
        "sum": 36.0,
        "transports": ["tcp"],
        **more,
    }


def reports(**by_rank: Any) -> list[Report]:
    """Return the reports of eight healthy ranks, each changed by `change(rank)`."""
    change = by_rank.get("change", lambda rank: {})
    return [{**report(rank), **change(rank)} for rank in range(8)]


def test_ranks_that_ran_as_they_should_are_no_failure() -> None:
    assert failures(reports(), EXPECTED) == []


def test_nothing_reported_is_a_failure() -> None:
    assert failures([], EXPECTED) == ["no rank reported"]


ON_LAUNCHER = {"host": "smoke-launcher", "node": "system-0"}

FLIPPED: dict[str, tuple[Any, list[str]]] = {
    "all ranks on the launcher": (
        lambda rank: {**ON_LAUNCHER, "transports": [], "gpus": 0},
        [
            "8 ranks on the launcher smoke-launcher, which must run none",
            "ranks ran on 0 workers, not 2: none",
            "smoke-launcher sees 0 GPUs, not 4",
            "no rank reported the transport of its messages between workers",
        ],
    ),
    "one rank on the launcher": (
        lambda rank: ON_LAUNCHER if rank == 7 else {},
        ["1 rank on the launcher smoke-launcher, which must run none", "smoke-worker-1 has 3 ranks, not 4"],
    ),
    "a worker is missing": (
        lambda rank: {"host": "smoke-worker-0", "node": "node-0"},
        ["ranks ran on 1 worker, not 2: smoke-worker-0", "smoke-worker-0 has 8 ranks, not 4"],
    ),
    "two workers on one node": (lambda rank: {"node": "node-0"}, ["smoke-worker-0, smoke-worker-1 share the node node-0"]),
    "worker on an unknown node": (
        lambda rank: {"node": ""} if rank < 4 else {},
        ["smoke-worker-0: node unknown"],
    ),
    "unequal numbers of ranks on workers": (
        lambda rank: {"host": "smoke-worker-1", "node": "node-1"} if rank == 0 else {},
        ["smoke-worker-0 has 3 ranks, not 4", "smoke-worker-1 has 5 ranks, not 4"],
    ),
    "a GPU is missing": (lambda rank: {"gpus": 3} if rank >= 4 else {}, ["smoke-worker-1 sees 3 GPUs, not 4"]),
    "a wrong sum": (lambda rank: {"sum": 35.0} if rank == 2 else {}, ["allreduce returned a wrong sum on rank 2; expected 36"]),
    "inconsistent sums on one rank": (
        lambda rank: {"sum": None} if rank == 2 else {},
        ["allreduce returned a wrong sum on rank 2; expected 36"],
    ),
    "another transport": (lambda rank: {"transports": ["sm"]}, ["messages between workers used sm, not tcp"]),
    "another transport on one rank": (
        lambda rank: {"transports": ["tcp", "ucx"]} if rank == 5 else {},
        ["messages between workers used tcp, ucx, not tcp"],
    ),
    "no transport in the log": (
        lambda rank: {"transports": []},
        ["no rank reported the transport of its messages between workers"],
    ),
    "every rank is alone": (
        lambda rank: {"rank": 0, "size": 1, "sum": 1.0, "transports": []},
        [
            "of 8 ranks 7 did not report: 1, 2, 3, 4, 5, 6, 7",
            "8 processes ran independently: 1 rank reported more than once",
            "ranks report a world size of 1, not 8",
            "allreduce returned a wrong sum on rank 0, 0, 0, 0, 0, 0, 0, 0; expected 36",
            "no rank reported the transport of its messages between workers",
        ],
    ),
}


@pytest.mark.parametrize("name", FLIPPED)
def test_one_thing_that_is_wrong_is_reported_and_nothing_else(name: str) -> None:
    change, wanted = FLIPPED[name]
    assert failures(reports(change=change), EXPECTED) == wanted


def test_a_rank_that_did_not_report_is_missed() -> None:
    found = failures(reports()[:7], EXPECTED)
    assert found == ["of 8 ranks 1 did not report: 7", "smoke-worker-1 has 3 ranks, not 4"]


def test_too_few_ranks_that_agree_with_each_other_are_a_failure() -> None:
    four = [report(rank, size=4, sum=10.0) for rank in range(4)]
    assert failures(four, EXPECTED) == [
        "of 8 ranks 4 did not report: 4, 5, 6, 7",
        "ranks report a world size of 4, not 8",
        "ranks ran on 1 worker, not 2: smoke-worker-0",
        "allreduce returned a wrong sum on rank 0, 1, 2, 3; expected 36",
    ]


def test_tcp_where_efa_is_expected_is_a_failure() -> None:
    assert failures(reports(), replace(EXPECTED, transport="efa")) == ["messages between workers used tcp, not efa"]


def test_one_worker_has_nobody_to_talk_to() -> None:
    alone = [report(rank, size=4, sum=10.0, transports=[]) for rank in range(4)]
    assert failures(alone, replace(EXPECTED, workers=1)) == []


# --- transports in the logs of MPI libraries ---------------------------------------------------------------------------

SAYINGS = {
    "Open MPI, TCP": (["[w:1] mca: bml: Using tcp btl for send to [[24612,1],5] on node w1"], ["tcp"]),
    "Open MPI, peer on the same host": (["[w:1] mca: bml: Using vader btl for send to [[24612,1],1] on node w"], []),
    "Open MPI 4, EFA": (["[w:1] mtl_ofi_component.c:334: mtl:ofi:prov: efa"], ["efa"]),
    "Open MPI, no provider": (["[w:1] mtl_ofi_component.c:334: mtl:ofi:prov: none"], []),
    "Open MPI, UCX": (["[w:1] select: component ucx selected"], ["ucx"]),
    "Intel MPI": (["[0] MPI startup(): libfabric provider: tcp"], ["tcp"]),
    "Intel MPI, EFA": (["[0] MPI startup(): libfabric provider: efa"], ["efa"]),
    "MPICH": (["provider: tcp, score = 4, pref = 0", "libfabric provider: tcp;ofi_rxm - 10.0.0.0/24"], ["tcp"]),
    "nobody": (["hello"], []),
}


@pytest.mark.parametrize("name", SAYINGS)
def test_what_a_library_says_of_its_transport_is_understood(name: str) -> None:
    lines, wanted = SAYINGS[name]
    assert transports(lines, others=[4, 5, 6, 7]) == wanted


# --- the job -----------------------------------------------------------------------------------------------------------


def test_the_smoke_job_takes_whole_nodes_and_only_one_try() -> None:
    job = smoke.smoke_job("small", 2)
    expected = smoke.expected(job, cluster())
    assert expected == Expected(workers=2, slots=4, gpus=4, transport="tcp")
    assert job.one_per_node and job.backoff_limit == 0 and job.deadline_seconds
    assert smoke.expected(smoke.smoke_job("train", 2), cluster()).transport == "efa"


def test_the_program_needs_nothing_of_this_repository(tmp_path: Path) -> None:
    """In an isolated interpreter without this repository's packages, the program starts and lacks only mpi4py."""
    started = subprocess.run(
        [sys.executable, "-I", "-c", smoke.program(), '[2, 4, 4, "tcp"]'],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=False,
    )
    assert started.returncode == 1
    assert started.stderr.splitlines()[-1] == "ModuleNotFoundError: No module named 'mpi4py'"


def test_what_ranks_print_is_read_back() -> None:
    log = 'noise\n{"rank": 0, "size": 1, "host": "a"}\n{"rank": broken\nsmoke: ok\n'
    assert smoke.reports(log) == [{"rank": 0, "size": 1, "host": "a"}]
