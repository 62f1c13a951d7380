"""Jobs of launcher `openmpi` that get their SSH keys by another way than a Secret."""

from pathlib import Path

import pytest

from tests.kubernetes.job_cluster import JobCluster, job_file, python, wait_until

pytestmark = pytest.mark.xdist_group("kubernetes")

WHO = """
import pathlib, socket
from mpi4py import MPI
world = MPI.COMM_WORLD
own = pathlib.Path.home() / ".ssh"
told = world.gather((socket.gethostname(), (own / "id_rsa.pub").read_text(), oct((own / "id_rsa").stat().st_mode)))
if world.rank == 0:
    hosts, publics, modes = (set(column) for column in zip(*told))
    print("ranks on", *sorted(hosts), flush=True)
    print("keys", len(publics), *modes, flush=True)
"""
WAITS = "import signal; print('runs', flush=True); signal.pause()"


def keys_of(cluster: JobCluster, job: str) -> list[str]:
    """What lies on the shared volume of the job's keys."""
    folders = cluster.cloud.folder.glob(f"file-systems/*/**/.gpumpi/ssh/*.{job}*")
    return sorted(file.name for folder in folders for file in folder.iterdir())


@pytest.mark.mission("D", "keys on the volume")
def test_the_first_pod_makes_a_key_pair_on_the_shared_volume_which_goes_with_the_job(
    job_cluster: JobCluster, tmp_path: Path
) -> None:
    name = "keys-on-volume"
    file = job_file(tmp_path, name, launcher="openmpi", keyExchange="volume", slots=2, command=python(WHO))
    objects = job_cluster.cluster("submit", file, "--dry-run", "--json").json
    assert "Secret" not in {one["kind"] for one in objects}
    try:
        done = job_cluster.cluster("submit", file, "--follow")
        assert done.code == 0, done.out + done.err
        assert f"ranks on {name}-worker-0 {name}-worker-1" in done.out
        assert "keys 1 0o100600" in done.out
        wait_until(lambda: keys_of(job_cluster, name), lambda left: not left)
    finally:
        job_cluster.cluster("cancel", name)


@pytest.mark.mission("D", "keys on the volume")
def test_the_keys_of_a_job_that_is_cancelled_while_it_runs_go_too(job_cluster: JobCluster, tmp_path: Path) -> None:
    name = "keys-cancelled"
    file = job_file(tmp_path, name, launcher="openmpi", keyExchange="volume", command=python(WAITS))
    try:
        with job_cluster.running("submit", file, "--follow") as process:
            assert process.stdout is not None
            assert any("runs" in line for line in process.stdout)
            assert keys_of(job_cluster, name) == ["authorized_keys", "id_rsa", "id_rsa.pub"]
            assert job_cluster.cluster("cancel", name).code == 0
    finally:
        job_cluster.cluster("cancel", name)
    wait_until(lambda: keys_of(job_cluster, name), lambda left: not left)
    assert job_cluster.remains(name) == []
