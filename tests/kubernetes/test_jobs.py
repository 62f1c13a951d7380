"""Jobs with every launcher and every MPI on two real nodes, submitted by `scripts/cluster` with only a kubeconfig."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from infra.jobs import smoke
from infra.jobs.mpi import host_name
from infra.naming import ACCELERATOR_LABEL, GPU_TAINT
from infra.versions import MPI_OPERATOR
from localcloud import mirror
from testkit.job_cluster import NAMESPACE, JobCluster, build_python_command, write_job_file

pytestmark = pytest.mark.xdist_group("jobs")

WHO = """
from mpi4py import MPI
import os, socket
world = MPI.COMM_WORLD
lines = world.gather(f"rank {world.rank} of {world.size} on {socket.gethostname()} greeting={os.environ.get('GREETING')}")
if world.rank == 0:
    print("\\n".join(lines), flush=True)
"""

SMOKES: list[tuple[str, list[str], str]] = [
    ("mpijob, Open MPI 4", ["--image", "openmpi:4"], "Open MPI v4."),
    ("mpijob, Open MPI 5", ["--image", "openmpi:5"], "Open MPI v5."),
    ("mpijob, MPICH", ["--mpi", "MPICH"], "MPICH"),
    ("mpijob, Intel MPI", ["--mpi", "Intel"], "Intel"),
    ("standalone, Open MPI 4", ["--launcher", "standalone", "--image", "openmpi:4"], "Open MPI v4."),
    ("standalone, Open MPI 5", ["--launcher", "standalone", "--image", "openmpi:5"], "Open MPI v5."),
]
SHORT = ("mpijob, Open MPI 5", "mpijob, Intel MPI", "standalone, Open MPI 4", "-npernode-openmpi:5", "hosts-mpich:5")
"""Cases that `make test` runs: both launchers and every MPI. `make mission` runs all cases."""


def make_case(name: str, *values: Any) -> Any:
    return pytest.param(*values, id=name, marks=() if name in SHORT else pytest.mark.mission_only)


@pytest.mark.mission("A", "master and workers")
@pytest.mark.mission("A", "keys in a Secret")
@pytest.mark.mission("A", "hostfile")
@pytest.mark.mission("B", "mpi-operator")
@pytest.mark.mission("B", "every MPI")
@pytest.mark.mission("D", "device plugin")
@pytest.mark.mission("E", "device plugin")
@pytest.mark.parametrize(("options", "library"), [make_case(*values) for values in SMOKES])
def test_smoke_verifies_two_nodes_all_gpus_a_correct_sum_and_the_network(
    job_cluster: JobCluster, options: list[str], library: str
) -> None:
    done = job_cluster.cluster("smoke", "--name", "smoke-all", "--json", *options)
    assert done.code == 0, done.out + done.err
    reports = done.json["reports"]
    assert [report["host"] for report in reports] == ["smoke-all-worker-0", "smoke-all-worker-1"]
    assert len({report["node"] for report in reports}) == 2
    assert [report["gpus"] for report in reports] == [1, 1]
    assert reports[0]["library"].startswith(library)
    assert {transport for report in reports for transport in report["transports"]} == {"tcp"}
    assert {check["name"]: check["result"] for check in done.json["checks"]} == ON_EMULATED_DEVICES


ON_EMULATED_DEVICES = dict.fromkeys(("ranks", "workers", "sum over all ranks", "MPI transport"), "passed") | dict.fromkeys(
    ("GPU devices", "EFA devices"), "not on this hardware"
)


def test_smoke_with_nccl_reports_no_result_for_emulated_gpus(job_cluster: JobCluster) -> None:
    done = job_cluster.cluster("smoke", "--name", "smoke-nccl", "--level", "nccl", "--json")
    assert done.code == 0, done.out + done.err
    results = {check["name"]: check["result"] for check in done.json["checks"]}
    assert results.pop("slow node") == "not run"
    absent = ("CUDA kernel", "NCCL", "NCCL network", "GPUDirect", "NCCL bandwidth")
    assert results == ON_EMULATED_DEVICES | dict.fromkeys(absent, "not on this hardware")
    first = next(report for report in done.json["reports"] if report["rank"] == 0)
    assert first["cuda"] == {"error": "libcuda.so.1 is missing", "gpus": []}
    assert first["rates"]["smoke-nccl-worker-1"] > 0


def test_smoke_fails_if_the_network_transport_is_not_the_expected_one(job_cluster: JobCluster) -> None:
    done = job_cluster.cluster("smoke", "--name", "smoke-efa", "--transport", "efa", "--json")
    assert done.code == 1
    assert done.json["failures"] == ["messages between workers used tcp, not efa"]


@pytest.mark.mission_only
def test_smoke_fails_if_open_mpi_5_gets_only_the_old_variables_and_runs_on_the_launcher(
    job_cluster: JobCluster, tmp_path: Path
) -> None:
    """The job has only the variables that mpi-operator sets, not those that Open MPI 5 reads."""
    with_program = build_python_command(smoke.build_program())
    command = [*with_program, '[2, 1, 1, "tcp"]']
    file = write_job_file(tmp_path, "smoke-old", command=command, maxRestarts=0)
    manifests = job_cluster.cluster("submit", file, "--dry-run", "--json").json
    (launcher,) = manifests[0]["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"]
    launcher["env"] = [variable for variable in launcher["env"] if not variable["name"].startswith("PRTE_")]
    result = job_cluster.kubectl("create", "-f", "-", text=json.dumps(manifests[0]))
    assert result.code == 0, result.err
    done = job_cluster.cluster("logs", "smoke-old", "--follow")
    assert done.code == 1, done.out
    assert "smoke: FAILED: 2 ranks ran on the launcher smoke-old-launcher, which must not run any" in done.out
    assert job_cluster.cluster("cancel", "smoke-old").code == 0


CHOICES: list[tuple[str, dict[str, Any], list[str]]] = [
    ("every slot", {"slots": 2}, ["worker-0", "worker-0", "worker-1", "worker-1"]),
    ("-np", {"slots": 2, "ranks": 3}, ["worker-0", "worker-0", "worker-1"]),
    ("-npernode", {"slots": 2, "perNode": 1}, ["worker-0", "worker-1"]),
    ("hosts", {"slots": 2, "hosts": [1]}, ["worker-1", "worker-1"]),
]
EVERY_MPI: list[dict[str, Any]] = [
    {"image": "openmpi:4"},
    {"image": "openmpi:5"},
    {"image": "mpich:5", "mpiImplementation": "MPICH"},
    {"image": "intel-mpi:2021", "mpiImplementation": "Intel"},
]


def list_mpi_combinations() -> Iterator[Any]:
    """Yield every combination of CHOICES and EVERY_MPI."""
    for choice, more, expected_workers in CHOICES:
        for mpi in EVERY_MPI:
            yield make_case(f"{choice}-{mpi['image']}", mpi, more, expected_workers)


@pytest.mark.mission("B", "slots and hosts")
@pytest.mark.mission("B", "every MPI")
@pytest.mark.parametrize(("mpi", "more", "expected_workers"), list_mpi_combinations())
def test_ranks_run_on_the_requested_hosts(
    job_cluster: JobCluster, tmp_path: Path, mpi: dict[str, Any], more: dict[str, Any], expected_workers: list[str]
) -> None:
    file = write_job_file(tmp_path, "where", command=build_python_command(WHO), env={"GREETING": "hello there"}, **mpi, **more)
    done = job_cluster.cluster("submit", file, "--follow")
    assert done.code == 0, done.out + done.err
    lines = [line for line in done.out.splitlines() if line.startswith("rank ")]
    size = len(expected_workers)
    assert lines == [
        f"rank {rank} of {size} on where-{worker} greeting=hello there" for rank, worker in enumerate(expected_workers)
    ]
    assert "job where succeeded in" in done.err
    assert job_cluster.cluster("cancel", "where").code == 0


@pytest.mark.mission_only
@pytest.mark.mission("B", "slots and hosts")
def test_ranks_per_socket_setting_is_applied(job_cluster: JobCluster, tmp_path: Path) -> None:
    for image in ("openmpi:4", "openmpi:5"):
        file = write_job_file(tmp_path, "sockets", command=build_python_command(WHO), image=image, slots=2, perSocket=1)
        done = job_cluster.cluster("submit", file, "--follow")
        assert done.code == 0, done.out + done.err
        assert [line.split()[5] for line in done.out.splitlines() if line.startswith("rank ")] == [
            "sockets-worker-0",
            "sockets-worker-1",
        ]
        assert job_cluster.cluster("cancel", "sockets").code == 0


PREPARE = (
    "import pathlib; file = pathlib.Path('/shared/prepared'); file.write_text(file.read_text() + 'x' if file.exists() else 'x')"
)
READ = """
import os, pathlib
from mpi4py import MPI
told = MPI.COMM_WORLD.gather((os.environ["PASSWORD"], pathlib.Path("/shared/prepared").read_text()))
if told:
    print("told", told, flush=True)
    pathlib.Path("/shared/prepared").unlink()
"""


@pytest.mark.mission("A", "hostfile")
@pytest.mark.mission("D", "credentials")
@pytest.mark.mission("D", "pre-train step")
@pytest.mark.mission("D", "shared volume")
@pytest.mark.parametrize("launcher", ["mpijob", pytest.param("standalone", marks=pytest.mark.mission_only)])
def test_ranks_can_read_secrets_and_the_prepared_shared_volume(job_cluster: JobCluster, tmp_path: Path, launcher: str) -> None:
    name = f"prepared-{launcher}"
    job_cluster.kubectl("create", "secret", "generic", name, "-n", "mpi-jobs", "--from-literal=key=with 'quotes' and \"more\"")
    secret = {"PASSWORD": {"name": name, "key": "key"}}
    file = write_job_file(
        tmp_path, name, launcher=launcher, command=build_python_command(READ), setup=["python3", "-c", PREPARE], secretEnv=secret
    )
    done = job_cluster.cluster("submit", file, "--follow")
    assert done.code == 0, done.out + done.err
    rank_secrets = ("with 'quotes' and \"more\"", "x")
    assert f"told {[rank_secrets, rank_secrets]}" in done.out
    gpus = 1  # the default number of slots is the number of GPUs per node
    workers = [host_name(name, NAMESPACE, number) for number in range(2)]
    assert job_cluster.read_hostfile(name) == [f"{worker} slots={gpus}" for worker in workers]
    job_cluster.cluster("cancel", name)
    job_cluster.kubectl("delete", "secret", name, "-n", "mpi-jobs")


@pytest.mark.mission_only
@pytest.mark.mission("B", "mpi-operator")
def test_an_mpi_operator_example_runs_in_a_namespace_with_a_less_strict_policy(job_cluster: JobCluster) -> None:
    module = mirror.download_module(shutil.which("go") or "go", f"github.com/kubeflow/mpi-operator@{MPI_OPERATOR}")
    example = (module / "examples" / "v2beta1" / "pi" / "pi.yaml").read_text()
    namespace = "pi-example"
    job_cluster.kubectl("create", "namespace", namespace)
    # The example's three pods request one CPU each and tolerate no taint. The only system node has too few CPUs (two), so the GPU
    # nodes must accept the pods.
    assert job_cluster.kubectl("taint", "nodes", "--selector", ACCELERATOR_LABEL, f"{GPU_TAINT.key}-").code == 0
    try:
        job_cluster.kubectl("label", "namespace", namespace, "pod-security.kubernetes.io/enforce=baseline")
        assert job_cluster.kubectl("create", "-n", namespace, "-f", "-", text=example).code == 0
        done = job_cluster.cluster("logs", "pi", "-n", namespace, "--follow")
        assert done.code == 0, done.out + done.err
        assert "pi is approximately 3.14" in done.out, done.out + done.err
    finally:
        taint = f"{GPU_TAINT.key}={GPU_TAINT.value}:NoSchedule"
        job_cluster.kubectl("taint", "nodes", "--selector", ACCELERATOR_LABEL, taint, "--overwrite")
        job_cluster.kubectl("delete", "namespace", namespace, "--wait=false")
