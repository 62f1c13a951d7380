"""Job images work in an unprivileged pod: SSH between pods, ranks on several hosts, no secrets in the image."""

import json
import re
import stat
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.jobs import nccl_verdict, smoke
from infra.jobs.in_pods import read_source
from infra.jobs.nccl_verdict import NAMES, NcclExpected
from localcloud.images import build, layers, recipes
from localcloud.images.archive import get_blob_path, list_layer_paths, read_manifest_digest
from localcloud.images.catalogue import INTEL_MPI, MPICH, OPENMPI_4, OPENMPI_5, Image, find_image
from tests.images.conftest import needs_roots
from tests.images.pods import WORKERS, Job
from tests.pure.test_smoke_nccl import LOG, TABLE

pytestmark = [needs_roots, pytest.mark.xdist_group("job-images")]

REPORT = (
    "from mpi4py import MPI; world = MPI.COMM_WORLD; "
    "print('rank', world.rank, world.size, MPI.Get_processor_name(), world.allreduce(world.rank + 1), flush=True)"
)
HOSTFILE = "/tmp/hostfile"
# Variables that MPI operator 0.8.2 sets. Open MPI 5, which the operator does not support, reads a different variable.
ENVIRONMENT = {
    OPENMPI_4: {"OMPI_MCA_orte_keep_fqdn_hostnames": "true", "OMPI_MCA_orte_default_hostfile": HOSTFILE},
    OPENMPI_5: {"PRTE_MCA_prte_default_hostfile": HOSTFILE},
    MPICH: {"HYDRA_HOST_FILE": HOSTFILE},
    INTEL_MPI: {"I_MPI_HYDRA_HOST_FILE": HOSTFILE, "I_MPI_PERHOST": "2"},
}
FORM = {OPENMPI_4: "{} slots=2", OPENMPI_5: "{} slots=2", MPICH: "{}:2", INTEL_MPI: "{}:2"}
PI = {OPENMPI_4: "openmpi", MPICH: "mpich", INTEL_MPI: "intel"}
ALL_REDUCE_PERF = """#!/usr/bin/python3
import os
from mpi4py import MPI
world = MPI.COMM_WORLD
if world.allreduce(1) != 4:
    raise SystemExit("this is not one world of four ranks")
if world.rank == 0:
    print('''{table}''')
with open(os.environ["NCCL_DEBUG_FILE"], "w") as file:
    file.write('''{log}''')
"""
"""MPI program that prints recorded output of nccl-tests, because nccl-tests itself needs GPUs."""


@pytest.fixture(scope="module")
def job(image: Image, root_folder: Path) -> Iterator[Job]:
    pods = Job(root_folder)
    yield pods
    pods.stop()


def write_hostfile(job: Job, image: Image) -> None:
    lines = "\\n".join(FORM[image].format(worker) for worker in WORKERS)
    assert job.launcher.run("sh", "-c", f"printf '{lines}\\n' > {HOSTFILE}").returncode == 0


def test_ranks_on_both_workers_compute_a_sum(job: Job, image: Image) -> None:
    write_hostfile(job, image)
    result = job.launcher.run("mpirun", "-n", "4", "python3", "-c", REPORT, **ENVIRONMENT[image])
    ranks = [line.split() for line in result.stdout.splitlines() if line.startswith("rank")]
    assert sorted(int(rank[1]) for rank in ranks) == [0, 1, 2, 3], result.stdout + result.stderr
    assert [host for _, _, _, host, _ in ranks].count(WORKERS[0]) == 2, "each worker has two ranks, the launcher none"
    assert {host for _, _, _, host, _ in ranks} == set(WORKERS)
    assert {total for *_, total in ranks} == {"10"}


def test_the_mpi_operator_example_runs_on_both_workers(job: Job, root_folder: Path, image: Image) -> None:
    if image not in PI:
        pytest.skip("the operator does not support Open MPI 5")
    example = find_image(f"docker.io/mpioperator/mpi-pi:{PI[image]}")
    assert example
    layers.apply_layer(list_layer_paths(build.ensure_image(example, print))[-1], root_folder)
    write_hostfile(job, image)
    one_each = {"I_MPI_PERHOST": "1"} if image is INTEL_MPI else {}
    count = "2" if image is INTEL_MPI else "4"
    result = job.launcher.run("mpirun", "-n", count, "/home/mpiuser/pi", **{**ENVIRONMENT[image], **one_each})
    assert f"Workers: {count}" in result.stdout, result.stderr
    assert "pi is approximately 3.14" in result.stdout
    assert all(f"on host {worker}" in result.stdout for worker in WORKERS)


def test_smoke_runs_nccl_tests_under_mpi_and_every_rank_reports_the_nccl_log(job: Job, root_folder: Path, image: Image) -> None:
    write_hostfile(job, image)
    program = root_folder / "usr/local/bin/all_reduce_perf"
    program.write_text(ALL_REDUCE_PERF.format(table=TABLE, log=LOG))
    program.chmod(0o755)
    try:
        result = job.launcher.run("mpirun", "-n", "4", "python3", "-c", read_source("nccl.py"), "2G", **ENVIRONMENT[image])
    finally:
        program.unlink()
    reports = smoke.parse_nccl_reports(result.stdout)
    assert len(reports) == 4, result.stdout + result.stderr
    assert [report["error"] for report in reports] == [""] * 4
    expected = NcclExpected(2, 4, "efa", "p4de.24xlarge", 400.0)
    assert {check.name: check.result for check in nccl_verdict.evaluate_reports(reports, expected)} == dict.fromkeys(
        NAMES, "passed"
    )


@pytest.mark.mission("A", "keys in a Secret")
def test_sshd_rejects_clients_without_the_job_key(job: Job) -> None:
    assert job.launcher.run("ssh", WORKERS[0], "hostname").stdout.strip() == WORKERS[0]
    other = "ssh-keygen -q -t ed25519 -N '' -f /tmp/other"
    result = job.launcher.run("sh", "-c", f"{other} && ssh -o IdentitiesOnly=yes -i /tmp/other {WORKERS[0]} hostname")
    assert "Permission denied (publickey)" in result.stderr


def test_ssh_rejects_hosts_without_the_job_key(job: Job) -> None:
    stranger = job.pods[WORKERS[1]]
    changes = "s|^HostKey .*|HostKey /tmp/host|; s|^Port .*|Port 2223|; s|^PidFile .*|PidFile /tmp/pid|"
    settings = f"sed '{changes}' ~/.sshd_config > /tmp/sshd_config"
    assert stranger.run("sh", "-c", f"ssh-keygen -q -t ed25519 -N '' -f /tmp/host && {settings}").returncode == 0
    server = stranger.start("/usr/sbin/sshd", "-De", "-f", "/tmp/sshd_config")
    result = job.launcher.run("ssh", "-p", "2223", WORKERS[1], "hostname")
    stranger.run("sh", "-c", "kill $(cat /tmp/pid)")
    server.wait()
    assert "Host key verification failed" in result.stderr


def test_the_launcher_entrypoint_waits_for_dns_names_and_then_starts_its_command(job: Job, image: Image) -> None:
    write_hostfile(job, image)
    launcher = {"K_MPI_JOB_ROLE": "launcher", "JOB_HOSTFILE": HOSTFILE}
    entrypoint = ("tini", "-s", "-g", "--", "job-entrypoint")
    assert job.launcher.run(*entrypoint, "echo", "started", **launcher).stdout == "started\n"
    job.launcher.run("sh", "-c", f"echo late.job:2 >> {HOSTFILE}")
    waiting = job.launcher.start("env", *(f"{name}={value}" for name, value in launcher.items()), *entrypoint, "echo", "started")
    assert waiting.poll() is None
    job.launcher.run_as_root("sh", "-c", "echo 10.9.0.9 late.job >> /etc/hosts")
    assert waiting.communicate(timeout=240)[0] == "started\n"


def test_an_image_reports_its_mpi_version(root_folder: Path, image: Image) -> None:
    said = dict(line.split("=") for line in (root_folder / "etc/gpumpi/mpi").read_text().splitlines())
    layout = build.ensure_named_image(image.name, print)
    manifest = json.loads(get_blob_path(layout, read_manifest_digest(layout)).read_text())
    variables = json.loads(get_blob_path(layout, manifest["config"]["digest"]).read_text())["config"]["Env"]
    assert f"GPUMPI_MPI_IMPLEMENTATION={said['MPI_IMPLEMENTATION']}" in variables
    assert f"GPUMPI_MPI_VERSION={said['MPI_VERSION']}" in variables
    assert said["MPI_VERSION"] in recipes.read_pinned_versions().values()
    assert sum(layer["size"] for layer in manifest["layers"]) < 350 * 2**20


def test_images_contain_no_secrets_and_no_files_of_the_build_machine(image: Image) -> None:
    members, resolver = set(), set()
    for layer in list_layer_paths(build.ensure_image(image, print)):
        with tarfile.open(layer) as archive:
            members |= set(archive.getnames())
            resolver |= {member.size for member in archive if member.name == "etc/resolv.conf"}
    assert "etc/ssh/sshd_config" in members
    assert [
        name
        for name in members
        if re.match(r"etc/ssh/ssh_host_|etc/hostname$|(home/mpiuser|root)/\.ssh/|(tmp|dev|var/tmp)/", name)
    ] == []
    assert resolver <= {0}, "this machine's name servers"


def test_python_bytecode_in_the_image_is_up_to_date(job: Job) -> None:
    said = job.launcher.run("python3", "-v", "-c", "import numpy").stderr
    assert "numpy/__pycache__/__init__.cpython" in said
    assert re.findall(r"code object from '?(/usr/\S+\.py)'?$", said, re.MULTILINE) == [], "compiled at every start"


def test_only_programs_of_the_distribution_are_setuid(root_folder: Path) -> None:
    setuid = {
        path.name
        for path in root_folder.rglob("*")
        if path.is_file() and not path.is_symlink() and path.stat().st_mode & stat.S_ISUID
    }
    assert setuid <= {"chfn", "chsh", "gpasswd", "mount", "newgrp", "passwd", "ssh-keysign", "su", "umount"}
