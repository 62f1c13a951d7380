"""`python -m bench.hosts`: measure how long local EC2 clusters take to run the first mpiexec, and to join N nodes.

All hosts share this machine's cores, so the results for many nodes depend on the machine as much as on the program.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.platform_cluster import describe_machine
from cli.ec2 import hostfile_check, wait
from cli.ec2.ec2_instances import DeployedEc2Cluster
from localcloud.hosts.capability import VARIABLE, check_machine
from localcloud.instance import LocalCloud
from localcloud.processes import ROOT
from localcloud.stack import LocalStack

STACK = "local-ec2"
NODES = (2, 4, 8, 16)
"""Cluster sizes to measure, including the head node."""
LIMIT_SECONDS = 1800.0
EVERY_SECONDS = 0.5


@dataclass(frozen=True)
class Start:
    """Durations in seconds since `up` began."""

    created: float
    joined: float
    mpiexec: float
    """Time until the first mpiexec, with one rank per slot, ended."""
    nodes: int
    load: float
    """One-minute load average of the machine before the measurement."""


@dataclass(frozen=True)
class Joined:
    nodes: int
    seconds: float
    """Time from setting the group size until the head node's hostfile lists all nodes."""
    seconds_a_node: float
    mpiexec: float
    """Duration of mpiexec with one rank per node."""
    load: float


class Bench:
    def __init__(self, cloud: LocalCloud, key: Path) -> None:
        self._key = key
        self._stack = LocalStack(cloud, STACK)
        self._environment = cloud.process_environment()
        self._stack.prepare()
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
        self._stack.set_config("gpumpi:target.ssh.publicKeys[0]", key.with_suffix(".pub").read_text().strip())
        self._stack.set_config("gpumpi:pools[0].maxSize", str(max(NODES) - 1))
        os.environ.update(self._environment)  # the code of the verbs reads the AWS settings from the environment
        self._cluster = DeployedEc2Cluster(STACK, self._stack.project)

    def start(self) -> Start:
        load, seconds = _read_load_average(), _start_clock()
        run = self._stack.run("up")
        if not run.ok:
            sys.exit(run.output)
        created = seconds()
        nodes = self._wait_for_nodes()
        joined = seconds()
        self._run_mpiexec("-n", str(2 * nodes), "-N", "2")
        return Start(created, joined, seconds(), nodes, load)

    def join(self, nodes: int) -> Joined:
        """Scale the workers from zero to this number of nodes in one step, and return the durations."""
        self._cluster.scale(0)
        self._wait_for_nodes()
        load, seconds = _read_load_average(), _start_clock()
        self._cluster.scale(nodes - 1)
        self._wait_for_nodes()
        joined = seconds()
        self._run_mpiexec("-n", str(nodes), "-N", "1")
        return Joined(nodes, joined, round(joined / nodes, 2), round(seconds() - joined, 1), load)

    def destroy(self) -> None:
        self._stack.run("destroy")

    def _wait_for_nodes(self) -> int:
        """Wait until all nodes have joined and return their number."""
        look = partial(hostfile_check.compare_hostfile, identity=self._key)
        nodes = wait.wait_until_ready(self._cluster, LIMIT_SECONDS, wait.say, look, pause=lambda _: time.sleep(EVERY_SECONDS))
        return nodes.workers_in_service + 1

    def _run_mpiexec(self, *options: str) -> None:
        words = ["run", "-s", STACK, "--config-dir", str(self._stack.project), "-i", str(self._key), "--", "mpiexec", *options]
        program = "from mpi4py import MPI; assert MPI.COMM_WORLD.allreduce(1) == MPI.COMM_WORLD.size"
        command = [sys.executable, str(ROOT / "scripts" / "cluster"), *words, "python3", "-c", program]
        subprocess.run(command, env=self._environment, check=True, stdin=subprocess.DEVNULL, stdout=sys.stderr)


def _start_clock() -> Callable[[], float]:
    """Start a clock and return a function that returns the seconds elapsed since then."""
    started = time.monotonic()
    return lambda: round(time.monotonic() - started, 1)


def _read_load_average() -> float:
    return round(os.getloadavg()[0], 1)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.hosts", description=__doc__)
    parser.add_argument("--nodes", type=int, nargs="+", default=NODES, help="cluster sizes to measure, including the head node")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    able = check_machine()
    if not able.hosts:
        sys.exit(str(able))
    os.environ[VARIABLE] = str(max(NODES) + 1)
    about = describe_machine()
    with tempfile.TemporaryDirectory() as folder:
        cloud = LocalCloud(Path(folder) / "cloud")
        try:
            cloud.start(lambda line: print(line, file=sys.stderr), hosts=True)
            bench = Bench(cloud, Path(folder) / "key")
            start = bench.start()
            joins = [bench.join(nodes) for nodes in arguments.nodes]
            bench.destroy()
        finally:
            cloud.stop()
    if arguments.json:
        print(json.dumps({**about, "start": asdict(start), "joins": [asdict(join) for join in joins]}, indent=1))
        return
    _print_tables(start, joins)


def _print_tables(start: Start, joins: list[Joined]) -> None:
    first = Table("nodes", "created, s", "joined, s", "first mpiexec ended, s", "load before", title="From `up`")
    first.add_row(*map(str, (start.nodes, start.created, start.joined, start.mpiexec, start.load)))
    growth = Table(
        "nodes", "joined, s", "s per node", "mpiexec, s", "load before", title="From `scale`, starting with no workers"
    )
    for join in joins:
        growth.add_row(*map(str, (join.nodes, join.seconds, join.seconds_a_node, join.mpiexec, join.load)))
    for table in (first, growth):
        Console().print(table)


if __name__ == "__main__":
    main()
