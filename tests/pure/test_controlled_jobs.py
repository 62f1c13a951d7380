"""Fields of jobs on which the job controller relies, and the start of jobs after `setup`."""

import ast
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from infra.jobs.model import Job
from infra.jobs.placed import Manifest
from infra.jobs.render import LAUNCHERS, place_job, render_job
from infra.jobs.validation import check_job
from infra.naming import HELD_QUEUE, POLICY_ANNOTATION, QUEUE_LABEL
from infra.platform.job_controller import program
from infra.platform.job_controller.in_pod import job as in_pod
from infra.platform.job_controller.in_pod.actions import Change, FailJob
from tests.pure.controlled_jobs import (
    Controlled,
    make_condition,
    make_job,
    make_launcher,
    make_main_object,
    make_timestamp,
    make_workers,
)
from tests.pure.job_world import KEYS, TEAM, make_cluster

PACKED = [volume_item["path"] for volume_item in program.list_volume_items()]


def render_default_job(**more: Any) -> list[Manifest]:
    least = {"name": "mnist", "pool": "train", "workers": 2, "image": "r.example.com/t:1", "command": ["true"]}
    model = Job.model_validate({**least, **more})
    return render_job(place_job(model, make_cluster()), lambda: KEYS)


def filter_by_kind(pieces: list[Manifest], kind: str) -> list[dict[str, Any]]:
    return [piece for piece in pieces if piece["kind"] == kind]


def test_the_controller_needs_only_the_standard_library() -> None:
    modules_of_it = {name: text for name, text in program.read_module_sources().items() if name.endswith(".py")}
    for name, text in modules_of_it.items():
        for node in ast.walk(ast.parse(text)):
            modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level:
                modules = [node.module or ""]
            own = {path.removesuffix(".py").replace("/", ".") for path in PACKED} | {"infra.health"}
            assert {module.partition(".")[0] for module in modules if module not in own} <= sys.stdlib_module_names, name


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_gpu_ranks_record_collectives_if_hang_detection_is_enabled(launcher: str) -> None:
    name, hang_detection = "TORCH_NCCL_DEBUG_INFO_PIPE_FILE", {"progress": {"pattern": "step (\\d+)", "within": "10m"}}
    assert list_variable_values(render_default_job(launcher=launcher, **hang_detection), name) == ["/tmp/nccl_dump_rank_"]
    assert list_variable_values(render_default_job(launcher=launcher, **hang_detection, env={name: "/shared/mine"}), name) == [
        "/shared/mine"
    ]
    older, newer = "TORCH_NCCL_TRACE_BUFFER_SIZE", "TORCH_FR_BUFFER_SIZE"
    renamed = render_default_job(launcher=launcher, **hang_detection, env={newer: "9"})
    assert (list_variable_values(renamed, older), list_variable_values(renamed, newer)) == ([], ["9"])
    assert list_variable_values(render_default_job(launcher=launcher), name) == []
    assert (
        list_variable_values(render_default_job(launcher=launcher, **hang_detection, gpusPerWorker=None, pool="system"), name)
        == []
    )


def list_variable_values(pieces: list[Manifest], variable: str) -> list[str]:
    """Return the values of an environment variable in all worker containers."""
    specs = [piece.get("spec", {}) for piece in pieces]
    replicas = [replica for spec in specs for replica in spec.get("mpiReplicaSpecs", {}).values()]
    pods = [spec["template"]["spec"] for spec in (*specs, *replicas) if "template" in spec]
    workers = [container for pod in pods for container in pod["containers"] if container["name"] == "worker"]
    return [env["value"] for container in workers for env in container["env"] if env["name"] == variable]


def test_controller_runs_from_files_mounted_in_its_pod(tmp_path: Path) -> None:
    for volume_item in program.list_volume_items():
        (tmp_path / volume_item["path"]).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / volume_item["path"]).write_text(program.read_module_sources()[volume_item["key"]])
    assert {volume_item["key"] for volume_item in program.list_volume_items()} == program.read_module_sources().keys()
    script = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import {program.PACKAGE}.controller as c; print(c.__file__)"
    result = subprocess.run([sys.executable, "-I", "-S", "-c", script], capture_output=True, text=True, check=False)
    assert result.stdout.startswith(str(tmp_path)), result.stderr


def test_controller_program_fits_into_its_config_map() -> None:
    assert sum(map(len, program.read_module_sources().values())) < 2**19


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_main_object_carries_the_restart_policy(launcher: str) -> None:
    first = render_default_job(launcher=launcher, maxRestarts=4, noRetryExitCodes=[3], activeDeadlineSeconds=60)[0]
    policy = json.loads(first["metadata"]["annotations"][POLICY_ANNOTATION])
    expected_policy = {"maxRestarts": 4, "noRetryExitCodes": [3], "workers": 2, "pool": "train", "activeDeadlineSeconds": 60}
    assert policy == {"version": in_pod.POLICY_VERSION, **expected_policy}


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_kubernetes_backoff_limit_exceeds_the_controllers_restart_limit(launcher: str) -> None:
    spec = render_default_job(launcher=launcher, maxRestarts=1)[0]["spec"]
    limit = spec.get("runPolicy", spec).get("backoffLimit") or spec["backoffLimitPerIndex"]
    assert limit == 101


def test_controller_enforces_deadline_of_standalone_job() -> None:
    pieces = render_default_job(launcher="standalone", activeDeadlineSeconds=60)
    assert all("activeDeadlineSeconds" not in job["spec"] for job in filter_by_kind(pieces, "Job"))


# --- setup -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_setup_runs_as_separate_job_with_its_own_resources_and_deadline(launcher: str) -> None:
    more = {"setupResources": {"cpu": "4", "memory": "8Gi"}, "setupDeadlineSeconds": 600}
    pieces = render_default_job(launcher=launcher, setup=["pip", "install"], **more)
    setup_job = next(job for job in filter_by_kind(pieces, "Job") if job["metadata"]["name"] == "mnist-setup")
    assert setup_job["spec"]["activeDeadlineSeconds"] == 600
    assert setup_job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "jobs"
    (container,) = setup_job["spec"]["template"]["spec"]["containers"]
    assert container["resources"]["limits"] == {"cpu": "4", "memory": "8Gi"}
    other_pieces = [piece for piece in pieces if piece is not setup_job]
    assert "install" not in json.dumps(other_pieces)


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_ranks_stay_out_of_the_queue_until_setup_ends(launcher: str) -> None:
    pieces = render_default_job(launcher=launcher, setup=["true"])
    assert pieces[0]["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == HELD_QUEUE
    assert [stateful_set["spec"]["replicas"] for stateful_set in filter_by_kind(pieces, "StatefulSet")] == (
        [0] if launcher == "standalone" else []
    )


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_without_a_queue_ranks_stay_suspended_until_setup_ends(launcher: str) -> None:
    least = {"name": "mnist", "pool": "train", "workers": 2, "image": "r.example.com/t:1", "command": ["true"]}
    model = Job.model_validate({**least, "launcher": launcher, "setup": ["true"], "namespace": "team-a"})
    first = render_job(place_job(model, make_cluster(namespaces=(TEAM,))), lambda: KEYS)[0]
    assert first["spec"].get("runPolicy", first["spec"])["suspend"] is True


def make_setup_job(*conditions: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "Job", "metadata": {"name": "train-setup"}, "spec": {}, "status": {"conditions": list(conditions)}}


def make_held_job(launcher: str, queue: str | None) -> dict[str, Any]:
    manifest = make_main_object(launcher, {"hold": {"queue": queue}})
    manifest["metadata"]["labels"][QUEUE_LABEL] = HELD_QUEUE
    manifest["spec"] |= {"runPolicy": {"suspend": True}} if launcher == "mpijob" else {"suspend": True}
    return manifest


def test_a_job_waits_for_its_setup() -> None:
    controlled = Controlled()
    assert controlled.run_round(make_job(make_held_job("mpijob", "jobs"), [], setup=make_setup_job()), 5) == []
    assert controlled["phase"] == "Setup"


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_a_job_enters_the_queue_after_its_setup(launcher: str) -> None:
    controlled = Controlled()
    done = make_job(make_held_job(launcher, "jobs"), [], setup=make_setup_job(make_condition("Complete", 40)))
    (action,) = controlled.run_round(done, 41)
    assert isinstance(action, Change)
    assert action.values == {"metadata": {"labels": {QUEUE_LABEL: "jobs"}}}
    assert controlled["setup"]["outcome"] == "Succeeded"


def test_without_a_queue_a_job_starts_after_its_setup() -> None:
    controlled = Controlled()
    (action,) = controlled.run_round(
        make_job(make_held_job("torchrun", None), [], setup=make_setup_job(make_condition("Complete", 40))), 41
    )
    assert isinstance(action, Change)
    assert action.values == {"spec": {"suspend": False}}


def test_workers_without_an_operator_start_after_setup() -> None:
    controlled = Controlled()
    workers_set = {"metadata": {"name": "train-worker"}, "spec": {"replicas": 0}}
    done = make_job(
        make_held_job("standalone", "jobs"), [], setup=make_setup_job(make_condition("Complete", 40)), workers_set=workers_set
    )
    first, _ = controlled.run_round(done, 41)
    assert isinstance(first, Change)
    assert first.values == {"spec": {"replicas": 2}}


def test_a_released_job_is_not_released_again() -> None:
    controlled = Controlled()
    released = make_main_object("mpijob", {"hold": {"queue": "jobs"}})
    released["metadata"]["labels"][QUEUE_LABEL] = "jobs"
    assert controlled.run_round(make_job(released, [], setup=make_setup_job(make_condition("Complete", 40))), 41) == []


def test_a_failed_setup_fails_the_job() -> None:
    controlled = Controlled()
    failed = make_setup_job(make_condition("Failed", 40, "Job has reached the specified backoff limit"))
    (action,) = controlled.run_round(make_job(make_held_job("mpijob", "jobs"), [], setup=failed), 41)
    message = "setup failed: Job has reached the specified backoff limit"
    assert action == FailJob("mpi-jobs", "train-launcher", "SetupFailed", message, was_started=False)
    assert controlled["verdict"]["message"] == message


@pytest.mark.parametrize("was_started", [True, False])
def test_failing_a_job_that_never_started_sets_its_start_time(was_started: bool) -> None:
    """The API server rejects a Failed condition on a Job without startTime, so a suspended Job would remain suspended."""
    sent: list[Any] = []

    class Recorder:
        def call(self, method: str, path: str, *, body: Any, kind: str) -> None:
            sent.append((method, path, body["status"]))

    api: Any = Recorder()
    FailJob("mpi-jobs", "train", "SetupFailed", "no disk", was_started).perform(api, make_timestamp(5))
    ((method, path, status),) = sent
    assert (method, path) == ("PATCH", "apis/batch/v1/namespaces/mpi-jobs/jobs/train/status")
    assert status["conditions"][0]["type"] == "FailureTarget"
    assert status.get("startTime") == (None if was_started else make_timestamp(5))


def find_problems(**more: Any) -> list[str]:
    least = {"name": "mnist", "pool": "train", "workers": 2, "image": "r.example.com/t:1", "command": ["true"]}
    return list(map(str, check_job(Job.model_validate({**least, **more}), make_cluster())))


def test_setup_requires_a_writable_volume() -> None:
    fix = "Add a volume without readOnly to volumes, or remove setup."
    expected_problems = [f"setup: needs a writable volume: only what it writes to volumes reaches the ranks. {fix}"]
    assert find_problems(setup=["true"], volumes=[]) == expected_problems
    assert find_problems(setup=["true"], volumes=[{"name": "shared", "readOnly": True}]) == expected_problems
    assert find_problems(setup=["true"]) == find_problems(volumes=[]) == []


def test_invalid_setup_and_restart_values_are_reported_together() -> None:
    more = {"setupResources": {"cpu": "x"}, "noRetryExitCodes": [0]}
    assert find_problems(**more) == [
        "noRetryExitCodes[0]: 0 is not an exit code of a failure. Use 1 to 255.",
        'setupResources.cpu: "x" is not a quantity. Use one such as 500m or 8.',
    ]


# --- workers after the end of the job ----------------------------------------------------------------------------------


def make_workers_set(replicas: int = 2) -> dict[str, Any]:
    metadata = {"name": "train-worker", "creationTimestamp": make_timestamp(0), "resourceVersion": "7"}
    return {"metadata": metadata, "spec": {"replicas": replicas}}


@pytest.mark.parametrize("verdict", ["Complete", "Failed"])
def test_controller_deletes_workers_of_ended_job_until_none_is_left(verdict: str) -> None:
    controlled = Controlled()
    ended = make_main_object("standalone", conditions=[make_condition(verdict, 40)])
    for second in (41, 51):
        (action,) = controlled.run_round(make_job(ended, make_workers(), workers_set=make_workers_set()), second)
        assert isinstance(action, Change)
        assert action.path == "apis/apps/v1/namespaces/mpi-jobs/statefulsets/train-worker"
        assert action.values == {"metadata": {"resourceVersion": "7"}, "spec": {"replicas": 0}}
    assert controlled.run_round(make_job(ended, make_workers(), workers_set=make_workers_set(0)), 61) == []


def test_workers_run_until_the_job_has_ended() -> None:
    running = make_job(make_main_object("standalone"), [*make_workers(), make_launcher()], workers_set=make_workers_set())
    assert Controlled().run_round(running, 20) == []


def test_clean_pod_policy_none_keeps_workers() -> None:
    ended = make_main_object("standalone", {"cleanPodPolicy": "None"}, conditions=[make_condition("Complete", 40)])
    assert Controlled().run_round(make_job(ended, make_workers(), workers_set=make_workers_set()), 41) == []


def test_deleting_an_ended_job_keeps_workers_of_the_next_run() -> None:
    ended = make_main_object("standalone", conditions=[make_condition("Failed", 40)])
    ended["metadata"]["deletionTimestamp"] = make_timestamp(50)
    assert Controlled().run_round(make_job(ended, [], workers_set=make_workers_set()), 51) == []


def test_stale_ended_job_does_not_end_workers_of_the_next_run() -> None:
    ended, workers_set = make_main_object("standalone", conditions=[make_condition("Failed", 40)]), make_workers_set()
    workers_set["metadata"]["creationTimestamp"] = make_timestamp(50)
    assert Controlled().run_round(make_job(ended, [], workers_set=workers_set), 51) == []
