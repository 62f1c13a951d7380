"""The minimum for NCCL's bus bandwidth, checked against published results."""

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from moto.ec2.models.instance_types import INSTANCE_TYPES

from infra.facts.instance_types import line_rate
from tests.docs.tables import ROOT

GIB = 1 << 30
PROGRAM = ROOT / "workloads" / "mpi-benchmarks" / "nccl.py"


def loaded(name: str) -> ModuleType:
    """Import a workload's program from its file, because the folder's name is not a valid package name."""
    found = importlib.util.spec_from_file_location(name, ROOT / "workloads" / "mpi-benchmarks" / f"{name}.py")
    assert found and found.loader
    module = importlib.util.module_from_spec(found)
    sys.modules[name] = module  # dataclasses look there
    found.loader.exec_module(module)
    return module


nccl: Any = loaded("nccl")

GOOD = [
    ("p4de.24xlarge", 2, 2 * GIB, 78.3),
    ("p5.48xlarge", 2, 16 * GIB, 487.1),
    ("p5.48xlarge", 2, 2 * GIB, 437.8),
    ("p5en.48xlarge", 16, 16 * GIB, 369.9),
    ("p6-b200.48xlarge", 2, 8 * GIB, 523.8),
]
"""Published good results: instance type, nodes, bytes, GB/s.

https://github.com/awslabs/awsome-distributed-ai/tree/main/micro-benchmarks/nccl-tests, aws-do-eks
"""

BELOW = [
    ("p4d.24xlarge", 4, 2 * GIB, 29.6, "badly configured, measured at 1 GiB: https://github.com/NVIDIA/nccl/issues/527"),
    ("p3dn.24xlarge", 8, 2 * GIB, 8.0, "2019, without GPUDirect: https://github.com/NVIDIA/nccl/issues/235"),
    ("p3dn.24xlarge", 32, 2 * GIB, 6.0, "2019, without GPUDirect: https://github.com/aws/aws-ofi-nccl/issues/19"),
]
"""Published results that are too slow, with the reason; the program must judge them as failures."""


def rate(instance_type: str) -> float:
    found = line_rate(INSTANCE_TYPES[instance_type]["NetworkInfo"]["NetworkPerformance"])
    assert found is not None
    return found


@pytest.mark.parametrize(("instance_type", "nodes", "size", "bus"), GOOD)
def test_what_good_clusters_have_published_passes(instance_type: str, nodes: int, size: int, bus: float) -> None:
    fine, why = nccl.verdict([nccl.Result(size, bus, False)], nodes, rate(instance_type))
    assert fine, why


@pytest.mark.parametrize(("instance_type", "nodes", "size", "bus", "why_slow"), BELOW)
def test_a_slow_result_fails_with_what_to_check(instance_type: str, nodes: int, size: int, bus: float, why_slow: str) -> None:
    fine, why = nccl.verdict([nccl.Result(size, bus, False)], nodes, rate(instance_type))
    assert not fine, why_slow
    assert f"{nodes} nodes must reach" in why and "GDRDMA" in why


def test_half_of_the_bandwidth_of_a_good_pair_fails() -> None:
    for instance_type, nodes, size, bus in GOOD:
        assert not nccl.verdict([nccl.Result(size, bus / 2, False)], nodes, rate(instance_type))[0]


def test_one_node_and_a_type_without_a_rate_of_its_own_are_not_judged() -> None:
    found = [nccl.Result(16 * GIB, 483.0, False)]
    assert nccl.verdict(found, 1, 3200.0) == (
        True,
        "483.0 GB/s at 17179869184 bytes on 1 node; not judged: one node uses no network",
    )
    assert nccl.verdict(found, 2, None)[0]


def test_small_messages_alone_judge_nothing() -> None:
    fine, why = nccl.verdict([nccl.Result(128 << 20, 289.0, False)], 2, 3200.0)
    assert not fine
    assert "cannot be judged below 2147483648 bytes. Set --largest to at least that size" in why


def test_wrong_sums_fail_however_fast_they_are() -> None:
    assert nccl.verdict([nccl.Result(2 * GIB, 999.0, True)], 2, 3200.0) == (False, "wrong sums at [2147483648] bytes")
    assert nccl.verdict([], 2, 3200.0) == (False, "nccl-tests printed no result")


PRINTED = """
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
           8             2     float     sum      -1    164.0    0.00    0.00      0    163.2    0.00    0.00      0
  2147483648     536870912     float     sum      -1    51419   41.76   78.31      0    51464   41.73   78.24      0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 39.1
"""


def judged(folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the program as an MPI rank. A stub prints the output that nccl-tests prints on two p4de.24xlarge."""
    program = folder / "all_reduce_perf"
    program.write_text(f"#!/bin/sh\ncat <<'END'\n{PRINTED}END\n")
    program.chmod(0o755)
    command = [sys.executable, str(PROGRAM), "--program", str(program)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


RANK_0_OF_16 = {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "16", "OMPI_COMM_WORLD_LOCAL_SIZE": "8"}


@pytest.mark.parametrize(
    ("rate", "code", "told"),
    [
        ("400", 0, "nccl: ok: 78.3 GB/s at 2147483648 bytes is 157% of the line rate; 2 nodes must reach 50 GB/s"),
        ("3200", 1, "nccl: FAILED: 78.3 GB/s at 2147483648 bytes is 20% of the line rate; 2 nodes must reach 400 GB/s"),
    ],
)
def test_the_job_ends_as_the_judgement_says_with_the_rate_of_its_pool(tmp_path: Path, rate: str, code: int, told: str) -> None:
    done = judged(tmp_path, GPUMPI_LINE_RATE_GBPS=rate, **RANK_0_OF_16)
    assert done.returncode == code
    assert done.stdout.splitlines()[-1].startswith(told)
    assert "78.31" in done.stdout


def test_only_rank_0_prints_and_a_process_that_is_no_rank_is_reported(tmp_path: Path) -> None:
    other = judged(tmp_path, **(RANK_0_OF_16 | {"OMPI_COMM_WORLD_RANK": "1"}))
    assert (other.returncode, other.stdout) == (0, "")
    alone = judged(tmp_path)
    assert alone.returncode == 1 and "Run this as an Open MPI rank" in alone.stderr


def test_the_table_of_nccl_tests_is_read() -> None:
    assert nccl.results(PRINTED) == [nccl.Result(8, 0.0, False), nccl.Result(2 * GIB, 78.31, False)]
    assert nccl.results(PRINTED.replace("78.24      0", "78.24      7"))[1].wrong
