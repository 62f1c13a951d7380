"""A rank hangs on a real cluster: the job controller ends all ranks, and the job restarts and finishes."""

import re
import secrets
from pathlib import Path
from typing import Any

import pytest

from infra.platform.job_controller.in_pod.moments import parse_time
from testkit.job_cluster import NAMESPACE, JobCluster, write_job_file
from testkit.waiting import wait_until

pytestmark = [pytest.mark.xdist_group("jobs"), pytest.mark.usefixtures("job_cleanup")]

STEPS = """
import os, pathlib, time
rank, folder = int(os.environ["RANK"]), pathlib.Path("/shared") / os.environ["FOLDER"]
folder.mkdir(exist_ok=True)
saved, others = folder / "saved", [folder / f"rank-{one}" for one in (0, 1)]
first = int(saved.read_text()) if saved.exists() else 0
for step in range(first, first + 12 if first else 10**6):
    done = f"{first:06} {step:06}"
    others[rank].write_text(done)
    while not all(one.exists() and one.read_text() >= done for one in others):
        time.sleep(0.05)
    if rank == 0:
        print("step", step, flush=True)
        with (folder / "times").open("a") as times:
            print("done", first, step, time.time(), file=times)
        if step % 4 == 0:
            saved.write_text(str(step))
    time.sleep(0.2)
if rank == 0:
    print((folder / "times").read_text(), flush=True)
"""
"""The first attempt runs until it is stopped. The second attempt starts at the last checkpoint and completes 12 steps.
"""
COMPUTES = """
import os, pathlib, time
from statistics import median
rank, folder = int(os.environ["RANK"]), pathlib.Path("/shared") / os.environ["FOLDER"]
folder.mkdir(exist_ok=True)
step = 0
while not (folder / "end").exists():
    step += 1
    began = time.monotonic()
    for _ in range(20):
        time.sleep(0.01)
    (folder / f"new-{rank}").write_text(f"{step} {time.monotonic() - began}")
    (folder / f"new-{rank}").rename(folder / f"rank-{rank}")
    while True:
        read = [(folder / f"rank-{one}").read_text().split() for one in (0, 1) if (folder / f"rank-{one}").exists()]
        if len(read) == 2 and all(int(one[0]) >= step for one in read):
            break
        time.sleep(0.01)
    times = [float(one[1]) for one in read]
    if rank == 0:
        slowest = max((0, 1), key=times.__getitem__)
        print(f"step {step} slowest={slowest} ratio={times[slowest] / min(times)}", flush=True)
"""
"""Each step waits for both ranks. With only two ranks, their median is not a useful reference, so `ratio` compares the
slower rank with the faster one."""
COMMANDS = {
    "mpijob": ["python3", "-u", "-c", STEPS],
    "standalone": ["python3", "-u", "-c", STEPS],
    # The image has no PyTorch, so a shell function replaces torchrun.
    "torchrun": ["sh", "-c", 'torchrun() { RANK=$JOB_COMPLETION_INDEX python3 -u -c "$STEPS"; }; torchrun'],
}


@pytest.mark.parametrize(
    "launcher",
    [
        "mpijob",
        pytest.param("standalone", marks=pytest.mark.mission_only),
        pytest.param("torchrun", marks=pytest.mark.mission_only),
    ],
)
def test_a_job_with_a_hanging_rank_is_restarted_and_finishes(job_cluster: JobCluster, tmp_path: Path, launcher: str) -> None:
    name = f"hangs-{launcher}"
    job = write_job_file(
        tmp_path,
        name,
        launcher=launcher,
        command=COMMANDS[launcher],
        env={"FOLDER": f"{name}-{secrets.token_hex(4)}", "STEPS": STEPS},
        maxRestarts=1,
        progress={"pattern": r"^step (\d+)$", "within": "30s"},
    )
    assert job_cluster.cluster("submit", job).code == 0
    wait_until(lambda: job_cluster.cluster("logs", name).out, lambda log: "step 6" in log)
    broken = job_cluster.cluster("local", "break", name, "--hang", "1", "--home", str(job_cluster.cloud.folder))
    assert broken.code == 0, broken.err
    wait_until(lambda: find_record(job_cluster, name)["failures"], lambda number: number == 1)
    assert job_cluster.await_phase(name, "Succeeded", "Failed") == "Succeeded"
    log = job_cluster.cluster("logs", name).out

    record = wait_until(lambda: find_record(job_cluster, name), has_complete_log_of_success)
    hung, succeeded = record["attempts"]
    assert (hung["outcome"], succeeded["outcome"], record["restarts"]) == ("Failed", "Succeeded", 1)
    assert hung["cause"].startswith("hang: no new step for")
    assert hung["hang"]["log"][-1] == f"step {hung['hang']['step']}"
    assert sorted(rank for group in hung["hang"]["ranks"] for rank in group["ranks"]) == [0, 1], hung["hang"]
    shown = job_cluster.cluster("logs", name, "--hang").out
    assert re.search(r"\nrank 1: stopped in \S+ \(<string>:\d+\)\n", shown) and "\nrank 0: " in shown, shown
    assert not {*hung["companions"]} & {*succeeded["companions"]}, "the workers are new"
    events = job_cluster.kubectl("get", "events", "-n", NAMESPACE, "--field-selector", "reason=Hang", "-o", "name").out
    assert events.count(f"{name}.hang-1") == 1
    goodput = job_cluster.cluster("goodput", name, "--json")
    assert goodput.code == 0, goodput.err
    spent = goodput.json["jobs"][0]["seconds"]
    assert spent["recovering"] > 0 and spent["training"] > 0
    assert_record_matches_log(hung["steps"], succeeded["steps"], spent, log)


def assert_record_matches_log(hung: dict[str, Any], resumed: dict[str, Any], spent: dict[str, float], log: str) -> None:
    """Compare the recorded steps, and the times computed from them, with the program's log. The `done` lines in this
    log give the attempt's first step, the step and the time. On a busy machine, a line can reach the recorded log
    seconds later, but not before the program has completed the previous step.
    """
    lines = [line.split()[1:] for line in log.splitlines() if line.startswith("done ")]
    before = {int(step): float(when) for first, step, when in lines if first == "0"}
    after = {int(step): float(when) for first, step, when in lines if first != "0"}
    reached = max(before)
    assert (hung["last"]["step"], resumed["first"]["step"], resumed["goal"]) == (reached, min(after), reached)
    stopped, began, regained = (
        parse_time(text).timestamp() for text in (hung["last"]["at"], resumed["first"]["at"], resumed["regained"])
    )
    assert before[reached - 1] <= stopped < after[min(after)]
    assert stopped < began <= regained and all(when <= regained for step, when in after.items() if step < reached)
    assert spent["recovering"] == pytest.approx(began - stopped, abs=0.01)
    assert spent["lost"] == pytest.approx(regained - began, abs=0.01)


def has_complete_log_of_success(row: dict[str, Any]) -> bool:
    """On a busy machine, the controller reads the last lines of the log only after the job has ended."""
    steps = row["attempts"][-1].get("steps") or {}
    return row["phases"][-1]["phase"] == "Succeeded" and bool(steps.get("regained"))


def find_record(cluster: JobCluster, name: str) -> dict[str, Any]:
    """Return the job's row in the output of `jobs --all`, which contains the job's record."""
    return next(row for row in cluster.cluster("jobs", "--all", "--json").json if row["name"] == name)


@pytest.mark.mission_only
def test_a_slow_rank_is_reported_with_its_node(job_cluster: JobCluster, tmp_path: Path) -> None:
    marks = f"slow-{secrets.token_hex(4)}"
    pattern = r"^step (?P<step>\d+) slowest=(?P<slowest>\d+) ratio=(?P<ratio>[\d.]+)"
    more = {"env": {"FOLDER": marks}, "progress": {"pattern": pattern, "within": "5m"}}
    job = write_job_file(tmp_path, "slow", command=["python3", "-u", "-c", COMPUTES], maxRestarts=0, **more)
    assert job_cluster.cluster("submit", job).code == 0
    wait_until(lambda: job_cluster.cluster("logs", "slow").out, lambda log: "step 6 " in log)
    broken = job_cluster.cluster("local", "break", "slow", "--slow", "1", "--home", str(job_cluster.cloud.folder))
    assert broken.code == 0, broken.err
    node = next(pod["spec"]["nodeName"] for pod in job_cluster.pods("slow", "worker") if pod["metadata"]["name"].endswith("-1"))

    def read_reason() -> str:
        return str(next(row for row in job_cluster.cluster("jobs", "--json").json if row["name"] == "slow")["reason"])

    assert wait_until(read_reason, lambda text: "is slow" in text).startswith(f"rank 1 on {node} is slow: ")
    (folder,) = job_cluster.cloud.folder.glob(f"file-systems/*/gpumpi/{marks}")
    (folder / "end").touch()
    assert job_cluster.await_phase("slow", "Succeeded", "Failed") == "Succeeded"
