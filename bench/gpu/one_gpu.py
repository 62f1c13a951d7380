"""Run this project's GPU programs on one machine with an NVIDIA GPU: `python3 bench/gpu/one_gpu.py --logs FOLDER`.

Two ranks share the first GPU. Each rank has its own host name, so NCCL treats the ranks as two nodes: NCCL accepts
the shared GPU, and the ranks communicate over TCP on the loopback interface. This shows that the programs work on a
GPU. It does not measure them: the ranks take turns on the GPU, and EFA, NVLink and GPUDirect are not involved.

Needs root (for the host names) and only Python's standard library. The checks need, in this order: the driver; Open MPI
with mpi4py and nccl-tests, as the AMIs and job images have them, and CuPy; PyTorch and Accelerate; JAX with scikit-learn;
PyTorch with py-spy. Prints a table. Exit code 1: a check failed.
"""

import argparse
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
IN_PODS = ROOT / "infra" / "jobs" / "in_pods"
CONTROLLER = ROOT / "infra" / "platform" / "job_controller" / "in_pod"
HOSTS = ("gpumpi-a", "gpumpi-b")
PORT = 29500
LOOPBACK = {"NCCL_SOCKET_IFNAME": "lo", "GLOO_SOCKET_IFNAME": "lo", "NCCL_CUMEM_HOST_ENABLE": "0"}
NCCL_LOG = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,NET"}
RECORDER = {
    "TORCH_NCCL_TRACE_BUFFER_SIZE": "2000",
    "TORCH_NCCL_DEBUG_INFO_TEMP_FILE": "/tmp/nccl_trace_rank_",
    "TORCH_NCCL_DEBUG_INFO_PIPE_FILE": "/tmp/nccl_dump_rank_",
}
"""The variables of jobs. They are copied from infra/jobs/smoke.py and infra/jobs/containers.py, which need libraries."""
MPIEXEC = ("mpiexec", "--allow-run-as-root", "--oversubscribe", "-n", "2")
HANG = """
import os, time, torch, torch.distributed as dist
torch.cuda.set_device(0)
dist.init_process_group("nccl")
def step(number):
    dist.all_reduce(torch.ones(1024, device="cuda"))
    torch.cuda.synchronize()
    print("step", number, flush=True)
for number in range(5):
    step(number)
if dist.get_rank() == 1:
    print("waiting", flush=True)
    time.sleep(600)
step(5)
"""
"""Rank 1 waits before the sixth all_reduce, in which rank 0 then hangs."""


class CheckFailed(Exception):
    """A check failed; the message gives the reason."""


@dataclass
class Row:
    """Result of one check."""

    name: str
    result: str = "passed"
    seconds: float = 0.0
    detail: str = ""


@dataclass
class Checks:
    """The checks and the folder for their logs and checkpoints."""

    logs: Path
    started: list["subprocess.Popen[bytes]"] = field(default_factory=list)

    def list_checks(self) -> list[Callable[[], str]]:
        mpi = [self.check_cuda, self.check_nccl, self.check_nccl_without_efa, self.check_device_buffers, self.check_mpi_benchmark]
        return [*mpi, self.check_fsdp, self.check_ddp, self.check_accelerate, self.check_jax, self.check_hang]

    def check_cuda(self) -> str:
        text = self.run_command("cuda", ["python3", str(IN_PODS / "cuda.py")], 60)
        report = json.loads(text.splitlines()[-1])
        errors = [report["error"], *(gpu["error"] for gpu in report["gpus"])]
        if any(errors) or not report["gpus"]:
            raise CheckFailed("; ".join(filter(None, errors)) or "CUDA found no GPU")
        return f"a kernel ran on {', '.join(gpu['name'] for gpu in report['gpus'])}"

    def check_nccl(self) -> str:
        reports = self.run_nccl_test("nccl", {})
        wrong = [row for report in reports for row in report["results"] if row[2]]
        errors = [report["error"] for report in reports if report["error"]]
        if len(reports) != 2 or wrong or errors:
            raise CheckFailed("; ".join(errors) or f"{reports}")
        rows = next(report["results"] for report in reports if report["results"])
        version = next((report["version"] for report in reports if report["version"]), "")
        return f"NCCL {version}, network {reports[0]['networks']}: {len(rows)} sizes with correct sums"

    def check_nccl_without_efa(self) -> str:
        """Jobs on pools with EFA set NCCL_NET=Libfabric, so that NCCL fails if the plugin for EFA is missing."""
        reports = self.run_nccl_test("nccl_without_efa", {"NCCL_NET": "Libfabric"}, may_fail=True)
        if any(report["results"] or not report["error"] for report in reports):
            raise CheckFailed(f"NCCL did not fail as expected: {reports}")
        return f"NCCL fails: {'. '.join([reports[0]['error'], *reports[0]['warnings']])}"

    def run_nccl_test(self, name: str, env: Mapping[str, str], may_fail: bool = False) -> list[dict[str, Any]]:
        """Run all_reduce_perf with two ranks. Return the ranks' reports."""
        rank = f"hostname gpumpi-rank-$OMPI_COMM_WORLD_RANK; exec python3 {IN_PODS / 'nccl.py'} 16M"
        command = [*MPIEXEC, "unshare", "--uts", "bash", "-c", rank]
        text = self.run_command(name, command, 120, {**LOOPBACK, **NCCL_LOG, **env}, may_fail)
        reports = [json.loads(line) for line in text.splitlines() if line.startswith('{"nccl_rank"')]
        if not reports:
            raise CheckFailed(f"no rank reported: {text.strip()[-400:]}")
        return reports

    def check_mpi_benchmark(self) -> str:
        program = str(ROOT / "workloads" / "mpi-benchmarks" / "measure.py")
        text = self.run_command(
            "mpi_benchmark", [*MPIEXEC, "python3", program, "--buffers", "device", "--largest", str(1 << 20)], 120
        )
        return text.strip().splitlines()[-1]

    def check_device_buffers(self) -> str:
        file = self.logs / "device_buffers.json"
        program = str(ROOT / "bench" / "gpu" / "device_buffers.py")
        self.run_command("device_buffers", [*MPIEXEC, "python3", program, "--json", str(file)], 180)
        report = json.loads(file.read_text())
        return f"{report['mpi']}: {len(report['sizes'])} sizes, every byte correct"

    def check_fsdp(self) -> str:
        command = ["train.py", "--checkpoints", str(self.logs / "fsdp"), "--hold", "25"]
        return self.train_with_interruption("pytorch-fsdp", make_torchrun_command(command), r"step 25: ", signal.SIGTERM)

    def check_ddp(self) -> str:
        command = ["train.py", "--checkpoint", str(self.logs / "ddp.pt"), "--hold", "2"]
        return self.train_with_interruption("pytorch-ddp", make_torchrun_command(command), r"epoch 2: ", signal.SIGTERM)

    def check_accelerate(self) -> str:
        """Start the same program with the options that infra/jobs/launchers/torchrun.py passes to `accelerate launch`."""

        def build_command(node: int) -> list[str]:
            where = [f"--machine_rank={node}", "--main_process_ip=127.0.0.1", f"--main_process_port={PORT}", "--multi_gpu"]
            program = ["train.py", "--checkpoint", str(self.logs / "accelerate.pt")]
            return ["accelerate", "launch", "--num_machines=2", "--num_processes=2", *where, *program]

        first, _ = self.start("accelerate", build_command, folder=ROOT / "workloads" / "pytorch-ddp")
        return self.wait_for_result(first)

    def check_jax(self) -> str:
        command = ["python3", "train.py", "--checkpoint", str(self.logs / "jax.npz"), "--hold", "2"]
        return self.train_with_interruption("jax-mnist", lambda _: command, r"epoch 2: ", signal.SIGKILL)

    def check_hang(self) -> str:
        """Make a job hang, and dump its ranks' stacks as the job controller does."""
        program = self.logs / "hang.py"
        program.write_text(HANG)
        ranks = list(self.start("hang", lambda _: ["python3", str(program)], env=RECORDER))
        self.wait_for_line(ranks[1], "waiting", 120)
        time.sleep(3)  # wait until rank 0 hangs in the all_reduce
        dump = ["sh", "-c", (CONTROLLER / "dump_ranks.sh").read_text(), "sh", (CONTROLLER / "dump_nccl.py").read_text(), "job"]
        text = self.run_command("hang-dump", dump, 60)
        self.end_processes(signal.SIGKILL)
        counts = {"gpumpi-rank 0": 1, "gpumpi-rank 1": 1, "flight recorder: completed: nccl:all_reduce 5": 2, "gpumpi-nccl": 1}
        if missing := [text_part for text_part, times in counts.items() if text.count(text_part) < times]:
            raise CheckFailed(f"the dump lacks {missing}")
        return "stacks, flight recorder and RAS report"

    def train_with_interruption(self, name: str, command: Callable[[int], list[str]], line: str, how: signal.Signals) -> str:
        """Train a workload, end it after a printed line, start it again, and return its result."""
        first = list(self.start(f"{name}-1", command, folder=ROOT / "workloads" / name))
        self.wait_for_line(first[0], line, 120)
        self.end_processes(how)
        second = list(self.start(f"{name}-2", command, folder=ROOT / "workloads" / name))
        result = self.wait_for_result(second[0])
        if "resuming from " not in second[0].read_text(errors="replace"):
            raise CheckFailed("the second start did not resume from the checkpoint")
        return result

    def wait_for_result(self, log: Path) -> str:
        """Wait for the processes that were started, and return the line with the program's result."""
        codes = [process.wait(120) for process in self.started]
        self.started.clear()
        said = log.read_text(errors="replace")
        result = re.search(r"^2 (ranks|processes) on .*", said, re.MULTILINE)
        if any(codes) or not result:
            raise CheckFailed(f"exit codes {codes}: {said.strip()[-400:]}")
        return result[0]

    # --- processes ---------------------------------------------------------------------------------------------------

    def run_command(
        self, name: str, command: Sequence[str], limit: float, env: Mapping[str, str] | None = None, may_fail: bool = False
    ) -> str:
        log = self.logs / f"{name}.log"
        with log.open("wb") as file:
            done = subprocess.run(
                command, stdout=file, stderr=subprocess.STDOUT, timeout=limit, env={**os.environ, **(env or {})}, check=False
            )
        text = log.read_text(errors="replace")
        if done.returncode and not may_fail:
            raise CheckFailed(f"exit code {done.returncode}: {text.strip()[-400:]}")
        return text

    def start(
        self, name: str, command: Callable[[int], list[str]], *, env: Mapping[str, str] | None = None, folder: Path | None = None
    ) -> Iterator[Path]:
        """Start one process per host and yield the log of each."""
        for rank, host in enumerate(HOSTS):
            log = self.logs / f"{name}-{rank}.log"
            of_rank = {"RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": "0"}
            of_job = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(PORT), "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
            with log.open("wb") as file:
                self.started.append(
                    subprocess.Popen(
                        wrap_with_host_name(host, command(rank)),
                        stdout=file,
                        stderr=subprocess.STDOUT,
                        cwd=folder,
                        env={**os.environ, **LOOPBACK, **of_rank, **of_job, **(env or {})},
                        start_new_session=True,
                    )
                )
            yield log

    def wait_for_line(self, log: Path, line: str, limit: float) -> None:
        end = time.monotonic() + limit
        while not re.search(line, log.read_text(errors="replace")):
            if time.monotonic() > end or any(process.poll() is not None for process in self.started):
                raise CheckFailed(f"no line {line!r}: {log.read_text(errors='replace').strip()[-400:]}")
            time.sleep(0.1)

    def end_processes(self, how: signal.Signals) -> None:
        """Send a signal to all processes that were started, and wait until they have ended."""
        for process in self.started:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, how)
        for process in self.started:
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        self.started.clear()


def wrap_with_host_name(host: str, command: Sequence[str]) -> list[str]:
    """Return the command with its own host name, which resolves to the loopback address: JAX's Gloo needs that."""
    hosts = 'file=$(mktemp); echo "127.0.0.1 localhost $1" >"$file"; mount --bind "$file" /etc/hosts; rm "$file"'
    script = f'hostname "$1"; {hosts}; shift; exec "$@"'
    return ["unshare", "--uts", "--mount", "sh", "-e", "-c", script, "sh", host, *command]


def make_torchrun_command(program: Sequence[str]) -> Callable[[int], list[str]]:
    def command(node: int) -> list[str]:
        where = ["--nnodes=2", "--nproc_per_node=1", f"--node_rank={node}", "--master_addr=127.0.0.1", f"--master_port={PORT}"]
        return ["python3", "-m", "torch.distributed.run", *where, *program]

    return command


def name_check(check: Callable[[], str]) -> str:
    return check.__name__.removeprefix("check_")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--logs", type=Path, required=True, help="new folder for logs and results.json")
    parser.add_argument(
        "--only", nargs="+", choices=[name_check(check) for check in Checks(Path()).list_checks()], help="run only these"
    )
    chosen = parser.parse_args()
    if chosen.logs.exists():
        parser.error(f"--logs: {chosen.logs} exists. Choose a new folder")
    chosen.logs.mkdir(parents=True)
    checks, rows = Checks(chosen.logs.resolve()), []
    for check in checks.list_checks():
        if chosen.only and name_check(check) not in chosen.only:
            continue
        row, started = Row(name_check(check)), time.monotonic()
        try:
            row.detail = check()
        except (CheckFailed, OSError, ValueError, subprocess.TimeoutExpired) as error:
            row.result, row.detail = "FAILED", str(error)
            checks.end_processes(signal.SIGKILL)
        row.seconds = round(time.monotonic() - started, 1)
        rows.append(row)
        print(f"{row.name:11} {row.result:7} {row.seconds:6.1f} s  {row.detail}", flush=True)
    (chosen.logs / "results.json").write_text(json.dumps([asdict(row) for row in rows], indent=2) + "\n")
    return int(any(row.result != "passed" for row in rows))


if __name__ == "__main__":
    sys.exit(main())
