"""The smoke job's verdict for each possible fault, one fault at a time."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from infra.jobs import smoke
from infra.jobs.in_pods.smoke import build_rounds, count_device_files, parse_transports
from infra.jobs.smoke_verdict import Check, Expected, Report, list_failures, run_checks
from tests.pure.job_world import make_cluster

EXPECTED = Expected(workers=2, slots=4, gpus=4, transport="tcp")


def make_rank_report(rank: int, **more: Any) -> Report:
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


def make_reports(**by_rank: Any) -> list[Report]:
    """Return the reports of eight healthy ranks, each changed by `change(rank)`."""
    change = by_rank.get("change", lambda rank: {})
    return [{**make_rank_report(rank), **change(rank)} for rank in range(8)]


def test_correct_rank_reports_cause_no_failure() -> None:
    assert list_failures(make_reports(), EXPECTED) == []


def test_missing_rank_reports_are_a_failure() -> None:
    assert list_failures([], EXPECTED) == ["no rank reported"]


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
def test_single_fault_fails_one_check_and_the_others_pass(name: str) -> None:
    results = run_checks(make_reports(change=FLIPPED[name][0]), EXPECTED)
    assert {check.name for check in results if check.result == "failed"} == {ONE_CHECK[name]}
    assert {check.name for check in results if check.result == "not on this hardware"} == {"EFA devices"}


@pytest.mark.parametrize("name", FLIPPED)
def test_single_fault_is_the_only_reported_failure(name: str) -> None:
    change, expected = FLIPPED[name]
    assert list_failures(make_reports(change=change), EXPECTED) == expected


def test_the_check_names_ranks_that_did_not_report() -> None:
    messages = list_failures(make_reports()[:7], EXPECTED)
    assert messages == ["of 8 ranks 1 did not report: 7", "smoke-worker-1 has 3 ranks, not 4"]


def test_too_few_consistent_ranks_are_a_failure() -> None:
    four = [make_rank_report(rank, size=4, sum=10.0) for rank in range(4)]
    assert list_failures(four, EXPECTED) == [
        "of 8 ranks 4 did not report: 4, 5, 6, 7",
        "ranks report a world size of 4, not 8",
        "ranks ran on 1 worker, not 2: smoke-worker-0",
        "allreduce returned a wrong sum on rank 0, 1, 2, 3; expected 36",
    ]


def test_tcp_instead_of_expected_efa_is_a_failure() -> None:
    assert list_failures(make_reports(), replace(EXPECTED, transport="efa")) == ["messages between workers used tcp, not efa"]


def test_single_worker_needs_no_network_transport() -> None:
    alone = [make_rank_report(rank, size=4, sum=10.0, transports=[]) for rank in range(4)]
    assert list_failures(alone, replace(EXPECTED, workers=1)) == []


# --- EFA devices -------------------------------------------------------------------------------------------------------

WITH_EFA = replace(EXPECTED, efa=4, transport="efa")


def make_efa_reports(files: int) -> list[Report]:
    return make_reports(change=lambda rank: {"transports": ["efa"], "efa_files": files if rank >= 4 else 4})


def test_efa_devices_are_counted_only_on_pools_with_efa() -> None:
    assert list_failures(make_efa_reports(4), WITH_EFA) == []
    assert list_failures(make_efa_reports(3), WITH_EFA) == ["smoke-worker-1 sees 3 EFA devices, not 4"]
    assert list_failures(make_efa_reports(0), WITH_EFA) == ["smoke-worker-1 sees 0 EFA devices, not 4"]


# --- emulated devices --------------------------------------------------------------------------------------------------

NO_FILES = {"gpu_files": 0, "efa_files": 0, "cuda": {"error": "libcuda.so.1 is missing", "gpus": []}}
HARDWARE = ("GPU devices", "EFA devices", "CUDA kernel")


def filter_hardware_results(results: list[Check]) -> dict[str, str]:
    return {check.name: check.result for check in results if check.name in HARDWARE}


def test_emulated_devices_never_count_as_passed() -> None:
    both = replace(WITH_EFA, level="cuda", emulated=("node-0", "node-1"))
    results = run_checks(make_reports(change=lambda rank: NO_FILES | {"transports": ["efa"]}), both)
    assert filter_hardware_results(results) == dict.fromkeys(HARDWARE, "not on this hardware")
    assert {check.result for check in results if check.name not in HARDWARE} == {"passed"}
    assert "emulated" in results[2].detail


def test_unlabeled_node_fails_every_check_with_missing_hardware() -> None:
    expected = replace(WITH_EFA, level="cuda", emulated=("node-0",))
    results = run_checks(make_reports(change=lambda rank: NO_FILES | {"transports": ["efa"]}), expected)
    assert filter_hardware_results(results) == dict.fromkeys(HARDWARE, "failed")
    assert all("smoke-worker-0" not in sentence for check in results for sentence in check.failures)


def test_an_emulated_device_plugin_that_assigns_too_few_gpus_fails() -> None:
    both = replace(EXPECTED, emulated=("node-0", "node-1"))
    assert list_failures(make_reports(change=lambda rank: {"gpus": 3, "gpu_files": 0}), both) == [
        "smoke-worker-0 sees 3 GPUs, not 4",
        "smoke-worker-1 sees 3 GPUs, not 4",
    ]


# --- CUDA --------------------------------------------------------------------------------------------------------------

CUDA = replace(EXPECTED, level="cuda")


def make_gpu_results(number: int = 4, **third: str) -> dict[str, Any]:
    devices = [{"name": "NVIDIA A10G", "bus": f"0000:0{index}:00.0", "error": ""} for index in range(number)]
    devices[2] |= third
    return {"error": "", "gpus": devices}


def make_cuda_reports(second: Any) -> list[Report]:
    """Return reports in which the first rank of each worker has tested the worker's GPUs."""
    return make_reports(change=lambda rank: {0: {"cuda": make_gpu_results()}, 4: {"cuda": second}}.get(rank, {}))


CUDA_FAULTS: dict[str, tuple[Any, str]] = {
    "no driver": (
        {"error": "libcuda.so.1 is missing", "gpus": []},
        "libcuda.so.1 is missing. Check its node's driver and container toolkit, and the image's NVIDIA_DRIVER_CAPABILITIES",
    ),
    "driver that hangs": (
        {"error": "the CUDA driver did not answer within 300 s", "gpus": []},
        "the CUDA driver did not answer within 300 s",
    ),
    "GPU without CUDA": (make_gpu_results(3), "CUDA finds 3 GPUs, not 4"),
    "GPU that fails": (
        make_gpu_results(error="cuLaunchKernel returned CUDA_ERROR_ILLEGAL_ADDRESS (700)"),
        "GPU 0000:02:00.0: cuLaunchKernel returned CUDA_ERROR_ILLEGAL_ADDRESS (700)",
    ),
    "GPU counted twice": (
        make_gpu_results(bus="0000:01:00.0"),
        "CUDA finds the same GPU more than once: 0000:00:00.0, 0000:01:00.0, 0000:01:00.0, 0000:03:00.0",
    ),
    "nobody tried": (None, "no rank tested its GPUs"),
}


@pytest.mark.parametrize("name", CUDA_FAULTS)
def test_cuda_fault_fails_only_the_kernel_check(name: str) -> None:
    second, sentence = CUDA_FAULTS[name]
    results = run_checks(make_cuda_reports(second), CUDA)
    assert {case.name: case.failures for case in results if case.failures} == {"CUDA kernel": (f"smoke-worker-1: {sentence}",)}


def test_kernel_that_ran_on_every_gpu_is_reported_with_gpu_names() -> None:
    last = run_checks(make_cuda_reports(make_gpu_results()), CUDA)[-1]
    assert (last.result, last.detail) == (
        "passed",
        "a kernel wrote 1 MiB on every GPU, with correct results: 8 x NVIDIA A10G",
    )


# --- a slow node -------------------------------------------------------------------------------------------------------


def make_exchange_reports(slow: int | None, number: int = 4) -> list[Report]:
    """Return reports from one rank per worker, in which every exchange with the slow node is slow."""
    hosts = [f"smoke-worker-{index}" for index in range(number)]

    def make_report(rank: int) -> Report:
        rates = {host: 2.0 if slow in (rank, other) else 10.0 for other, host in enumerate(hosts) if other != rank}
        own = {"host": hosts[rank], "node": f"node-{rank}", "size": number, "sum": number * (number + 1) / 2, "rates": rates}
        return make_rank_report(rank) | own | {"cuda": make_gpu_results()}

    return [make_report(rank) for rank in range(number)]


EVERY_NODE = replace(EXPECTED, workers=4, slots=1, level="nccl")


def test_slow_node_is_named_without_failing_other_checks() -> None:
    assert list_failures(make_exchange_reports(None), EVERY_NODE) == []
    assert list_failures(make_exchange_reports(2), EVERY_NODE) == [
        "smoke-worker-2 on node node-2 exchanges at most 2.0 GB/s with any other worker; the median is 10.0"
    ]
    assert list_failures(make_exchange_reports(0, 3), replace(EVERY_NODE, workers=3)) == [
        "smoke-worker-0 on node node-0 exchanges at most 2.0 GB/s with any other worker; the median is 10.0"
    ]


def test_slow_node_cannot_be_identified_among_only_two_nodes() -> None:
    last = run_checks(make_exchange_reports(1, 2), replace(EVERY_NODE, workers=2))[-1]
    assert (last.name, last.result) == ("slow node", "not run")
    assert "use --workers 3" in last.detail


def test_every_pair_of_workers_exchanges_once_and_no_worker_twice_at_a_time() -> None:
    for number in range(1, 9):
        hosts = [f"w{index}" for index in range(number)]
        pairings = build_rounds(hosts)
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
def test_transports_are_parsed_from_library_logs(name: str) -> None:
    lines, expected = SAYINGS[name]
    assert parse_transports(lines, remote_ranks=[4, 5, 6, 7]) == expected


# --- the job -----------------------------------------------------------------------------------------------------------


def test_smoke_job_uses_whole_nodes_and_never_retries() -> None:
    job = smoke.build_smoke_job("small", 2)
    expected = smoke.compute_expected_results(job, make_cluster())
    assert expected == Expected(workers=2, slots=4, gpus=4, transport="tcp")
    assert job.one_per_node and job.max_restarts == 0 and job.active_deadline_seconds
    assert smoke.compute_expected_results(smoke.build_smoke_job("train", 2), make_cluster()).transport == "efa"


def test_only_matching_device_files_are_counted(tmp_path: Path) -> None:
    for name in ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm", "nvidia-caps", "uverbs0", "rdma_cm"):
        (tmp_path / name).touch()
    assert count_device_files(r"nvidia\d+", str(tmp_path)) == 2
    assert count_device_files(r"uverbs\d+", str(tmp_path)) == 1
    assert count_device_files(r"uverbs\d+", str(tmp_path / "missing")) == 0


def test_smoke_program_needs_no_package_of_this_repository(tmp_path: Path) -> None:
    """In an isolated interpreter without this repository's packages, the program starts and lacks only mpi4py."""
    started = subprocess.run(
        [sys.executable, "-I", "-c", smoke.build_program(), '[2, 4, 4, "tcp"]'],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=False,
    )
    assert started.returncode == 1
    assert started.stderr.splitlines()[-1] == "ModuleNotFoundError: No module named 'mpi4py'"


def test_printed_rank_reports_are_parsed_from_the_log() -> None:
    log = 'noise\n{"rank": 0, "size": 1, "host": "a"}\n{"rank": broken\nsmoke: ok\n'
    assert smoke.parse_reports(log) == [{"rank": 0, "size": 1, "host": "a"}]
