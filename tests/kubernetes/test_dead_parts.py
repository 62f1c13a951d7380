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
from testkit.job_cluster import SOURCE, STACK, JobCluster, job_file
from testkit.waiting import wait_until

pytestmark = [pytest.mark.xdist_group("jobs"), pytest.mark.usefixtures("no_jobs_left")]


@pytest.fixture
def mended(job_cluster: JobCluster) -> Iterator[JobCluster]:
    """The shared cluster. After the test, even a failed one, all killed processes are restarted."""
    yield job_cluster
    mending.restart(job_cluster.cloud)


def state(cluster: JobCluster) -> ClusterState:
    return next(one for one in cluster.cloud.clusters() if one.name == f"gpumpi-{STACK}")


def kill(cluster: JobCluster, *names: str) -> None:
    """Kill the processes and wait until the local cloud has noticed their crashes."""
    for server in state(cluster).processes:
        process = server.process() if server.name in names else None
        for one in [process, *process.children()] if process else []:  # the daemons of nodes are children of nsenter or unshare
            os.kill(one.pid, signal.SIGKILL)
    wait_until(lambda: {crash.name for crash in state(cluster).crashes}, lambda dead: dead >= set(names))


@pytest.mark.mission_only
def test_dead_parts_are_named_by_the_verbs_that_need_them_and_restarted_by_start(mended: JobCluster, tmp_path: Path) -> None:
    one, other = sorted(process.name for process in state(mended).processes if process.name.startswith("machine-"))[:2]
    victims = (ETCD, SCHEDULER, one, other.replace("machine", "containerd"))
    kill(mended, *victims)
    home, job = ("--home", str(mended.cloud.folder)), job_file(tmp_path, "after", command=["true"])
    stack = ("-s", STACK, "--config-dir", str(SOURCE))
    fix = f". Restart with: scripts/cluster local start --home {mended.cloud.folder}\n"
    refused = mended.cluster("submit", job)
    assert refused.code == 5 and f": not running: {ETCD} of cluster gpumpi-{STACK}, {SCHEDULER} of cluster" in refused.err
    assert refused.err.endswith(fix)
    assert mended.cluster("local", "env", *home).err.endswith(fix)
    up = LocalStack(mended.cloud, STACK, SOURCE).run("up")
    assert not up.ok and any(error.startswith("not running: ") and error.endswith(fix.strip()) for error in up.errors), up.output
    partial = mended.cluster("status", *stack, "--json")
    assert (partial.code, partial.json["state"]) == (5, "ACTIVE"), partial.err
    (unknown,) = [one for one in partial.json["unknown"] if ETCD in one]
    assert f": not running: {ETCD} of cluster gpumpi-{STACK}, {SCHEDULER} of cluster gpumpi-{STACK}. " in unknown
    assert unknown.endswith(f"Restart with: scripts/cluster local start --home {mended.cloud.folder}")

    started = mended.cluster("local", "start", *home, "--json")
    assert started.code == 0, started.err
    assert {f"{name} of cluster gpumpi-{STACK}" for name in victims} <= set(started.json["restarted"])
    # Kueue's controller exits if it cannot renew its lease. `submit` fails until Kubernetes has restarted the controller.
    submitted = wait_until(lambda: mended.cluster("submit", job), lambda done: done.code != 5)
    assert submitted.code == 0, submitted.err
    assert mended.await_phase("after", "Succeeded", "Failed") == "Succeeded"
