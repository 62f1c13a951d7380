"""`python -m bench.start`: measure commands on an idle local cloud: imports, help, validation, plan, capacity."""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from localcloud.instance import LocalCloud
from localcloud.processes import ROOT
from localcloud.stack import LocalStack

REPEATS = 5
COMMANDS = {
    "import infra.program": ([sys.executable, "-c", "import infra.program"], 2.0),
    "scripts/cluster --help": ([sys.executable, "scripts/cluster", "--help"], 0.5),
    "scripts/cluster validate -s local": ([sys.executable, "scripts/cluster", "validate", "-s", "local"], 1.5),
    "scripts/cluster validate -s local --offline": (
        [sys.executable, "scripts/cluster", "validate", "-s", "local", "--offline"],
        1.5,
    ),
    "scripts/cluster plan -s local --no-preview": (
        [sys.executable, "scripts/cluster", "plan", "-s", "local", "--no-preview"],
        3.0,
    ),
    "scripts/cluster plan -s local": ([sys.executable, "scripts/cluster", "plan", "-s", "local"], 10.0),
    "scripts/cluster capacity find p5.48xlarge --nodes 16 --days 7 --spot": (
        [sys.executable, "scripts/cluster", "capacity", "find", "p5.48xlarge", "--nodes", "16", "--days", "7", "--spot"],
        10.0,
    ),
}
"""Maps the name of a command to its command line, and to the target duration in seconds."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        cloud = LocalCloud(Path(folder) / "cloud")
        try:
            cloud.start(lambda line: print(line, file=sys.stderr))
            LocalStack(cloud, "local").prepare()
            environment = cloud.process_environment()
            _use_empty_cache(environment, Path(folder))
            for name, (command, goal) in COMMANDS.items():
                times, cpu = zip(*(_measure_command(command, environment) for _ in range(REPEATS)), strict=True)
                first, median, busy = (
                    round(number, 2) for number in (times[0], statistics.median(times), statistics.median(cpu))
                )
                rows.append({"command": name, "first": first, "median": median, "cpu": busy, "goal": goal})
        finally:
            cloud.stop()
    if arguments.json:
        print(json.dumps(rows, indent=1))
        return
    table = Table("command", "seconds, first", f"median of {REPEATS}", "of them CPU time", "goal")
    for row in rows:
        table.add_row(*(str(row[name]) for name in ("command", "first", "median", "cpu", "goal")))
    Console().print(table)


def _use_empty_cache(environment: dict[str, str], folder: Path) -> None:
    """Make commands use an empty cache folder, except for the tools that the local cloud has built."""
    user = Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gpumpi"
    own = folder / "cache" / "gpumpi"
    own.mkdir(parents=True)
    (own / "tools").symlink_to(user / "tools")
    environment["XDG_CACHE_HOME"] = str(folder / "cache")


def _measure_command(command: list[str], environment: dict[str, str]) -> tuple[float, float]:
    """Return the duration of the command, and the CPU time of the command and its children. The CPU time of the local
    cloud's servers is not included.
    """
    started, before = time.perf_counter(), os.times()
    subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True)
    after = os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return time.perf_counter() - started, cpu


if __name__ == "__main__":
    main()
