"""`python -m bench.mpi_start`: time from submitting a job until its ranks run, by number of workers and launcher."""

import argparse
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench import plot
from bench.platform_cluster import describe_machine, print_progress, run_cluster
from bench.timed_job import LIMIT_SECONDS, PROGRAM, Bench, JobFailed

WORKERS = (2, 4, 8, 16, 32, 64)
LAUNCHERS = ("mpijob", "standalone")
REPEATS = 3
IMAGE = "openmpi:5"
STACK, POOL = "start", "train"
RESOURCES = {"cpu": "1", "memory": "256Mi", "sharedMemoryMib": 64}
"""Resource requests of a worker that shares its node with many others."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--workers", type=_parse_numbers, default=WORKERS, help="numbers of workers to measure, for example 2,4,8"
    )
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--image", default=IMAGE)
    parser.add_argument(
        "--cloud", type=Path, help="local cloud in which the stack is already running; the benchmark leaves it running"
    )
    parser.add_argument("--plot", type=Path, help="write a plot to this SVG file")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    about = describe_machine()
    with run_cluster(STACK, arguments.cloud) as shell:
        bench = Bench.from_shell(shell)
        for launcher in LAUNCHERS:
            print_progress(f"{launcher}: warm-up job")
            measure_job(bench, launcher, 2, arguments.image)
        rows = [
            measure_median_run(bench, launcher, workers, arguments.repeats, arguments.image)
            for workers in arguments.workers
            for launcher in LAUNCHERS
        ]
    if arguments.plot:
        arguments.plot.write_text(draw_plot(rows, about))
    if arguments.json:
        print(json.dumps({**about, "image": arguments.image, "rows": rows}, indent=1))
        return
    _print_table(rows)


def _parse_numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(","))


def measure_median_run(bench: Bench, launcher: str, workers: int, repeats: int, image: str) -> dict[str, Any]:
    """Run the job `repeats` times. Return the successful run with the median time until all ranks run."""
    runs: list[dict[str, Any]] = []
    for number in range(1, repeats + 1):
        try:
            runs.append(measure_job(bench, launcher, workers, image))
        except JobFailed as error:
            print_progress(f"{launcher}, {workers} workers, {number} of {repeats}: {error}")
        else:
            print_progress(f"{launcher}, {workers} workers, {number} of {repeats}: {runs[-1]}")
    failed = repeats - len(runs)
    if not runs:
        return {"launcher": launcher, "workers": workers, "failed": failed}
    runs.sort(key=lambda run: run["all ranks"])
    every = [run["all ranks"] for run in runs]
    middle = runs[(len(runs) - 1) // 2]
    return {"launcher": launcher, "workers": workers, **middle, "lowest": min(every), "highest": max(every), "failed": failed}


def measure_job(bench: Bench, launcher: str, workers: int, image: str) -> dict[str, Any]:
    """Run one job and return the seconds from its submission to each stage."""
    name = f"start-{launcher}-{workers}"
    job = {
        "name": name,
        "launcher": launcher,
        "pool": POOL,
        "workers": workers,
        "slots": 1,
        "image": image,
        "command": ["python3", "-c", PROGRAM],
        "resources": RESOURCES,
        "maxRestarts": 0,
    }
    load = os.getloadavg()[0]
    with bench.watch_job(name, workers, launcher) as timeline:
        begun = bench.submit(job, bench.describe_without_gpus(POOL))
        try:
            if not timeline.wait(lambda timeline: "over" in timeline.times, LIMIT_SECONDS):
                raise SystemExit(f"{name} did not end within {LIMIT_SECONDS:.0f} s; stages reached: {timeline.since(begun)}")
            ranks = bench.read_printed_json(name, "ranks")
        finally:
            bench.remove(name)
    if len(ranks) != workers:
        raise SystemExit(f"{name} has {len(ranks)} ranks, expected {workers}")
    return {
        **timeline.since(begun),
        "first rank": round(min(began for began, _, _ in ranks) - begun, 2),
        "all ranks": round(max(met for _, met, _ in ranks) - begun, 2),
        "nodes": len({node for _, _, node in ranks}),
        "load": round(load, 1),
    }


def draw_plot(rows: Sequence[dict[str, Any]], about: dict[str, Any]) -> str:
    lines = [
        plot.Line(
            f"{launcher}, {kind}",
            tuple((row["workers"], row[kind]) for row in rows if row["launcher"] == launcher and kind in row),
            color,
            dashed=kind == "first rank",
        )
        for launcher, color in zip(LAUNCHERS, ("#1f6feb", "#d1580c"), strict=True)
        for kind in ("all ranks", "first rank")
    ]
    return plot.render_line_chart(
        lines, title="From submission to running ranks", x="workers", y="seconds", note=f"{about['machine']}, {about['date']}"
    )


def _print_table(rows: Sequence[dict[str, Any]]) -> None:
    columns = ("admitted", "pods made", "pods bound", "workers ready", "launcher runs", "first rank", "all ranks", "over")
    table = Table("launcher", "workers", *columns, "all ranks, lowest to highest", "failed", "load")
    for row in rows:
        spread = f"{row['lowest']:.1f} to {row['highest']:.1f}" if "lowest" in row else ""
        seconds = (f"{row[column]:.1f}" if column in row else "" for column in columns)
        table.add_row(row["launcher"], str(row["workers"]), *seconds, spread, str(row["failed"]), str(row.get("load", "")))
    Console().print(table)


if __name__ == "__main__":
    main()
