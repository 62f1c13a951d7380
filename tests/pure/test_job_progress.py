"""A job's `progress` setting: accepted values, and the data that the job's objects pass to the controller."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from infra.jobs import in_pods
from infra.jobs.model import Job
from infra.jobs.progress import find_pattern_problem
from infra.jobs.render import place_job, render_job
from infra.jobs.validation import check_job
from infra.naming import POLICY_ANNOTATION
from tests.pure.job_world import KEYS, TEAM, make_cluster

LEAST = {"name": "mnist", "pool": "train", "workers": 2, "image": "r.example.com/t:1", "command": ["true"]}


def find_problems(progress: dict[str, Any]) -> list[str]:
    job = Job.model_validate({**LEAST, "progress": progress})
    return list(map(str, check_job(job, make_cluster(namespaces=(TEAM,)))))


def read_progress_policy(launcher: str, **progress: Any) -> tuple[Any, Any]:
    """Return `progress` from a job's policy annotation, and the container that writes the job's log."""
    job = Job.model_validate({**LEAST, "launcher": launcher, "progress": progress})
    main = render_job(place_job(job, make_cluster(namespaces=(TEAM,))), lambda: KEYS)[0]
    spec = main["spec"]
    pod = spec["mpiReplicaSpecs"]["Launcher"]["template"] if launcher == "mpijob" else spec["template"]
    return json.loads(main["metadata"]["annotations"][POLICY_ANNOTATION])["progress"], pod["spec"]["containers"][0]


@pytest.mark.parametrize(
    ("progress", "problem"),
    [
        ({"within": "10m"}, "progress: has neither pattern nor file. Set exactly one of them."),
        (
            {"pattern": r"(\d+)", "file": "/shared/step", "within": "10m"},
            "progress: has both pattern and file. Set exactly one of them.",
        ),
        ({"pattern": r"(\d+)", "within": "29s"}, 'progress.within: "29s" is too short. Use at least 30s.'),
        (
            {"pattern": r"(\d+)", "within": "soon"},
            'progress.within: "soon" is not a duration. Use one such as 90s, 10m or 1h30m.',
        ),
        ({"file": "step", "within": "1m"}, 'progress.file: "step" is not an absolute path. Use one such as /shared/step.'),
    ],
)
def test_invalid_progress_setting_gets_one_line_error(progress: dict[str, Any], problem: str) -> None:
    assert find_problems(progress) == [problem]


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        ("step (", "is not a regular expression: "),
        ("step", "has no group for the step. "),
        ("(" + "x" * 200 + ")", "has 202 characters. "),
        (r"(\d+)*x", "has nested quantifiers, "),
        (r"((a|b*)+)", "has nested quantifiers, "),
        (r"(.*).*.*.*.*", "has 5 variable-length quantifiers, "),
    ],
)
def test_invalid_or_potentially_endless_pattern_is_refused(pattern: str, problem: str) -> None:
    assert (find_pattern_problem(pattern) or "").startswith(problem)


@pytest.mark.parametrize(
    "pattern", [r"step (\d+)", r"^\[1,0\]<stdout>:epoch \d+ .*step[= ](?P<step>\d+)", r"(?:step )?(\d{1,9})"]
)
def test_common_patterns_are_accepted(pattern: str) -> None:
    assert find_problems({"pattern": pattern, "within": "1h30m"}) == []


def test_progress_file_must_be_on_a_writable_volume_of_the_job() -> None:
    (path,) = {volume.mount_path for volume in TEAM.volumes[:1]}
    assert find_problems({"file": f"{path}/step", "within": "10m"}) == []
    (problem,) = find_problems({"file": "/tmp/step", "within": "10m"})
    assert problem.startswith('progress.file: "/tmp/step" is not on a writable volume of the job. Use a path below /')


@pytest.mark.parametrize("launcher", ["mpijob", "standalone", "torchrun"])
def test_policy_contains_pattern_and_time_limit_in_seconds(launcher: str) -> None:
    policy, container = read_progress_policy(launcher, pattern=r"step (\d+)", within="2m")
    assert policy == {"pattern": r"step (\d+)", "within": 120, "ranksPerWorker": 8}
    assert "gpumpi-progress" not in container["command"][2]


@pytest.mark.parametrize("launcher", ["mpijob", "standalone", "torchrun"])
def test_pod_that_prints_the_job_log_also_prints_steps_from_the_file(launcher: str) -> None:
    policy, container = read_progress_policy(launcher, file="/shared/step", within="2m")
    assert policy["pattern"] == in_pods.PROGRESS_PATTERN
    assert container["command"][2].startswith(in_pods.read_source("progress_file.sh"))
    assert {"name": "GPUMPI_PROGRESS_FILE", "value": "/shared/step"} in container["env"]


def test_pod_prints_each_new_step_but_not_a_step_of_an_earlier_attempt(tmp_path: Path) -> None:
    file, asks, turn, out = (tmp_path / name for name in ("step", "asks", "turn", "out"))
    os.mkfifo(asks)
    os.mkfifo(turn)
    file.write_text("7 of 100\n")
    script = in_pods.read_source("progress_file.sh").replace("sleep 2", f"echo > {asks} && read -r _ < {turn}") + 'wait "$!"'
    variables = {"GPUMPI_PROGRESS_FILE": str(file), "PATH": os.environ["PATH"]}
    with out.open("w") as log, subprocess.Popen(["/bin/sh", "-c", script], stdout=log, env=variables):
        for content in ("7 of 100\n", "step 9\n", "", "step 9 of 100, then 12\n", "none"):
            asks.read_text()  # blocks until the script waits for its next round
            file.write_text(content)
            turn.write_text("go\n")
        asks.read_text()
        turn.write_text("")
    assert out.read_text() == "gpumpi-progress step=9\ngpumpi-progress step=12\n"
