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
from infra.jobs.in_pods import text
from infra.jobs.in_pods.nccl import parsed
from infra.jobs.nccl_verdict import NAMES, NcclExpected, NetworkReport, checks
from tests.pure.job_world import cluster

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


def reports(zero: str = LOG, other: str = LOG, table: str = TABLE) -> list[NetworkReport]:
    return [
        {"nccl_rank": 0, "host": "w-0", "node": "n-0", "error": "", **parsed(table + zero)},
        {"nccl_rank": 1, "host": "w-1", "node": "n-1", "error": "", **parsed(other)},
    ]


def results(network_reports: list[NetworkReport], expected: NcclExpected = EXPECTED) -> dict[str, str]:
    return {check.name: check.result for check in checks(network_reports, expected)}


def failures(network_reports: list[NetworkReport], expected: NcclExpected = EXPECTED) -> dict[str, tuple[str, ...]]:
    return {check.name: check.failures for check in checks(network_reports, expected) if check.failures}


def test_a_sound_pair_passes_every_check_with_what_was_seen() -> None:
    details = {check.name: (check.result, check.detail) for check in checks(reports(), EXPECTED)}
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
        reports(SOCKETS, SOCKETS),
        "NCCL network",
        "rank 0 in w-0 on node n-0 uses Socket, not Libfabric",
    ),
    "sockets on one rank": (reports(LOG, SOCKETS), "NCCL network", "rank 1 in w-1 on node n-1 uses Socket, not Libfabric"),
    "another provider": (
        reports(LOG, LOG.replace("provider is efa,", "provider is tcp,")),
        "NCCL network",
        "rank 1 in w-1 on node n-1 uses the libfabric provider tcp, not efa",
    ),
    "no line about the provider": (
        reports(LOG, LOG.replace("Selected provider", "Some provider")),
        "NCCL network",
        "rank 1 in w-1 on node n-1 uses the libfabric provider (none logged), not efa",
    ),
    "GPUDirect off on one rank": (
        reports(LOG, WITHOUT_GPUDIRECT),
        "GPUDirect",
        "rank 1 in w-1 on node n-1 sends over EFA without GPUDirect (no GDRDMA in NCCL's log)",
    ),
    "one channel without GPUDirect": (
        reports(LOG, LOG.replace("/GDRDMA(PCI)", "")),
        "GPUDirect",
        "rank 1 in w-1 on node n-1 sends over EFA without GPUDirect (no GDRDMA in NCCL's log)",
    ),
    "slow": (
        reports(table=SLOW),
        "NCCL bandwidth",
        "31.2 GB/s at 2147483648 bytes is 62% of the line rate; 2 nodes must reach 50 GB/s. Check the placement group",
    ),
    "messages too small to judge": (
        reports(table=TABLE.replace("2147483648", " 134217728")),
        "NCCL bandwidth",
        "78.3 GB/s at 134217728 bytes on 2 nodes; cannot be judged below 2147483648 bytes, which did not fit into GPU memory",
    ),
    "wrong sums": (reports(table=TABLE.replace("78.24      0", "78.24      7")), "NCCL", "wrong sums at 2147483648 bytes"),
    "a missing rank": (reports()[:1], "NCCL", "1 of 2 ranks reported: 0"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_each_fault_fails_one_check_alone(name: str) -> None:
    faulty, check, sentence = FAULTS[name]
    failed = failures(faulty)
    assert list(failed) == [check]
    assert failed[check][0 if check != "NCCL" else -1] == sentence


def test_no_table_is_a_failure_and_judges_no_bandwidth() -> None:
    assert failures(reports(table="")) == {"NCCL": ("nccl-tests printed no result",)}
    assert results(reports(table=""))["NCCL bandwidth"] == "not run"


def test_no_channel_between_nodes_proves_no_network() -> None:
    silent = "\n".join(line for line in LOG.splitlines() if "via NET" not in line)
    assert failures(reports(silent, silent)) == {"NCCL network": ("no rank logged a channel to another node",)}
    assert results(reports(silent, silent))["GPUDirect"] == "not run"


@pytest.mark.parametrize("instance_type", ["g5.48xlarge", "g6.48xlarge", "p5.4xlarge", "g7e.8xlarge"])
def test_gpudirect_is_not_demanded_of_types_without_it(instance_type: str) -> None:
    expected = replace(EXPECTED, instance_type=instance_type, line_rate_gbps=100.0)
    by_name = {check.name: check for check in checks(reports(WITHOUT_GPUDIRECT, WITHOUT_GPUDIRECT), expected)}
    assert (by_name["GPUDirect"].result, by_name["GPUDirect"].detail) == (
        "not on this hardware",
        f"not available on this type ({instance_type})",
    )
    assert by_name["NCCL network"].result == "passed"
    assert by_name["NCCL bandwidth"].result == "not run" and "not judged" in by_name["NCCL bandwidth"].detail


def test_a_pool_with_tcp_must_use_sockets_and_claims_no_more() -> None:
    tcp = replace(EXPECTED, network="tcp")
    assert results(reports(SOCKETS, SOCKETS), tcp) == dict(zip(NAMES, ("passed", "passed", "not run", "not run"), strict=True))
    assert list(failures(reports(), tcp)) == ["NCCL network"]


def test_one_worker_proves_no_network() -> None:
    single = replace(EXPECTED, workers=1, ranks=1)
    assert results(reports()[:1], single) == dict(zip(NAMES, ("passed", "not run", "not run", "not run"), strict=True))


def test_old_names_of_the_plugin_are_understood() -> None:
    old = LOG.replace("Libfabric", "AWS Libfabric").replace("Selected provider", "Selected Provider")
    assert set(results(reports(old, old)).values()) == {"passed"}


# --- runs that fail ----------------------------------------------------------------------------------------------------


def test_an_image_without_nccl_tests_is_reported_with_the_fix() -> None:
    missing = [{**report, "error": "all_reduce_perf is missing"} for report in reports("", "", "")]
    assert failures(missing) == {
        "NCCL": (
            "the image has no all_reduce_perf. Use an image with nccl-tests: --image NAME, or build one with "
            "`scripts/cluster image build mpi`",
        )
    }
    assert set(results(missing).values()) == {"failed", "not run"}


def test_what_stops_nccl_is_reported_with_its_node() -> None:
    log = LOG + "w:1:2 [0] plugin/net.cc:300 NCCL WARN NET/OFI GDR disabled on GDR-supported instance type p4de.24xlarge\n"
    broken = {**reports(log)[0], "error": "all_reduce_perf ended with 3: unhandled system error"}
    assert failures([broken]) == {
        "NCCL": (
            "w-0 on node n-0: all_reduce_perf ended with 3: unhandled system error. "
            "NET/OFI GDR disabled on GDR-supported instance type p4de.24xlarge",
        )
    }
    assert failures([]) == {"NCCL": ("no rank reported",)}


# --- the program in the pods -------------------------------------------------------------------------------------------

STUB = """#!/bin/sh
[ "$NCCL_DEBUG" = INFO ] && cat "$LOG" > "$NCCL_DEBUG_FILE"
[ "$*" = "-b 8 -e 2G -f 2 -g 1" ] && cat "$TABLE"
exit "${CODE:-0}"
"""
"""Replaces all_reduce_perf and prints the recorded output. As with nccl-tests, the table goes to standard output."""


def ran(folder: Path, **more: str) -> tuple[int, list[NetworkReport]]:
    job = smoke.nccl_job(smoke.smoke_job("train", 2), cluster())
    (folder / "log").write_text(LOG)
    (folder / "table").write_text(TABLE)
    variables = {"PATH": f"{folder}:{os.environ['PATH']}", "LOG": str(folder / "log"), "TABLE": str(folder / "table")}
    command = [sys.executable, "-I", *job.command[1:]]
    environment = {**variables, **job.env, "OMPI_COMM_WORLD_RANK": "0", "GPUMPI_NODE": "n-0", **more}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert len(done.stdout) < 4096, "mpirun may break longer lines"
    return done.returncode, smoke.nccl_reports(f"noise\n{done.stdout}")


@pytest.fixture
def program(tmp_path: Path) -> Path:
    stub = tmp_path / "all_reduce_perf"
    stub.write_text(STUB)
    stub.chmod(0o755)
    return tmp_path


def test_a_rank_reports_what_nccl_logged_and_nccl_tests_printed(program: Path) -> None:
    code, (report,) = ran(program)
    assert code == 0
    assert report == reports()[0] | {"host": report["host"]}
    assert report["results"] == [[8, 0.0, False], [2 << 30, 78.31, False]]
    assert report["paths"] == {"Libfabric with GPUDirect": 3}


def test_a_rank_that_fails_or_lacks_the_program_ends_the_job(program: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    code, (report,) = ran(program, CODE="3")
    assert code == 1 and report["error"].startswith("all_reduce_perf ended with 3: # Avg bus bandwidth")
    code, (report,) = ran(tmp_path_factory.mktemp("empty"))
    assert (code, report["error"]) == (1, "all_reduce_perf is missing")


def test_the_nccl_job_uses_the_pool_image_and_launcher_of_the_smoke_job() -> None:
    first = smoke.smoke_job("train", 3, image="registry.example.com/mpi:1", launcher="standalone")
    job = smoke.nccl_job(first, cluster())
    assert (job.name, job.image, job.launcher, job.workers) == ("smoke-nccl", first.image, "standalone", 3)
    assert job.command[:3] == ("python3", "-c", text("nccl.py"))
    expected: Any = smoke.nccl_expected(first, cluster())
    assert (expected.workers, expected.ranks, expected.instance_type, expected.line_rate_gbps) == (3, 24, "p4d.24xlarge", 400.0)
    assert json.loads(json.dumps(job.env)) == {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,NET"}
