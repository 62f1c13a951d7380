"""The smoke job's verdict for each possible fault, one fault at a time."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from infra.jobs import smoke
from infra.jobs.in_pods.smoke import device_files, rounds, transports
from infra.jobs.smoke_verdict import Check, Expected, Report, checks, failures
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
        "gpu_files": 4,
        "efa_files": 0,
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
        lambda rank: {**ON_LAUNCHER, "transports": [], "gpus": 0, "gpu_files": 0},
        [
            "8 ranks ran on the launcher smoke-launcher, which must not run any",
            "ranks ran on 0 workers, not 2: none",
            "smoke-launcher sees 0 GPUs, not 4",
            "no rank reported the transport of its messages between workers",
        ],
    ),
    "one rank on the launcher": (
        lambda rank: ON_LAUNCHER if rank == 7 else {},
        ["1 rank ran on the launcher smoke-launcher, which must not run any", "smoke-worker-1 has 3 ranks, not 4"],
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
    "a GPU is missing": (
        lambda rank: {"gpus": 3, "gpu_files": 3} if rank >= 4 else {},
        ["smoke-worker-1 sees 3 GPUs, not 4"],
    ),
    "GPUs assigned without device files": (
        lambda rank: {"gpu_files": 0} if rank >= 4 else {},
        [
            "smoke-worker-1 was assigned 4 GPUs, but has no device files for them. "
            "Make the NVIDIA runtime containerd's default runtime on its node"
        ],
    ),
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


ONE_CHECK = {
    "two workers on one node": "workers",
    "a GPU is missing": "GPU devices",
    "GPUs assigned without device files": "GPU devices",
    "a wrong sum": "sum over all ranks",
    "another transport": "MPI transport",
    "no transport in the log": "MPI transport",
}


@pytest.mark.parametrize("name", ONE_CHECK)
def test_one_fault_fails_one_check_and_the_others_pass(name: str) -> None:
    results = checks(reports(change=FLIPPED[name][0]), EXPECTED)
    assert {check.name for check in results if check.result == "failed"} == {ONE_CHECK[name]}
    assert {check.name for check in results if check.result == "not on this hardware"} == {"EFA devices"}


@pytest.mark.parametrize("name", FLIPPED)
def test_a_single_fault_is_the_only_one_reported(name: str) -> None:
    change, expected = FLIPPED[name]
    assert failures(reports(change=change), EXPECTED) == expected


def test_the_check_names_ranks_that_did_not_report() -> None:
    messages = failures(reports()[:7], EXPECTED)
    assert messages == ["of 8 ranks 1 did not report: 7", "smoke-worker-1 has 3 ranks, not 4"]


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


# --- EFA devices -------------------------------------------------------------------------------------------------------

WITH_EFA = replace(EXPECTED, efa=4, transport="efa")


def with_efa(files: int) -> list[Report]:
    return reports(change=lambda rank: {"transports": ["efa"], "efa_files": files if rank >= 4 else 4})


def test_efa_devices_are_counted_where_the_pool_has_them() -> None:
    assert failures(with_efa(4), WITH_EFA) == []
    assert failures(with_efa(3), WITH_EFA) == ["smoke-worker-1 sees 3 EFA devices, not 4"]
    assert failures(with_efa(0), WITH_EFA) == ["smoke-worker-1 sees 0 EFA devices, not 4"]


# --- emulated devices --------------------------------------------------------------------------------------------------

NO_FILES = {"gpu_files": 0, "efa_files": 0, "cuda": {"error": "libcuda.so.1 is missing", "gpus": []}}
HARDWARE = ("GPU devices", "EFA devices", "CUDA kernel")


def on_hardware(results: list[Check]) -> dict[str, str]:
    return {check.name: check.result for check in results if check.name in HARDWARE}


def test_devices_of_nodes_marked_as_emulated_never_count_as_passed() -> None:
    both = replace(WITH_EFA, level="cuda", emulated=("node-0", "node-1"))
    results = checks(reports(change=lambda rank: NO_FILES | {"transports": ["efa"]}), both)
    assert on_hardware(results) == dict.fromkeys(HARDWARE, "not on this hardware")
    assert {check.result for check in results if check.name not in HARDWARE} == {"passed"}
    assert "emulated" in results[2].detail


def test_a_node_without_the_mark_fails_wherever_hardware_is_absent() -> None:
    expected = replace(WITH_EFA, level="cuda", emulated=("node-0",))
    results = checks(reports(change=lambda rank: NO_FILES | {"transports": ["efa"]}), expected)
    assert on_hardware(results) == dict.fromkeys(HARDWARE, "failed")
    assert all("smoke-worker-0" not in sentence for check in results for sentence in check.failures)


def test_an_emulated_device_plugin_that_assigns_too_few_gpus_fails() -> None:
    both = replace(EXPECTED, emulated=("node-0", "node-1"))
    assert failures(reports(change=lambda rank: {"gpus": 3, "gpu_files": 0}), both) == [
        "smoke-worker-0 sees 3 GPUs, not 4",
        "smoke-worker-1 sees 3 GPUs, not 4",
    ]


# --- CUDA --------------------------------------------------------------------------------------------------------------

CUDA = replace(EXPECTED, level="cuda")


def gpus(number: int = 4, **third: str) -> dict[str, Any]:
    devices = [{"name": "NVIDIA A10G", "bus": f"0000:0{index}:00.0", "error": ""} for index in range(number)]
    devices[2] |= third
    return {"error": "", "gpus": devices}


def with_cuda(second: Any) -> list[Report]:
    """Return reports in which the first rank of each worker has tested the worker's GPUs."""
    return reports(change=lambda rank: {0: {"cuda": gpus()}, 4: {"cuda": second}}.get(rank, {}))


CUDA_FAULTS: dict[str, tuple[Any, str]] = {
    "no driver": (
        {"error": "libcuda.so.1 is missing", "gpus": []},
        "libcuda.so.1 is missing. Check its node's driver and container toolkit, and the image's NVIDIA_DRIVER_CAPABILITIES",
    ),
    "driver that hangs": (
        {"error": "the CUDA driver did not answer within 300 s", "gpus": []},
        "the CUDA driver did not answer within 300 s",
    ),
    "GPU without CUDA": (gpus(3), "CUDA finds 3 GPUs, not 4"),
    "GPU that fails": (
        gpus(error="cuLaunchKernel returned CUDA_ERROR_ILLEGAL_ADDRESS (700)"),
        "GPU 0000:02:00.0: cuLaunchKernel returned CUDA_ERROR_ILLEGAL_ADDRESS (700)",
    ),
    "GPU counted twice": (
        gpus(bus="0000:01:00.0"),
        "CUDA finds the same GPU more than once: 0000:00:00.0, 0000:01:00.0, 0000:01:00.0, 0000:03:00.0",
    ),
    "nobody tried": (None, "no rank tested its GPUs"),
}


@pytest.mark.parametrize("name", CUDA_FAULTS)
def test_a_fault_of_cuda_fails_only_the_check_of_the_kernel(name: str) -> None:
    second, sentence = CUDA_FAULTS[name]
    results = checks(with_cuda(second), CUDA)
    assert {case.name: case.failures for case in results if case.failures} == {"CUDA kernel": (f"smoke-worker-1: {sentence}",)}


def test_a_kernel_that_ran_on_every_gpu_is_reported_with_their_names() -> None:
    last = checks(with_cuda(gpus()), CUDA)[-1]
    assert (last.result, last.detail) == (
        "passed",
        "a kernel wrote 1 MiB on every GPU, with correct results: 8 x NVIDIA A10G",
    )


# --- a slow node -------------------------------------------------------------------------------------------------------


def exchanges(slow: int | None, number: int = 4) -> list[Report]:
    """Return reports from one rank per worker, in which every exchange with the slow node is slow."""
    hosts = [f"smoke-worker-{index}" for index in range(number)]

    def make_report(rank: int) -> Report:
        rates = {host: 2.0 if slow in (rank, other) else 10.0 for other, host in enumerate(hosts) if other != rank}
        own = {"host": hosts[rank], "node": f"node-{rank}", "size": number, "sum": number * (number + 1) / 2, "rates": rates}
        return report(rank) | own | {"cuda": gpus()}

    return [make_report(rank) for rank in range(number)]


EVERY_NODE = replace(EXPECTED, workers=4, slots=1, level="nccl")


def test_a_slow_node_is_named_and_fails_nothing_else() -> None:
    assert failures(exchanges(None), EVERY_NODE) == []
    assert failures(exchanges(2), EVERY_NODE) == [
        "smoke-worker-2 on node node-2 exchanges at most 2.0 GB/s with any other worker; the median is 10.0"
    ]
    assert failures(exchanges(0, 3), replace(EVERY_NODE, workers=3)) == [
        "smoke-worker-0 on node node-0 exchanges at most 2.0 GB/s with any other worker; the median is 10.0"
    ]


def test_two_nodes_do_not_show_which_one_is_slow() -> None:
    last = checks(exchanges(1, 2), replace(EVERY_NODE, workers=2))[-1]
    assert (last.name, last.result) == ("slow node", "not run")
    assert "use --workers 3" in last.detail


def test_every_pair_of_workers_exchanges_once_and_no_worker_twice_at_a_time() -> None:
    for number in range(1, 9):
        hosts = [f"w{index}" for index in range(number)]
        pairings = rounds(hosts)
        pairs = [frozenset(pair) for turn in pairings for pair in turn]
        assert len(pairs) == len(set(pairs)) == number * (number - 1) // 2
        assert all(len({host for pair in turn for host in pair}) == 2 * len(turn) for turn in pairings)


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
def test_transports_are_read_from_the_log_lines_of_libraries(name: str) -> None:
    lines, expected = SAYINGS[name]
    assert transports(lines, remote_ranks=[4, 5, 6, 7]) == expected


# --- the job -----------------------------------------------------------------------------------------------------------


def test_the_smoke_job_takes_whole_nodes_and_only_one_try() -> None:
    job = smoke.smoke_job("small", 2)
    expected = smoke.expected(job, cluster())
    assert expected == Expected(workers=2, slots=4, gpus=4, transport="tcp")
    assert job.one_per_node and job.max_restarts == 0 and job.active_deadline_seconds
    assert smoke.expected(smoke.smoke_job("train", 2), cluster()).transport == "efa"


def test_only_files_of_devices_are_counted(tmp_path: Path) -> None:
    for name in ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm", "nvidia-caps", "uverbs0", "rdma_cm"):
        (tmp_path / name).touch()
    assert device_files(r"nvidia\d+", str(tmp_path)) == 2
    assert device_files(r"uverbs\d+", str(tmp_path)) == 1
    assert device_files(r"uverbs\d+", str(tmp_path / "missing")) == 0


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
