"""Jobs whose pods are killed or lack resources, and two stacks side by side."""

import json
import re
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, TextIO

import psutil
import pytest

from infra.jobs import mpi
from infra.naming import QUEUE_NAMESPACE
from infra.platform.admission import PODS_READY_MINUTES
from localcloud.engine_events import EventLog
from localcloud.stack import LocalStack, Run
from testkit.job_cluster import NAMESPACE, SOURCE, JobCluster, build_python_command, get_job_cluster, write_job_file
from testkit.projects import create_client
from testkit.waiting import wait_until

pytestmark = [pytest.mark.xdist_group("jobs"), pytest.mark.usefixtures("job_cleanup")]

TWICE = """
import os, pathlib, signal, sys
from mpi4py import MPI
world = MPI.COMM_WORLD
mark = pathlib.Path("/shared") / sys.argv[1]
if not world.bcast(mark.exists()):
    if world.rank == 0:
        mark.touch()
        print("first attempt", flush=True)
    signal.pause()
nodes = world.gather(os.environ["GPUMPI_NODE"])
if world.rank == 0:
    mark.unlink()
    print(f"second attempt, {world.size} ranks on", *nodes, flush=True)
"""
"""A program that waits to be killed in the first attempt and exits immediately in the second."""


FOREVER = "import signal; print('runs', flush=True); signal.pause()"
QUICK = "print('done')"


@contextmanager
def submit_and_follow(cluster: JobCluster, folder: Path, name: str, **more: Any) -> Iterator[Any]:
    """Submit a job and follow its log until the first attempt runs."""
    # A killed worker's pod name stays in use for a moment, so another attempt may fail on a busy machine
    file = write_job_file(
        folder, name, command=[*build_python_command(TWICE), f"{name}-{secrets.token_hex(3)}"], maxRestarts=4, **more
    )
    try:
        with cluster.run_in_background("submit", file, "--follow") as process:
            assert process.stdout is not None
            read_until(process.stdout, "first attempt")
            yield process
    finally:
        cluster.cluster("cancel", name)


def read_until(stream: TextIO, text: str) -> str:
    """Return the first line that contains the text."""
    lines = []
    for line in stream:
        lines.append(line)
        if text in line:
            return line
    raise AssertionError(f"it ended without {text!r}: {''.join(lines)}")


def kill_container(pod: dict[str, Any]) -> None:
    """Kill the first process of the pod's container, as the OOM killer would."""
    uid = pod["metadata"]["uid"]
    members = [process for process in psutil.process_iter(["cmdline", "create_time"]) if is_in_pod(process, uid)]
    programs = [process for process in members if process.info["cmdline"][:1] != ["/pause"]]
    min(programs, key=lambda process: process.info["create_time"]).kill()


def is_in_pod(process: psutil.Process, uid: str) -> bool:
    try:
        groups = Path(f"/proc/{process.pid}/cgroup").read_text()
    except OSError:
        return False
    return uid in groups or uid.replace("-", "_") in groups


def parse_time(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def list_attempts(cluster: JobCluster, job: str) -> list[dict[str, Any]]:
    """Return the exit states of the job's launcher containers, oldest first."""
    ends = [pod["status"]["containerStatuses"][0]["state"]["terminated"] for pod in cluster.pods(job, "launcher")]
    return sorted(ends, key=lambda end: parse_time(end["startedAt"]))


@pytest.mark.parametrize(
    ("launcher", "victim"),
    [
        ("mpijob", "worker"),
        pytest.param("mpijob", "launcher", marks=pytest.mark.mission_only),
        pytest.param("standalone", "worker", marks=pytest.mark.mission_only),
    ],
    ids=lambda text: text,
)
def test_a_job_restarts_when_one_of_its_pods_is_killed(
    job_cluster: JobCluster, tmp_path: Path, launcher: str, victim: str
) -> None:
    name = f"killed-{launcher}-{victim}"
    with submit_and_follow(job_cluster, tmp_path, name, launcher=launcher) as process:
        kill_container(job_cluster.pods(name, victim)[-1])
        out, err = process.communicate(timeout=240)
        assert process.returncode == 0, err
        assert "second attempt, 2 ranks" in out
        assert re.search(rf"job {name} succeeded in \d+ s, after \d failed attempt", err), err
        first, *_, last = list_attempts(job_cluster, name)
        assert first["exitCode"] != 0
        assert last["exitCode"] == 0
        assert parse_time(first["finishedAt"]) <= parse_time(last["startedAt"])


@pytest.mark.mission("B", "hostfile kept right")
def test_losing_a_node_ends_the_attempt_and_the_next_one_runs_on_the_replacement_node(
    job_cluster: JobCluster, tmp_path: Path
) -> None:
    def list_ready_nodes() -> dict[str, str]:
        nodes = job_cluster.list_objects("nodes", "gpumpi.io/pool=train")
        return {
            node["metadata"]["name"]: node["spec"]["providerID"].rsplit("/", 1)[1]
            for node in nodes
            if {"type": "Ready", "status": "True"}.items() <= find_condition(node, "Ready").items()
        }

    before = list_ready_nodes()
    workers = [f"{mpi.host_name('lost', NAMESPACE, number)} slots=1" for number in range(2)]
    with submit_and_follow(job_cluster, tmp_path, "lost") as process:
        assert job_cluster.read_hostfile("lost") == workers
        lost = before[job_cluster.pods("lost", "worker")[-1]["spec"]["nodeName"]]
        create_client(job_cluster.cloud, "ec2").terminate_instances(InstanceIds=[lost])
        out, err = process.communicate(timeout=240)
        assert process.returncode == 0, err
        (names,) = re.findall("second attempt, 2 ranks on (.+)", out)
        after = {list_ready_nodes()[name] for name in names.split()}
        assert len(after) == 2
        assert lost not in after
        assert job_cluster.read_hostfile("lost") == workers, "the DNS names now resolve to the new workers"


def find_condition(item: dict[str, Any], kind: str) -> dict[str, Any]:
    return next((condition for condition in item["status"].get("conditions", ()) if condition["type"] == kind), {})


def test_a_missing_image_is_reported_in_one_sentence(job_cluster: JobCluster, tmp_path: Path) -> None:
    file = write_job_file(tmp_path, "imageless", image="nobody-made-it:1", command=["true"])
    with job_cluster.run_in_background("submit", file, "--follow") as process:
        assert process.stderr is not None
        line = read_until(process.stderr, "ErrImagePull")
    assert re.match(
        r"cluster: 0 of 2 workers ready: imageless-(worker-\d|launcher-\w+): ErrImagePull: "
        r".*\.amazonaws\.com/gpumpi-jobs/nobody-made-it:1.*not found",
        line,
    )
    assert job_cluster.read_phase("imageless") == "Starting"
    assert job_cluster.cluster("cancel", "imageless").code == 0


@contextmanager
def shorten_queue_timeout(cluster: JobCluster, limit: str) -> Iterator[None]:
    """Within this context, Kueue waits at most `limit` until all pods of a job are ready."""
    where = ("-n", QUEUE_NAMESPACE)
    read = cluster.kubectl("get", "configmap", "kueue-manager-config", *where, "-o", "json")
    assert read.code == 0, read.err
    original = json.loads(read.out)["data"]
    ((key, text),) = original.items()

    def restart_kueue(data: dict[str, str]) -> None:
        steps = (
            ("patch", "configmap", "kueue-manager-config", "-p", json.dumps({"data": data})),
            ("rollout", "restart", "deployment/kueue-controller-manager"),
            ("rollout", "status", "deployment/kueue-controller-manager", "--timeout=180s"),
        )
        for step in steps:
            done = cluster.kubectl(*step, *where)
            assert done.code == 0, done.err

    impatient = text.replace(f"timeout: {PODS_READY_MINUTES}m", f"timeout: {limit}")
    assert impatient != text
    restart_kueue({key: impatient})
    try:
        yield
    finally:
        restart_kueue(original)


@pytest.mark.mission_only
def test_a_job_waiting_for_its_image_releases_its_gpus(job_cluster: JobCluster, tmp_path: Path) -> None:
    with shorten_queue_timeout(job_cluster, "20s"):
        stuck = write_job_file(tmp_path, "stuck", image="nobody-made-it:1", command=["true"])
        assert job_cluster.cluster("submit", stuck).code == 0
        job_cluster.await_phase("stuck", "Starting")
        after = job_cluster.cluster("submit", write_job_file(tmp_path, "after", command=build_python_command(QUICK)), "--follow")
        assert after.code == 0, after.err
        assert after.out.split().count("done") == 2
        for name in ("stuck", "after"):
            assert job_cluster.cluster("cancel", name).code == 0


def test_a_job_without_enough_gpus_starts_no_pods_until_another_job_is_deleted(job_cluster: JobCluster, tmp_path: Path) -> None:
    first = write_job_file(tmp_path, "first", command=build_python_command(FOREVER))
    second = write_job_file(tmp_path, "second", command=build_python_command(QUICK))
    assert job_cluster.cluster("submit", first).code == 0
    job_cluster.await_phase("first", "Running")
    with job_cluster.run_in_background("submit", second, "--follow") as process:
        assert process.stderr is not None
        waits = read_until(process.stderr, "waits in the queue: ")
        assert "insufficient unused quota for nvidia.com/gpu" in waits
        assert list_placed_pods(job_cluster, "second") == []
        assert job_cluster.kubectl("delete", "mpijob", "first", "-n", "mpi-jobs").code == 0
        out, err = process.communicate(timeout=240)
        assert process.returncode == 0, err
        assert out.split().count("done") == 2
    wait_until(lambda: job_cluster.find_leftovers("first", deleted_with_kubectl=True), lambda leftovers: leftovers == [])
    assert job_cluster.cluster("cancel", "second").code == 0


def list_placed_pods(cluster: JobCluster, job: str) -> list[str]:
    return [pod["metadata"]["name"] for pod in cluster.pods(job) if "nodeName" in pod["spec"]]


@pytest.mark.mission_only
def test_following_a_job_reports_the_deletion_of_the_job(job_cluster: JobCluster, tmp_path: Path) -> None:
    with job_cluster.run_in_background(
        "submit", write_job_file(tmp_path, "deleted", command=build_python_command(FOREVER)), "--follow"
    ) as process:
        assert process.stdout is not None
        read_until(process.stdout, "runs")
        assert job_cluster.kubectl("delete", "mpijob", "deleted", "-n", "mpi-jobs").code == 0
        _, err = process.communicate(timeout=240)
    assert (process.returncode, err.splitlines()[-1]) == (1, "cluster: job deleted was deleted")
    wait_until(lambda: job_cluster.find_leftovers("deleted", deleted_with_kubectl=True), lambda leftovers: leftovers == [])


# --- two stacks


@dataclass(frozen=True)
class Second:
    """The cluster of a second stack, and the result of the `up` that deployed it. The API server restarted during this
    `up`.
    """

    cluster: JobCluster
    up: Run
    seen_at_restart: frozenset[str]
    """Kubernetes objects that existed before the restart."""


@pytest.fixture(scope="module")
def second_stack(job_cluster: JobCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Second]:
    stack = LocalStack(job_cluster.cloud, "second", SOURCE)
    stack.prepare()
    urns: set[str] = set()
    restarted = threading.Event()

    def restart_api_server(events: EventLog, _: float) -> None:
        objects = {step.urn for step in events.steps if step.type.startswith("kubernetes:")}
        if objects and not restarted.is_set():
            restarted.set()
            urns.update(objects)
            job_cluster.cloud.control().post("kubernetes/us-west-2/gpumpi-second/restart-api-server", {})

    try:
        up = stack.run("up", watch=restart_api_server)
        assert up.ok, up.output[-4000:]
        folder = tmp_path_factory.mktemp("second")
        second_cluster = get_job_cluster(job_cluster.cloud, "second", folder)
        yield Second(second_cluster, up, frozenset(urns))
        endless = write_job_file(folder, "endless", command=build_python_command(FOREVER), gpusPerWorker=1, slots=1)
        assert second_cluster.cluster("submit", endless).code == 0
        assert second_cluster.await_phase("endless", "Running", "Failed") == "Running"
    finally:
        down = stack.run("destroy")
        assert down.ok, down.output[-4000:]
    assert_jobs_ended_first(down)


def assert_jobs_ended_first(down: Run) -> None:
    """Assert that `destroy` ended the running job before it deleted the resources that the job's volume needs."""
    deleted = {step.name.removeprefix("gpumpi-second-"): step for step in down.steps if step.operation == "delete"}
    needed = [name for name in deleted if name.endswith(("mount-target", "efs-csi-driver", "nodes-ingress", "-egress"))]
    assert {"service-aws-efs-csi-driver", "storage-nodes-ingress", "nodes-self-egress"} <= set(needed)
    jobs = deleted["namespaces-mpi-jobs"]
    assert [name for name in needed if deleted[name].began < jobs.ended] == []


@pytest.mark.mission_only
def test_pulumi_up_survives_a_restart_of_the_api_server(second_stack: Second) -> None:
    objects = {step.urn for step in second_stack.up.steps if step.type.startswith("kubernetes:")}
    assert second_stack.seen_at_restart
    assert objects - second_stack.seen_at_restart, "some objects were created after the restart"
    assert second_stack.up.errors == ()


@pytest.mark.mission_only
def test_two_stacks_run_jobs_at_the_same_time_without_interference(
    job_cluster: JobCluster, second_stack: Second, tmp_path: Path
) -> None:
    clusters = {"jobs": job_cluster, "second": second_stack.cluster}
    for name, cluster in clusters.items():
        more = {"gpusPerWorker": 1, "slots": 1} if name == "second" else {}
        (tmp_path / name).mkdir()
        assert (
            cluster.cluster("submit", write_job_file(tmp_path / name, "same", command=build_python_command(QUICK), **more)).code
            == 0
        )
    for cluster in clusters.values():
        assert cluster.await_phase("same", "Succeeded", "Failed") == "Succeeded"
    assert second_stack.cluster.cluster("cancel", "same").code == 0
    assert job_cluster.read_phase("same") == "Succeeded", "the job of the other stack still exists"
    assert job_cluster.cluster("cancel", "same").code == 0


@pytest.mark.mission_only
def test_a_namespace_deleted_manually_is_recreated_with_the_data_of_its_volume(
    job_cluster: JobCluster, second_stack: Second, tmp_path: Path
) -> None:
    cluster, stack = second_stack.cluster, LocalStack(job_cluster.cloud, "second", SOURCE)

    def run_job(name: str, text: str) -> str:
        file = write_job_file(tmp_path, name, command=build_python_command(text), workers=1, gpusPerWorker=1, slots=1)
        done = cluster.cluster("submit", file, "--follow")
        assert done.code == 0, done.out + done.err
        return done.out

    run_job("writes", "open('/shared/kept', 'w').write('kept from before')")
    deleted = cluster.kubectl("delete", "namespace", NAMESPACE)
    assert deleted.code == 0, deleted.err
    for verb in ("refresh", "up"):
        mended = stack.run(verb)
        assert mended.ok, mended.output[-4000:]
    assert "kept from before" in run_job("reads", "print(open('/shared/kept').read())")


@pytest.mark.mission_only
def test_two_partially_started_jobs_deadlock_without_the_queue(second_stack: Second, tmp_path: Path) -> None:
    """docs/guides/jobs.md documents this deadlock. Scheduling gates make the placement deterministic: each job
    occupies one of the two nodes."""
    cluster, names = second_stack.cluster, ("left", "right")
    for name in names:
        file = write_job_file(
            tmp_path, name, command=build_python_command(QUICK), gpusPerWorker=2, slots=1, resources={"cpu": "2"}
        )
        (job,) = cluster.cluster("submit", file, "--dry-run", "--json").json
        job["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]["schedulingGates"] = [{"name": "test.gpumpi.dev/wait"}]
        result = cluster.kubectl("create", "-f", "-", text=json.dumps(job))
        assert result.code == 0, result.err
    for number in range(2):
        for name in names:
            ungate_worker(cluster, name, number)
    why = [find_condition(pod, "PodScheduled").get("message", "") for name in names for pod in cluster.pods(name, "worker")]
    assert [list_placed_pods(cluster, name) for name in names] == [["left-worker-0"], ["right-worker-0"]], "\n".join(why)
    assert [cluster.pods(name, "launcher") for name in names] == [[], []], "neither job starts"
    assert "Insufficient nvidia.com/gpu" in find_condition(find_worker(cluster, "right", 1), "PodScheduled")["message"]

    assert cluster.cluster("cancel", "left").code == 0
    assert cluster.await_phase("right", "Succeeded", "Failed") == "Succeeded", "canceling one job lets the other one start"
    assert cluster.cluster("cancel", "right").code == 0


def ungate_worker(cluster: JobCluster, job: str, number: int) -> None:
    """Remove a worker's scheduling gate; wait until the scheduler has placed the worker or reported that no node fits."""
    pod = f"{job}-worker-{number}"
    wait_until(lambda: cluster.kubectl("get", "pod", pod, "-n", "mpi-jobs").code, lambda code: code == 0)
    gates = '[{"op": "remove", "path": "/spec/schedulingGates"}]'
    assert cluster.kubectl("patch", "pod", pod, "-n", "mpi-jobs", "--type=json", "-p", gates).code == 0
    wait_until(lambda: find_condition(find_worker(cluster, job, number), "PodScheduled"), is_scheduling_decided)


def find_worker(cluster: JobCluster, job: str, number: int) -> dict[str, Any]:
    return next(pod for pod in cluster.pods(job, "worker") if pod["metadata"]["name"] == f"{job}-worker-{number}")


def is_scheduling_decided(scheduled: dict[str, Any]) -> bool:
    """Return whether the scheduler has found a node for the pod, or reported that no node fits."""
    return scheduled.get("status") == "True" or scheduled.get("reason") == "Unschedulable"
