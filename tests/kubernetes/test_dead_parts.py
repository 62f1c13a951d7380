"""Commands that need a crashed process of the local cloud report the crash. `local start` restarts the process without
recreating the cluster."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from localcloud import mending
from localcloud.kubernetes.control_plane import ETCD, SCHEDULER
from localcloud.kubernetes.state import ClusterState
from localcloud.stack import LocalStack
from testkit.job_cluster import SOURCE, STACK, JobCluster, write_job_file
from testkit.waiting import wait_until

pytestmark = [pytest.mark.xdist_group("jobs"), pytest.mark.usefixtures("job_cleanup")]


@pytest.fixture
def repaired_cluster(job_cluster: JobCluster) -> Iterator[JobCluster]:
    """The shared cluster. After each test, even a failed one, all killed processes are restarted."""
    yield job_cluster
    mending.restart_crashed_processes(job_cluster.cloud)


def get_cluster_state(cluster: JobCluster) -> ClusterState:
    return next(state for state in cluster.cloud.clusters() if state.name == f"gpumpi-{STACK}")


def kill_processes(cluster: JobCluster, *names: str) -> None:
    """Kill the processes and wait until the local cloud has noticed their crashes."""
    for server in get_cluster_state(cluster).processes:
        process = server.find_process() if server.name in names else None
        # the daemons of nodes are children of nsenter or unshare
        for victim in [process, *process.children()] if process else []:
            os.kill(victim.pid, signal.SIGKILL)
    wait_until(lambda: {crash.name for crash in get_cluster_state(cluster).crashes}, lambda dead: dead >= set(names))


@pytest.mark.mission_only
def test_commands_report_crashed_daemons_and_start_restarts_them(repaired_cluster: JobCluster, tmp_path: Path) -> None:
    machine, other = sorted(
        process.name for process in get_cluster_state(repaired_cluster).processes if process.name.startswith("machine-")
    )[:2]
    victims = (ETCD, SCHEDULER, machine, other.replace("machine", "containerd"))
    kill_processes(repaired_cluster, *victims)
    home, job = ("--home", str(repaired_cluster.cloud.folder)), write_job_file(tmp_path, "after", command=["true"])
    stack = ("-s", STACK, "--config-dir", str(SOURCE))
    fix = f". Restart with: scripts/cluster local start --home {repaired_cluster.cloud.folder}\n"
    refused = repaired_cluster.cluster("submit", job)
    assert refused.code == 5 and f": not running: {ETCD} of cluster gpumpi-{STACK}, {SCHEDULER} of cluster" in refused.err
    assert refused.err.endswith(fix)
    assert repaired_cluster.cluster("local", "env", *home).err.endswith(fix)
    up = LocalStack(repaired_cluster.cloud, STACK, SOURCE).run("up")
    assert not up.ok and any(error.startswith("not running: ") and error.endswith(fix.strip()) for error in up.errors), up.output
    partial = repaired_cluster.cluster("status", *stack, "--json")
    assert (partial.code, partial.json["state"]) == (5, "ACTIVE"), partial.err
    (unknown,) = [reason for reason in partial.json["unknown"] if ETCD in reason]
    assert f": not running: {ETCD} of cluster gpumpi-{STACK}, {SCHEDULER} of cluster gpumpi-{STACK}. " in unknown
    assert unknown.endswith(f"Restart with: scripts/cluster local start --home {repaired_cluster.cloud.folder}")

    started = repaired_cluster.cluster("local", "start", *home, "--json")
    assert started.code == 0, started.err
    assert {f"{name} of cluster gpumpi-{STACK}" for name in victims} <= set(started.json["restarted"])
    # Kueue's controller exits if it cannot renew its lease. `submit` fails until Kubernetes has restarted the controller.
    submitted = wait_until(lambda: repaired_cluster.cluster("submit", job), lambda done: done.code != 5)
    assert submitted.code == 0, submitted.err
    assert repaired_cluster.await_phase("after", "Succeeded", "Failed") == "Succeeded"
