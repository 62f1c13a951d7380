"""The NCCL level of smoke: each fault in NCCL's log or nccl-tests' table fails exactly one check.

The lines have the wording of NCCL 2.30.7 and aws-ofi-nccl 1.21 (sources: infra/jobs/in_pods/nccl.py) and of published logs, such
as https://github.com/NVIDIA/nccl/issues/1597. Lines recorded on a GPU are in recorded_on_gpu.py.
"""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from infra.jobs import smoke
from infra.jobs.in_pods import read_source
from infra.jobs.in_pods.nccl import parse_output
from infra.jobs.nccl_verdict import NAMES, NcclExpected, NetworkReport, evaluate_reports
from tests.pure.job_world import make_cluster

EXPECTED = NcclExpected(workers=2, ranks=2, network="efa", instance_type="p4de.24xlarge", line_rate_gbps=400.0)

LOG = """\
smoke-nccl-worker-0:50:50 [0] NCCL INFO NCCL version 2.30.7+cuda13.0
smoke-nccl-worker-0:50:58 [0] NCCL INFO NET/OFI Initializing aws-ofi-nccl 1.21.1
smoke-nccl-worker-0:50:58 [0] NCCL INFO NET/OFI Selected provider is efa, fabric is efa-direct (found 4 nics)
smoke-nccl-worker-0:50:58 [0] NCCL INFO Using network Libfabric
smoke-nccl-worker-0:50:61 [0] NCCL INFO Channel 00/0 : 1[0] -> 0[0] [receive] via NET/Libfabric/0/GDRDMA
smoke-nccl-worker-0:50:61 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/Libfabric/0/GDRDMA
smoke-nccl-worker-0:50:61 [0] NCCL INFO Channel 01/0 : 0[0] -> 1[0] [send] via NET/Libfabric/3(1)/GDRDMA(PCI)/Shared
"""

TABLE = """\
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
           8             2     float     sum      -1    164.0    0.00    0.00      0    163.2    0.00    0.00      0
  2147483648     536870912     float     sum      -1    51419   41.76   78.31      0    51464   41.73   78.24      0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 39.1
"""
"""Output for two p4de.24xlarge instances."""

SOCKETS = (
    LOG.replace("NET/OFI Selected provider is efa, fabric is efa-direct (found 4 nics)", "NET/Socket : Using [0]eth0:10.0.0.1<0>")
    .replace("Using network Libfabric", "Using network Socket")
    .replace("NET/Libfabric/0/GDRDMA", "NET/Socket/0")
    .replace("NET/Libfabric/3(1)/GDRDMA(PCI)/Shared", "NET/Socket/0")
)
WITHOUT_GPUDIRECT = LOG.replace("/GDRDMA(PCI)", "").replace("/GDRDMA", "")
SLOW = TABLE.replace("78.31", "31.20").replace("78.24", "31.18")


def make_reports(zero: str = LOG, other: str = LOG, table: str = TABLE) -> list[NetworkReport]:
    return [
        {"nccl_rank": 0, "host": "w-0", "node": "n-0", "error": "", **parse_output(table + zero)},
        {"nccl_rank": 1, "host": "w-1", "node": "n-1", "error": "", **parse_output(other)},
    ]


def list_results_by_check(network_reports: list[NetworkReport], expected: NcclExpected = EXPECTED) -> dict[str, str]:
    return {check.name: check.result for check in evaluate_reports(network_reports, expected)}


def list_failures_by_check(network_reports: list[NetworkReport], expected: NcclExpected = EXPECTED) -> dict[str, tuple[str, ...]]:
    return {check.name: check.failures for check in evaluate_reports(network_reports, expected) if check.failures}


def test_healthy_pair_passes_every_check_with_details() -> None:
    details = {check.name: (check.result, check.detail) for check in evaluate_reports(make_reports(), EXPECTED)}
    assert details == {
        "NCCL": ("passed", "all_reduce_perf ran on 2 ranks with correct sums, NCCL 2.30.7+cuda13.0"),
        "NCCL network": (
            "passed",
            "EFA on every rank, according to NCCL's log: `Using network Libfabric`, `Selected provider is efa`",
        ),
        "GPUDirect": ("passed", "every channel between nodes ends in /GDRDMA in NCCL's log"),
        "NCCL bandwidth": ("passed", "78.3 GB/s at 2147483648 bytes is 157% of the line rate; 2 nodes must reach 50 GB/s"),
    }


FAULTS: dict[str, tuple[list[NetworkReport], str, str]] = {
    "sockets on every rank": (
        make_reports(SOCKETS, SOCKETS),
        "NCCL network",
        "rank 0 in w-0 on node n-0 uses Socket, not Libfabric",
    ),
    "sockets on one rank": (make_reports(LOG, SOCKETS), "NCCL network", "rank 1 in w-1 on node n-1 uses Socket, not Libfabric"),
    "another provider": (
        make_reports(LOG, LOG.replace("provider is efa,", "provider is tcp,")),
        "NCCL network",
        "rank 1 in w-1 on node n-1 uses the libfabric provider tcp, not efa",
    ),
    "no line about the provider": (
        make_reports(LOG, LOG.replace("Selected provider", "Some provider")),
        "NCCL network",
        "rank 1 in w-1 on node n-1 uses the libfabric provider (none logged), not efa",
    ),
    "GPUDirect off on one rank": (
        make_reports(LOG, WITHOUT_GPUDIRECT),
        "GPUDirect",
        "rank 1 in w-1 on node n-1 sends over EFA without GPUDirect (no GDRDMA in NCCL's log)",
    ),
    "one channel without GPUDirect": (
        make_reports(LOG, LOG.replace("/GDRDMA(PCI)", "")),
        "GPUDirect",
        "rank 1 in w-1 on node n-1 sends over EFA without GPUDirect (no GDRDMA in NCCL's log)",
    ),
    "slow": (
        make_reports(table=SLOW),
        "NCCL bandwidth",
        "31.2 GB/s at 2147483648 bytes is 62% of the line rate; 2 nodes must reach 50 GB/s. Check the placement group",
    ),
    "messages too small to judge": (
        make_reports(table=TABLE.replace("2147483648", " 134217728")),
        "NCCL bandwidth",
        "78.3 GB/s at 134217728 bytes on 2 nodes; cannot be judged below 2147483648 bytes, which did not fit into GPU memory",
    ),
    "wrong sums": (make_reports(table=TABLE.replace("78.24      0", "78.24      7")), "NCCL", "wrong sums at 2147483648 bytes"),
    "a missing rank": (make_reports()[:1], "NCCL", "1 of 2 ranks reported: 0"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_each_fault_fails_only_one_check(name: str) -> None:
    faulty, check, sentence = FAULTS[name]
    failed = list_failures_by_check(faulty)
    assert list(failed) == [check]
    assert failed[check][0 if check != "NCCL" else -1] == sentence


def test_missing_result_table_fails_nccl_and_skips_the_bandwidth_check() -> None:
    assert list_failures_by_check(make_reports(table="")) == {"NCCL": ("nccl-tests printed no result",)}
    assert list_results_by_check(make_reports(table=""))["NCCL bandwidth"] == "not run"


def test_missing_channel_between_nodes_fails_the_network_check() -> None:
    silent = "\n".join(line for line in LOG.splitlines() if "via NET" not in line)
    assert list_failures_by_check(make_reports(silent, silent)) == {"NCCL network": ("no rank logged a channel to another node",)}
    assert list_results_by_check(make_reports(silent, silent))["GPUDirect"] == "not run"


@pytest.mark.parametrize("instance_type", ["g5.48xlarge", "g6.48xlarge", "p5.4xlarge", "g7e.8xlarge"])
def test_gpudirect_is_not_required_on_types_without_gpudirect(instance_type: str) -> None:
    expected = replace(EXPECTED, instance_type=instance_type, line_rate_gbps=100.0)
    by_name = {check.name: check for check in evaluate_reports(make_reports(WITHOUT_GPUDIRECT, WITHOUT_GPUDIRECT), expected)}
    assert (by_name["GPUDirect"].result, by_name["GPUDirect"].detail) == (
        "not on this hardware",
        f"not available on this type ({instance_type})",
    )
    assert by_name["NCCL network"].result == "passed"
    assert by_name["NCCL bandwidth"].result == "not run" and "not judged" in by_name["NCCL bandwidth"].detail


def test_tcp_pool_must_use_sockets_and_skips_efa_checks() -> None:
    tcp = replace(EXPECTED, network="tcp")
    assert list_results_by_check(make_reports(SOCKETS, SOCKETS), tcp) == dict(
        zip(NAMES, ("passed", "passed", "not run", "not run"), strict=True)
    )
    assert list(list_failures_by_check(make_reports(), tcp)) == ["NCCL network"]


def test_single_worker_skips_network_checks() -> None:
    single = replace(EXPECTED, workers=1, ranks=1)
    assert list_results_by_check(make_reports()[:1], single) == dict(
        zip(NAMES, ("passed", "not run", "not run", "not run"), strict=True)
    )


def test_older_libfabric_plugin_names_are_recognized() -> None:
    old = LOG.replace("Libfabric", "AWS Libfabric").replace("Selected provider", "Selected Provider")
    assert set(list_results_by_check(make_reports(old, old)).values()) == {"passed"}


# --- runs that fail ----------------------------------------------------------------------------------------------------


def test_an_image_without_nccl_tests_is_reported_with_the_fix() -> None:
    missing = [{**report, "error": "all_reduce_perf is missing"} for report in make_reports("", "", "")]
    assert list_failures_by_check(missing) == {
        "NCCL": (
            "the image has no all_reduce_perf. Use an image with nccl-tests: --image NAME, or build one with "
            "`scripts/cluster image build mpi`",
        )
    }
    assert set(list_results_by_check(missing).values()) == {"failed", "not run"}


def test_cause_of_an_nccl_failure_is_reported_with_its_node() -> None:
    log = LOG + "w:1:2 [0] plugin/net.cc:300 NCCL WARN NET/OFI GDR disabled on GDR-supported instance type p4de.24xlarge\n"
    broken = {**make_reports(log)[0], "error": "all_reduce_perf ended with 3: unhandled system error"}
    assert list_failures_by_check([broken]) == {
        "NCCL": (
            "w-0 on node n-0: all_reduce_perf ended with 3: unhandled system error. "
            "NET/OFI GDR disabled on GDR-supported instance type p4de.24xlarge",
        )
    }
    assert list_failures_by_check([]) == {"NCCL": ("no rank reported",)}


# --- the program in the pods -------------------------------------------------------------------------------------------

STUB = """#!/bin/sh
[ "$NCCL_DEBUG" = INFO ] && cat "$LOG" > "$NCCL_DEBUG_FILE"
[ "$*" = "-b 8 -e 2G -f 2 -g 1" ] && cat "$TABLE"
exit "${CODE:-0}"
"""
"""Replaces all_reduce_perf and prints the recorded output. As with nccl-tests, the table goes to standard output."""


def run_nccl(folder: Path, **more: str) -> tuple[int, list[NetworkReport]]:
    job = smoke.build_nccl_job(smoke.build_smoke_job("train", 2), make_cluster())
    (folder / "log").write_text(LOG)
    (folder / "table").write_text(TABLE)
    variables = {"PATH": f"{folder}:{os.environ['PATH']}", "LOG": str(folder / "log"), "TABLE": str(folder / "table")}
    command = [sys.executable, "-I", *job.command[1:]]
    environment = {**variables, **job.env, "OMPI_COMM_WORLD_RANK": "0", "GPUMPI_NODE": "n-0", **more}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert len(done.stdout) < 4096, "mpirun may break longer lines"
    return done.returncode, smoke.parse_nccl_reports(f"noise\n{done.stdout}")


@pytest.fixture
def program_folder(tmp_path: Path) -> Path:
    stub = tmp_path / "all_reduce_perf"
    stub.write_text(STUB)
    stub.chmod(0o755)
    return tmp_path


def test_rank_reports_results_from_nccl_log_and_nccl_tests_output(program_folder: Path) -> None:
    code, (report,) = run_nccl(program_folder)
    assert code == 0
    assert report == make_reports()[0] | {"host": report["host"]}
    assert report["results"] == [[8, 0.0, False], [2 << 30, 78.31, False]]
    assert report["paths"] == {"Libfabric with GPUDirect": 3}


def test_a_rank_that_fails_or_lacks_the_program_ends_the_job(
    program_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    code, (report,) = run_nccl(program_folder, CODE="3")
    assert code == 1 and report["error"].startswith("all_reduce_perf ended with 3: # Avg bus bandwidth")
    code, (report,) = run_nccl(tmp_path_factory.mktemp("empty"))
    assert (code, report["error"]) == (1, "all_reduce_perf is missing")


def test_the_nccl_job_uses_the_pool_image_and_launcher_of_the_smoke_job() -> None:
    first = smoke.build_smoke_job("train", 3, image="registry.example.com/mpi:1", launcher="standalone")
    job = smoke.build_nccl_job(first, make_cluster())
    assert (job.name, job.image, job.launcher, job.workers) == ("smoke-nccl", first.image, "standalone", 3)
    assert job.command[:3] == ("python3", "-c", read_source("nccl.py"))
    expected: Any = smoke.compute_expected_nccl_results(first, make_cluster())
    assert (expected.workers, expected.ranks, expected.instance_type, expected.line_rate_gbps) == (3, 24, "p4d.24xlarge", 400.0)
    assert json.loads(json.dumps(job.env)) == {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,NET"}
