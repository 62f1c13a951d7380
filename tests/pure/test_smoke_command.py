"""Output of `scripts/cluster smoke`: table, JSON and exit code, with a cluster that returns recorded logs."""

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from cli.clusters.kubernetes_access import Access, Object
from cli.errors import CommandError
from cli.exit_codes import UNREACHABLE
from cli.jobs import smoke_command
from cli.jobs.state import JobState
from cli.main import app
from infra.jobs.cluster import ClusterDescription
from infra.jobs.model import Job
from infra.naming import EMULATED_LABEL
from infra.platform.job_controller.in_pod.phases import Phase
from tests.pure.job_world import make_cluster
from tests.pure.test_smoke_nccl import LOG, SOCKETS, TABLE
from tests.pure.test_smoke_nccl import make_reports as nccl_reports

GPUS = [{"name": "NVIDIA A100-SXM4-40GB", "bus": f"0000:0{index}:00.0", "error": ""} for index in range(8)]


def make_rank_reports(**more: Any) -> list[dict[str, Any]]:
    """Return the reports of two workers of pool `train`: p4d.24xlarge, with 8 GPUs and 4 EFA interfaces."""

    def make_report(rank: int) -> dict[str, Any]:
        worker = rank // 8
        report = {"rank": rank, "size": 16, "host": f"smoke-worker-{worker}", "node": f"node-{worker}", "gpus": 8, "gpu_files": 8}
        report |= {"efa_files": 4, "sum": 136.0, "transports": ["efa"], "library": "Open MPI v5.0.9"}
        return report | ({"cuda": {"error": "", "gpus": GPUS}} if rank % 8 == 0 else {}) | more

    return [make_report(rank) for rank in range(16)]


def make_nccl_reports(log: str = LOG, **more: Any) -> list[dict[str, Any]]:
    zero, other = nccl_reports(log, log, TABLE)
    return [zero | more] + [other | {"nccl_rank": rank} | more for rank in range(1, 16)]


@dataclass
class FakeCluster:
    """Fake cluster with only a description and nodes."""

    emulated: list[str] = field(default_factory=list)
    readable: bool = True
    namespace = None

    def connect(self) -> "FakeCluster":
        return self

    def description(self) -> ClusterDescription:
        return make_cluster()

    def list(self, kind: str, *, selector: dict[str, str]) -> "list[Object]":
        assert (kind, selector) == ("Node", {EMULATED_LABEL: "true"})
        if not self.readable:
            raise CommandError("the cluster denies access", UNREACHABLE)
        return [{"metadata": {"name": name}} for name in self.emulated]


@dataclass
class Shell:
    """Runs `smoke`; each job prints the next of the given reports."""

    monkeypatch: pytest.MonkeyPatch
    jobs: list[Job] = field(default_factory=list)

    def __call__(
        self, *arguments: str, prints: tuple[list[dict[str, Any]], ...] = (), phases: tuple[str, ...] = (), **of_cluster: Any
    ) -> Result:
        remaining, ends = list(prints), list(phases or ["Succeeded"] * len(prints))

        def run(cluster: Any, job: Job, described: Any, *, keep: bool) -> tuple[list[str], JobState]:
            self.jobs.append(job)
            now = datetime(2026, 1, 1, tzinfo=UTC)
            state = JobState(job.name, "mpi-jobs", "MPIJob", job.name, "mpijob", "train", 2, Phase(ends.pop(0)), "", 0, now, now)
            return [json.dumps(report) for report in remaining.pop(0)], state

        self.monkeypatch.setattr(Access, "connect", lambda self: FakeCluster(**of_cluster))
        self.monkeypatch.setattr(smoke_command, "_run_job", run)
        return CliRunner().invoke(app, ["smoke", *arguments])


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch) -> Shell:
    return Shell(monkeypatch)


def read_results(done: Result) -> dict[str, str]:
    document = json.loads(done.stdout)
    for check in document["checks"]:
        assert set(check) == {"name", "result", "detail"} and check["detail"]
    return {check["name"]: check["result"] for check in document["checks"]}


DEVICES = ("ranks", "workers", "GPU devices", "EFA devices", "sum over all ranks", "MPI transport")
NCCL = ("NCCL", "NCCL network", "GPUDirect", "NCCL bandwidth")


def test_default_level_checks_only_devices(shell: Shell) -> None:
    done = shell(prints=(make_rank_reports(),))
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines()[-1] == f"ok: 6 passed ({', '.join(DEVICES)})"
    assert "CUDA" not in done.stdout and "NCCL" not in done.stdout
    assert json.loads(shell("--json", prints=(make_rank_reports(),)).stdout)["level"] == "devices"


def test_every_level_includes_the_lower_levels(shell: Shell) -> None:
    assert read_results(shell("--level", "cuda", "--json", prints=(make_rank_reports(),))) == dict.fromkeys(
        (*DEVICES, "CUDA kernel"), "passed"
    )
    done = shell("--level", "nccl", "--json", prints=(make_rank_reports(), make_nccl_reports()))
    expected = dict.fromkeys((*DEVICES, "CUDA kernel", *NCCL), "passed") | {"slow node": "not run"}
    assert (done.exit_code, read_results(done)) == (0, expected)
    document = json.loads(done.stdout)
    assert document["ok"] and document["failures"] == []
    assert document["expected"]["nccl"]["line_rate_gbps"] == 400.0
    assert len(document["reports"]) == len(document["nccl"]) == 16
    assert [job.name for job in shell.jobs] == ["smoke", "smoke", "smoke-nccl"]


def test_failed_check_is_printed_and_sets_the_exit_code(shell: Shell) -> None:
    done = shell("--level", "nccl", prints=(make_rank_reports(), make_nccl_reports(SOCKETS)))
    assert done.exit_code == 1
    (row,) = [line for line in done.stdout.splitlines() if line.startswith("NCCL network")]
    assert row.split(maxsplit=3)[2] == "failed" and "uses Socket, not Libfabric" in row
    assert done.stdout.splitlines()[-1].startswith("FAILED: 9 passed (")
    assert done.stdout.splitlines()[-1].endswith("; 1 failed; 2 not run")


def test_nccl_level_does_not_run_after_a_failure(shell: Shell) -> None:
    done = shell("--level", "nccl", "--json", prints=(make_rank_reports(gpu_files=7, gpus=7),))
    assert done.exit_code == 1 and len(shell.jobs) == 1
    assert {read_results(done)[name] for name in NCCL} == {"not run"}


def test_an_image_without_nccl_tests_is_refused_with_the_fix(shell: Shell) -> None:
    done = shell(
        "--level",
        "nccl",
        "--json",
        prints=(make_rank_reports(), make_nccl_reports("", error="all_reduce_perf is missing")),
        phases=ENDS,
    )
    assert done.exit_code == 1
    assert json.loads(done.stdout)["failures"] == [MISSING]


ENDS: tuple[str, ...] = ("Succeeded", "Failed")
MISSING = (
    "the image has no all_reduce_perf. Use an image with nccl-tests: --image NAME, or build one with "
    "`scripts/cluster image build mpi`"
)

NO_HARDWARE: dict[str, Any] = {"gpu_files": 0, "efa_files": 0, "cuda": {"error": "libcuda.so.1 is missing", "gpus": []}}


def test_only_the_emulated_label_on_a_node_excuses_missing_hardware(shell: Shell) -> None:
    everywhere = shell("--level", "nccl", "--json", prints=(make_rank_reports(**NO_HARDWARE),), emulated=["node-0", "node-1"])
    assert everywhere.exit_code == 0 and len(shell.jobs) == 1
    absent = ("GPU devices", "EFA devices", "CUDA kernel", *NCCL)
    assert {name for name, result in read_results(everywhere).items() if result == "not on this hardware"} == set(absent)
    for labels in ({"emulated": ["node-1"]}, {"emulated": []}, {"readable": False}):
        done = shell("--level", "cuda", "--json", prints=(make_rank_reports(**NO_HARDWARE),), phases=("Failed",), **labels)
        assert done.exit_code == 1
        assert {read_results(done)[name] for name in ("GPU devices", "EFA devices", "CUDA kernel")} == {"failed"}


def test_job_that_fails_without_a_reason_is_not_a_success(shell: Shell) -> None:
    done = shell("--json", prints=(make_rank_reports(),), phases=("Failed",))
    assert done.exit_code == 1
    (failure,) = json.loads(done.stdout)["failures"]
    assert failure.startswith("job smoke failed")


REFUSED: dict[str, tuple[tuple[str, ...], str]] = {
    "torchrun": (
        ("--launcher", "torchrun"),
        "--launcher: torchrun does not start MPI ranks, which every level of smoke needs. Use mpijob or standalone",
    ),
    "pool without GPUs": (
        ("--pool", "system", "--level", "cuda"),
        "--level: pool system has no GPUs for level cuda. Use --level devices, or a pool with GPUs.",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_unsupported_launcher_or_pool_is_refused_before_creating_jobs(shell: Shell, name: str) -> None:
    arguments, sentence = REFUSED[name]
    done = shell(*arguments)
    assert done.exit_code != 0 and not shell.jobs
    assert sentence in done.output


def test_user_supplied_image_runs_in_every_job(shell: Shell) -> None:
    shell("--level", "nccl", "--image", "registry.example.com/mine:1", prints=(make_rank_reports(), make_nccl_reports()))
    assert {job.image for job in shell.jobs} == {"registry.example.com/mine:1"}
