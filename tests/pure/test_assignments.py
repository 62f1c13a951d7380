"""`--set` and `--env` of `submit` change a job's values before they are validated."""

import re
from typing import Any

import pytest

from cli.errors import CommandError
from cli.jobs.assignments import apply_assignments, split_pairs
from infra.jobs.reading import JobRefused, add_job_name, validate_job
from tests.pure.job_world import make_cluster, make_job_values

CHANGES: list[tuple[str, dict[str, Any]]] = [
    ("workers=1", {"workers": 1}),
    ("resources.cpu=2", {"resources": {"cpu": "2"}}),
    ("resources.memory='2Gi'", {"resources": {"memory": "2Gi"}}),
    ("command=[python3, a.py]", {"command": ["python3", "a.py"]}),
    ("command[1]=b.py", {"command": ["python3", "b.py"]}),
    ("env.NCCL_DEBUG=INFO", {"env": {"EPOCHS": "1", "NCCL_DEBUG": "INFO"}}),
    ("volumes[0].name=shared", {"volumes": [{"name": "shared"}]}),
    ("podOverrides.worker.labels.team=vision", {"podOverrides": {"worker": {"labels": {"team": "vision"}}}}),
]


@pytest.mark.parametrize(("text", "changed"), CHANGES, ids=[text for text, _ in CHANGES])
def test_set_option_changes_one_field_and_keeps_the_others(text: str, changed: dict[str, Any]) -> None:
    start = make_job_values(env={"EPOCHS": "1"})
    if text.startswith("volumes"):
        start["volumes"] = [{"name": "other"}]
    assigned = apply_assignments(start, split_pairs("--set", [text]))
    assert assigned == {**start, **changed}


def test_env_option_overrides_file_and_values_may_contain_equals_signs() -> None:
    assigned = apply_assignments(make_job_values(env={"A": "1", "B": "2"}), [], split_pairs("--env", ["A=x=y", "C=3"]))
    assert assigned["env"] == {"A": "x=y", "B": "2", "C": "3"}


def test_mistyped_path_in_set_option_is_refused_with_a_suggestion() -> None:
    with pytest.raises(JobRefused) as caught:
        validate_job(apply_assignments(make_job_values(), split_pairs("--set", ["worker=3"])), make_cluster())
    assert str(caught.value) == "worker: is not a setting. Did you mean workers?"


@pytest.mark.parametrize(
    ("option", "text", "message"),
    [
        ("--set", "workers", "--set workers: has no value. Use --set NAME=VALUE"),
        ("--env", "=1", "--env : has no name. Use --env NAME=VALUE"),
        ("--set", "a..b=1", "--set a..b: is not a path. Use one such as resources.memory or volumes[0].name"),
        ("--set", "command[7]=a", "--set command[7]: the job has no such element. Set all of command instead"),
        ("--set", "workers.a=1", "--set workers.a: the job has no such element. Set all of workers instead"),
    ],
)
def test_invalid_command_line_assignment_gets_one_line_error(option: str, text: str, message: str) -> None:
    with pytest.raises(CommandError) as caught:
        apply_assignments(make_job_values(), split_pairs(option, [text]))
    assert str(caught.value) == message


def test_generated_name_starts_with_generate_name_and_is_unique() -> None:
    start = {key: value for key, value in make_job_values(generateName="mnist-").items() if key != "name"}
    names = {validate_job(start, make_cluster()).name for _ in range(5)}
    assert len(names) == 5 and all(re.fullmatch(r"mnist-[bcdfghjklmnpqrstvwxz2456789]{5}", name) for name in names)
    assert add_job_name(make_job_values(generateName="other-"))["name"] == "mnist"
