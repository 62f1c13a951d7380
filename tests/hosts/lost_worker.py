"""A run that loses a worker halfway and finishes on a replacement."""

import json
import shlex

from testkit.waiting import wait_until
from tests.hosts.cluster import HandMade

STEPS = """
import pathlib, socket, time
from mpi4py import MPI
world, saved = MPI.COMM_WORLD, pathlib.Path("/shared/steps")
first = world.bcast(int(saved.read_text()) if saved.exists() else 0)
for step in range(first + 1, first + (4 if first else 10**6)):
    world.allreduce(step)
    if world.rank == 0:
        saved.write_text(str(step))
    time.sleep(0.2)
hosts = sorted(set(world.allgather(socket.gethostname())))
if world.rank == 0:
    print("resumed after step", first, "on", *hosts, flush=True)
"""
"""The first attempt runs until it loses a worker. The second attempt resumes after the last completed step and runs
three more steps."""


def check_lost_worker(cluster: HandMade) -> None:
    """Terminate a worker during a run with `--restarts`. The run must finish on the remaining worker and a new one."""
    lost, remaining = cluster.await_workers()
    gone = cluster.address(lost)
    cluster.ssh(cluster.master, f"rm -f /shared/steps; printf %s {shlex.quote(STEPS)} >/shared/steps.py")
    started = cluster.run_command(
        "run", "--detach", "--restarts", "3", "--", "mpirun", "-n", "4", "-N", "2", "python3", "steps.py"
    )
    assert started.returncode == 0, started.stderr
    id = started.stdout.strip()
    wait_until(lambda: int(cluster.ssh(cluster.master, "cat /shared/steps 2>/dev/null || echo 0").stdout or 0) > 2)
    cluster.ec2.terminate_instances(InstanceIds=[lost])
    ended = cluster.run_command("run", "--attach", id)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    lines = ended.stdout.splitlines()
    assert [line for line in lines if line.startswith("run: restart")], ended.stdout
    assert "run: waiting until all 2 nodes answer" in lines
    (last,) = [line.split() for line in lines if line.startswith("resumed after")]
    new = {f"ip-{cluster.address(worker).replace('.', '-')}" for worker in cluster.await_workers(lost)}
    assert int(last[3]) > 2 and set(last[5:]) == new and f"ip-{cluster.address(remaining).replace('.', '-')}" in new
    assert f"ip-{gone.replace('.', '-')}" not in new
    (row,) = [job for job in json.loads(cluster.run_command("jobs", "--json").stdout) if job["name"] == id]
    assert (row["phase"], row["restarts"] >= 1) == ("Succeeded", True)
