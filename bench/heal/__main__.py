"""`python -m bench.heal`: measure the time from a fault under a running job to the job's next step.

Each run submits a job, and breaks a node or hangs a rank. After the job has ended, it reboots the node or removes the
fault. All times count from the fault, except the node's return to service, which counts from the reboot. The GPUs and
their faults are simulated, and a new instance starts faster than on AWS.
"""

import argparse
import json
import statistics
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from bench.heal import runs
from bench.heal.faults import FAULTS, STAGES
from bench.platform_cluster import describe_machine, print_progress, run_cluster
from bench.timed_job import Bench

REPEATS: Final = 5
Found = dict[str, list[dict[str, float]]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--fault", choices=FAULTS, action="append", help="default: all")
    parser.add_argument("--results", type=Path, help="file for the results; runs that it already contains are not repeated")
    parser.add_argument(
        "--cloud", type=Path, help="local cloud in which the stack is already running; the benchmark leaves it running"
    )
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    about = describe_machine()
    with run_cluster("heal", arguments.cloud, "gpu=4") as shell:
        bench = Bench.from_shell(shell)
        runs_by_fault = _measure_runs(bench, arguments.fault or list(FAULTS), arguments.repeats, arguments.results)
        cordoned = runs.count_cordons_after_app_errors(bench)
        taken_out = runs.measure_cordon_limit(bench)
    if arguments.json:
        beside = {"cordons after harmless events": cordoned, "cordoned of two broken nodes": taken_out}
        print(json.dumps({**about, "runs": runs_by_fault, **beside}, indent=1))
        return
    _print_tables(runs_by_fault)
    print(f"nodes cordoned after {runs.HARMLESS} application errors: {cordoned}")
    print(f"nodes cordoned when both nodes of the pool break: {sum(taken_out)}")


def _measure_runs(bench: Bench, faults: list[str], repeats: int, results: Path | None) -> Found:
    runs_by_fault: Found = json.loads(results.read_text()) if results and results.exists() else {}
    for name in faults:
        while len(runs_by_fault.setdefault(name, [])) < repeats:
            runs_by_fault[name].append(runs.measure_run(bench, FAULTS[name]))
            print_progress(f"{name}, {len(runs_by_fault[name])} of {repeats}: {runs_by_fault[name][-1]}")
            if results:
                results.write_text(json.dumps(runs_by_fault, indent=1) + "\n")
    return runs_by_fault


def _print_tables(runs_by_fault: Found) -> None:
    for name, each in runs_by_fault.items():
        fault = FAULTS[name]
        table = Table("until", "seconds, median", "lowest to highest", "goal", title=f"{fault.title}, {len(each)} runs")
        for stage in STAGES:
            values = [run[stage] for run in each if stage in run]
            if values:
                spread = f"{min(values):.1f} to {max(values):.1f}"
                table.add_row(stage, f"{statistics.median(values):.1f}", spread, str(fault.goals.get(stage, "")))
        Console().print(table)


if __name__ == "__main__":
    main()
