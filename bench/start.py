"""`python -m bench.start`: startup time of commands (imports, help, validation)."""

import argparse
import json
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
}
"""Name -> command line and target duration in seconds."""


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
            for name, (command, goal) in COMMANDS.items():
                times = [_seconds(command, environment) for _ in range(REPEATS)]
                rows.append({"command": name, "median": round(statistics.median(times), 2), "goal": goal})
        finally:
            cloud.stop()
    if arguments.json:
        print(json.dumps(rows, indent=1))
        return
    table = Table("command", f"seconds, median of {REPEATS}", "goal")
    for row in rows:
        table.add_row(str(row["command"]), str(row["median"]), str(row["goal"]))
    Console().print(table)


def _seconds(command: list[str], environment: dict[str, str]) -> float:
    started = time.perf_counter()
    subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True)
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
