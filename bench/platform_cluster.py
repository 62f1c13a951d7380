"""Local cluster with the complete platform for benchmarks, and a description of the machine."""

import os
import platform
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil

from localcloud.instance import LocalCloud
from localcloud.kubernetes.nodes import limits
from localcloud.processes import ROOT
from localcloud.stack import LocalStack
from testkit.job_cluster import JobCluster

STACKS = ROOT / "bench" / "stacks"


def print_progress(line: str) -> None:
    """Print progress to stderr, because stdout is reserved for the result."""
    print(line, file=sys.stderr, flush=True)


@contextmanager
def run_cluster(stack: str, cloud_folder: Path | None = None, nodes: str = "") -> Iterator[JobCluster]:
    """Create a stack from bench/stacks in a temporary local cloud, or use the existing one in `cloud_folder`.

    `nodes` overrides the default limits on the number of real nodes.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))  # raise SystemExit, so that the cleanup below runs
    with TemporaryDirectory() as text:
        folder = Path(text)
        cloud = LocalCloud(cloud_folder or folder / "cloud")
        try:
            if cloud_folder is None:
                _create_stack(cloud, stack, nodes)
            cluster = JobCluster(cloud, folder / "kubeconfig.yaml")
            done = cluster.cluster("kubeconfig", "-s", stack, "--config-dir", str(STACKS), "-o", str(cluster.kubeconfig))
            if done.code:
                sys.exit(f"cannot write a kubeconfig:\n{done.err}")
            os.environ.update(cluster.environment)  # `aws eks get-token` reads the credentials from the environment
            yield cluster
        finally:
            if cloud_folder is None:
                print_progress("removing everything")
                cloud.stop()


def _create_stack(cloud: LocalCloud, stack: str, nodes: str) -> None:
    if nodes:
        os.environ[limits.VARIABLE] = nodes
    cloud.start(print_progress, kubernetes=True)
    local_stack = LocalStack(cloud, stack, STACKS)
    local_stack.prepare()
    print_progress(f"bringing up the stack {stack}")
    result = local_stack.run("up")
    if not result.ok:
        sys.exit(f"pulumi up of {stack} failed:\n{result.output[-4000:]}")
    print_progress(f"the stack was created in {result.seconds:.0f} s")


def describe_machine() -> dict[str, str | float]:
    """Return the date, a description of the machine, and its current load."""
    memory = psutil.virtual_memory().total / 2**30
    text = f"{psutil.cpu_count()} cores, {memory:.0f} GiB, Python {platform.python_version()}"
    return {"date": date.today().isoformat(), "machine": text, "load": round(os.getloadavg()[0], 1)}
