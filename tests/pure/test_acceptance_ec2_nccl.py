"""NCCL rows of `acceptance` for an EC2 cluster. The head node's command runs in a local shell, where mpiexec and
all_reduce_perf are scripts that print recorded output.
"""

import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from cli.clusters.acceptance import ec2_nodes
from cli.clusters.acceptance.aws_reads import Instance
from cli.clusters.acceptance.report import Check, Row, run_checks
from infra.facts.instance_types import InstanceType
from tests.pure.test_smoke_nccl import LOG, SLOW, SOCKETS, TABLE, WITHOUT_GPUDIRECT

P4DE = InstanceType.from_ec2(
    {
        "InstanceType": "p4de.24xlarge",
        "ProcessorInfo": {"SupportedArchitectures": ["x86_64"]},
        "VCpuInfo": {"DefaultVCpus": 96},
        "MemoryInfo": {"SizeInMiB": 1179648},
        "GpuInfo": {"Gpus": [{"Count": 1, "Manufacturer": "NVIDIA"}]},
        "NetworkInfo": {"NetworkCards": [], "Ipv4AddressesPerInterface": 50, "NetworkPerformance": "4x 100 Gigabit"},
    }
)
MPIEXEC = """#!/bin/bash
echo "$*" >>"$HOME/mpiexec"
shift 4
for rank in 0 1; do OMPI_COMM_WORLD_RANK=$rank "$@" || exit; done
"""
PERF = """#!/bin/bash
if [[ $NCCL_DEBUG$NCCL_DEBUG_SUBSYS != INFOINIT,NET ]]; then exit 3; fi
if [[ $OMPI_COMM_WORLD_RANK == 0 ]]; then cat "$HOME/table"; fi
echo "$NCCL_NET" >"$HOME/net"
cat "$HOME/log$OMPI_COMM_WORLD_RANK" >"$NCCL_DEBUG_FILE"
"""


@dataclass
class Shell:
    """Head node that runs its commands on this machine."""

    home: Path
    written: list[str] = field(default_factory=list)

    def run(self, script: str) -> tuple[int, str]:
        env = {"HOME": str(self.home), "PATH": f"{self.home}/bin:{os.environ['PATH']}"}
        done = subprocess.run(["bash", "-c", script], env=env, capture_output=True, text=True, timeout=60, check=False)
        return done.returncode, done.stdout + done.stderr

    def put(self, path: str, content: bytes) -> None:
        (self.home / path).write_bytes(content)
        self.written.append(path)


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    (tmp_path / "bin").mkdir()
    (tmp_path / "nccl").mkdir()
    for name, script in (("bin/mpiexec", MPIEXEC), ("bin/scp", "#!/bin/sh\n"), ("nccl/all_reduce_perf", PERF)):
        (tmp_path / name).write_text(script)
        (tmp_path / name).chmod(0o755)
    monkeypatch.setattr(ec2_nodes, "NCCL_PROGRAMS", str(tmp_path / "nccl/all_reduce_perf"))
    return Shell(tmp_path)


def run_nccl_checks(shell: Shell, log: str = LOG, table: str = TABLE, efa: int = 4, **declared: str) -> dict[str, str]:
    """Return the results, keyed by row name."""
    for name, text in (("log0", LOG if log != SOCKETS else log), ("log1", log), ("table", table)):
        (shell.home / name).write_text(text)
    workers = [Instance(f"i-{number}", P4DE.name, "ami-1", "", f"10.0.0.{number}", efa) for number in range(2)]
    remote: Any = shell
    check = Check("smoke: nccl", lambda notes: ec2_nodes.check_nccl(notes, remote, workers, P4DE, "perf.py"))
    results = run_checks([check], lambda: declared, report=lambda line: None)
    return {row.name: row.result if isinstance(row, Row) else "left out" for row in results}


SOUND = {
    "smoke: nccl": "passed",
    "smoke: NCCL": "passed",
    "smoke: NCCL network": "passed",
    "smoke: GPUDirect": "passed",
    "smoke: NCCL bandwidth": "passed",
}


def test_healthy_workers_pass_every_check(shell: Shell) -> None:
    assert run_nccl_checks(shell) == SOUND
    assert shell.written == ["perf.py"]
    assert (shell.home / "mpiexec").read_text().startswith("-n 2 -N 1 bash -c ")


@pytest.mark.parametrize(
    ("changed", "row"),
    [
        ({"log": WITHOUT_GPUDIRECT}, "smoke: GPUDirect"),
        ({"table": SLOW}, "smoke: NCCL bandwidth"),
        ({"log": LOG.replace("provider is efa,", "provider is tcp,")}, "smoke: NCCL network"),
    ],
    ids=["without GPUDirect", "slow", "another provider"],
)
def test_each_fault_fails_only_its_own_check(shell: Shell, changed: dict[str, str], row: str) -> None:
    assert run_nccl_checks(shell, **changed) == {**SOUND, row: "failed"}


def test_nccl_must_fail_without_efa_only_where_workers_have_efa(shell: Shell) -> None:
    run_nccl_checks(shell)
    assert (shell.home / "net").read_text() == "Libfabric\n"
    without = run_nccl_checks(shell, log=SOCKETS, efa=0)
    assert (shell.home / "net").read_text() == "\n"
    assert (without["smoke: NCCL network"], without["smoke: GPUDirect"]) == ("passed", "left out")


def test_missing_binary_counts_as_missing_hardware_only_on_emulated_devices(shell: Shell) -> None:
    (shell.home / "nccl/all_reduce_perf").unlink()
    assert run_nccl_checks(shell, node="emulated") == {"smoke: nccl": "not on this hardware"}
    assert run_nccl_checks(shell) == {"smoke: nccl": "failed"}


def test_failed_mpiexec_start_is_reported_with_its_output(shell: Shell) -> None:
    (shell.home / "bin/mpiexec").write_text("#!/bin/sh\necho no such host >&2; exit 1\n")
    results = run_nccl_checks(shell)
    assert (results["smoke: nccl"], results["smoke: NCCL network"]) == ("failed", "not run")
