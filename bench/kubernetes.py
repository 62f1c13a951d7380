"""`python -m bench.kubernetes`: time until a local EKS cluster has one system node and two GPU nodes that accept pods."""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

from rich.console import Console
from rich.table import Table

from localcloud.instance import LocalCloud
from testkit.eks_clusters import Account
from testkit.node_groups import create_node_group

COLD_SECONDS, WARM_SECONDS = 40.0, 20.0
"""Target durations: cold (including the start of the local cloud) and warm (in a running local cloud). Both assume that
the programs are already built and cached.
"""
SYSTEM, GPU = ("system", 1, "m7i.large"), ("train", 2, "p4d.24xlarge")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    rows = measure_lifecycles()
    if arguments.json:
        print(json.dumps(rows, indent=1))
        return
    table = Table("local cloud", "start", "control plane", "nodes", "total seconds", "goal", "deletion")
    for row in rows:
        table.add_row(*(str(value) for value in row.values()))
    Console().print(table)


def measure_lifecycles() -> list[dict[str, str | float]]:
    rows: list[dict[str, str | float]] = []
    with tempfile.TemporaryDirectory() as folder:
        cloud = LocalCloud(Path(folder) / "cloud")
        try:
            with time_block() as start:
                cloud.start(lambda line: print(line, file=sys.stderr), kubernetes=True)
            account = Account(cloud)
            rows.append(measure_lifecycle(account, "cold", start[0], COLD_SECONDS))
            rows.append(measure_lifecycle(account, "warm", 0.0, WARM_SECONDS))
        finally:
            cloud.stop()
    return rows


def measure_lifecycle(account: Account, name: str, start: float, goal: float) -> dict[str, str | float]:
    """Create and delete one cluster and its nodes, and return the duration of each stage."""
    with ExitStack() as groups:
        with time_block() as control_plane:
            cluster = account.create(name)
        with time_block() as nodes:
            node_groups = [create_node_group(cluster, f"{kind}-{name}", size, type_) for kind, size, type_ in (SYSTEM, GPU)]
            with ThreadPoolExecutor() as together:
                list(together.map(groups.enter_context, node_groups))
        begun = time.perf_counter()
    cluster.delete()
    total = start + control_plane[0] + nodes[0]
    return {
        "local cloud": name,
        "start": round(start, 1),
        "control plane": round(control_plane[0], 1),
        "nodes": round(nodes[0], 1),
        "total": round(total, 1),
        "goal": goal,
        "end": round(time.perf_counter() - begun, 1),
    }


@contextmanager
def time_block() -> Iterator[list[float]]:
    """Measure the duration of the block in seconds, and append it to the yielded list."""
    taken: list[float] = []
    begun = time.perf_counter()
    yield taken
    taken.append(time.perf_counter() - begun)


if __name__ == "__main__":
    main()
