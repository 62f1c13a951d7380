"""`python -m bench.jobs`: duration of an MPI job from submission to success, and of its recovery from a killed worker."""

import argparse
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import yaml
from rich.console import Console
from rich.table import Table

from bench.platform_cluster import describe_machine, print_progress, run_cluster
from bench.timed_job import LIMIT_SECONDS, PROGRAM, Bench
from bench.timeline import Timeline
from bench.usage import read_cgroups
from infra.naming import JOB_LABEL, ROLE_LABEL

STACK, POOL, IMAGE = "start", "train", "openmpi:5"
WORKERS = 2
REPEATS = 5
SUCCEEDED_SECONDS, NOTICED_SECONDS, RECOVERED_SECONDS = 15.0, 5.0, 60.0
"""Target durations."""
STEPS, KILLED_AFTER = 20, 5
STEPWISE = f"""
import pathlib, time
from mpi4py import MPI
world, file = MPI.COMM_WORLD, pathlib.Path("/shared", "RUN")
done = world.bcast(int(file.read_text()) if file.exists() else 0)
for step in range(done + 1, {STEPS + 1}):
    time.sleep(1)
    world.Barrier()
    if world.rank == 0:
        file.write_text(str(step))
        print("step", step, flush=True)
world.Barrier()
if world.rank == 0:
    file.unlink()
"""
"""Program that runs one step per second and saves its progress on the shared volume."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument(
        "--cloud", type=Path, help="local cloud in which the stack is already running; the benchmark leaves it running"
    )
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    about = describe_machine()
    with run_cluster(STACK, arguments.cloud) as shell:
        bench = Bench.from_shell(shell)
        print_progress("warm-up job")
        measure_submission(bench)
        runs = []
        for number in range(1, arguments.repeats + 1):
            runs.append(measure_submission(bench))
            print_progress(f"submit --follow, {number} of {arguments.repeats}: {runs[-1]['command returns']} s")
        killed = []
        for number in range(1, arguments.repeats + 1):
            killed.append(measure_worker_kill(bench))
            print_progress(f"worker killed, {number} of {arguments.repeats}: noticed in {killed[-1]['noticed']} s")
    result = {"submit": _summarize_runs(runs), "worker killed": _summarize_runs(killed)}
    if arguments.json:
        print(json.dumps({**about, **result}, indent=1))
        return
    _print_tables(result, arguments.repeats)


def measure_submission(bench: Bench) -> dict[str, float]:
    """Return the seconds from the start of `scripts/cluster submit --follow` to each stage."""
    name = "bench-submitted"
    file = bench.shell.kubeconfig.parent / "job.yaml"
    file.write_text(yaml.safe_dump(_build_job(name, PROGRAM)))
    with bench.watch_job(name, WORKERS, "mpijob") as timeline:
        begun = time.time()
        try:
            done = bench.shell.cluster("submit", str(file), "--follow")
            returned = time.time()
            if done.code:
                sys.exit(f"the job failed:\n{done.out}{done.err}")
            timeline.wait(lambda timeline: "over" in timeline.times, LIMIT_SECONDS)
            ranks = json.loads(next(line for line in done.out.splitlines() if line.startswith("ranks ")).split(" ", 1)[1])
        finally:
            bench.remove(name)
    stages = {
        **timeline.since(begun),
        "first rank": min(began for began, _, _ in ranks) - begun,
        "all ranks": max(met for _, met, _ in ranks) - begun,
        "command returns": returned - begun,
    }
    return {stage: round(seconds, 2) for stage, seconds in sorted(stages.items(), key=lambda item: item[1])}


def measure_worker_kill(bench: Bench) -> dict[str, float]:
    """Kill a worker, and return the seconds until the launcher exits and until the job succeeds."""
    name = "bench-killed"
    with bench.watch_job(name, WORKERS, "mpijob") as timeline:
        # use a new file name for each run, because an aborted run may have left its file behind
        bench.submit(_build_job(name, STEPWISE.replace("RUN", f"bench-{time.time_ns()}")), bench.described)
        try:
            if not timeline.wait(lambda timeline: {"launcher runs", "workers ready"} <= timeline.times.keys(), LIMIT_SECONDS):
                sys.exit("the job did not start")
            victim = _find_worker_process(bench, name)
            _wait_for_step(bench, name, timeline)
            killed = time.time()
            victim.kill()
            if not timeline.wait(lambda timeline: "over" in timeline.times, LIMIT_SECONDS):
                sys.exit("the job did not end")
        finally:
            bench.remove(name)
    if len(timeline.ended_launchers) < 2:
        sys.exit("the job did not notice that its worker was killed")
    return {"noticed": round(timeline.ended_launchers[0] - killed, 2), "succeeded": round(timeline.times["over"] - killed, 2)}


def _wait_for_step(bench: Bench, name: str, timeline: Timeline) -> None:
    """Wait until the log shows step KILLED_AFTER. Retry, because a followed log can end early if the container has just
    started.
    """
    (launcher,) = bench.client.list("Pod", bench.namespace, {JOB_LABEL: name, ROLE_LABEL: "launcher"})
    while "launcher ended" not in timeline.times:
        for line in bench.client.log(launcher["metadata"]["name"], bench.namespace, follow=True):
            if line.endswith(f" step {KILLED_AFTER}"):
                return
        time.sleep(0.2)
    sys.exit("the job ended before its worker could be killed")


def _find_worker_process(bench: Bench, name: str) -> psutil.Process:
    """Return process 1 of a worker's container. If this process is killed, the container ends, as after an
    out-of-memory kill.
    """
    pods = bench.client.list("Pod", bench.namespace, {JOB_LABEL: name, ROLE_LABEL: "worker"})
    uid = max(pods, key=lambda pod: str(pod["metadata"]["name"]))["metadata"]["uid"]
    sshds = [
        process
        for process in psutil.process_iter(["name"])
        if process.info["name"] == "sshd" and f"pod{uid}" in read_cgroups(process.pid)
    ]
    return min(sshds, key=lambda process: process.create_time())


def _build_job(name: str, program: str) -> dict[str, object]:
    command = ["python3", "-u", "-c", program]
    return {"name": name, "pool": POOL, "workers": WORKERS, "gpusPerWorker": 1, "slots": 2, "image": IMAGE, "command": command}


def _summarize_runs(runs: list[dict[str, float]]) -> dict[str, dict[str, float]]:
    return {
        stage: {
            "median": round(statistics.median(run[stage] for run in runs), 2),
            "lowest": min(run[stage] for run in runs),
            "highest": max(run[stage] for run in runs),
        }
        for stage in runs[0]
    }


def _print_tables(result: dict[str, Any], repeats: int) -> None:
    goals = {"over": SUCCEEDED_SECONDS, "noticed": NOTICED_SECONDS, "succeeded": RECOVERED_SECONDS}
    for title, stages in result.items():
        table = Table("until", f"seconds, median of {repeats}", "lowest to highest", "goal", title=title)
        for stage, seconds in stages.items():
            spread = f"{seconds['lowest']:.1f} to {seconds['highest']:.1f}"
            table.add_row(stage, f"{seconds['median']:.1f}", spread, str(goals.get(stage, "")))
        Console().print(table)


if __name__ == "__main__":
    main()
