"""Former names of fields and values are accepted with a warning, and produce the same objects as the current names."""

from typing import Any

import pytest

from infra.config.parse import parse
from infra.config.problems import Problem
from infra.jobs.component import digest
from infra.jobs.model import Job
from infra.jobs.reading import JobRefused, judged
from infra.jobs.render import render
from infra.settings.stack import Settings
from tests.pure import job_world
from tests.pure.job_world import KEYS, cluster
from tests.pure.world import pool, values

FORMER: dict[str, Any] = {"launcher": "openmpi", "prepare": ["true"], "deadlineSeconds": 600, "ttlSeconds": 60}
CURRENT: dict[str, Any] = {
    "launcher": "standalone",
    "setup": ["true"],
    "activeDeadlineSeconds": 600,
    "ttlSecondsAfterFinished": 60,
}
WARNINGS = [
    "launcher: openmpi is the old name of standalone. Use standalone.",
    "prepare: is the old name of setup. Rename it.",
    "deadlineSeconds: is the old name of activeDeadlineSeconds. Rename it.",
    "ttlSeconds: is the old name of ttlSecondsAfterFinished. Rename it.",
]


def warnings_of(**more: Any) -> tuple[Job, list[str]]:
    found: list[Problem] = []
    job = judged(job_world.values(**more), cluster(), on_warning=found.append)
    assert not any(problem.is_error for problem in found)
    return job, [str(problem) for problem in found]


def test_each_former_name_is_accepted_with_a_warning() -> None:
    assert warnings_of(**FORMER)[1] == WARNINGS
    assert warnings_of(**CURRENT)[1] == []


def test_a_job_with_former_names_has_the_same_objects() -> None:
    """`pulumi up` runs a stack's job again if the digest of the job's objects has changed."""
    former, current = (render(warnings_of(**names)[0], cluster(), lambda: KEYS) for names in (FORMER, CURRENT))
    assert digest(former) == digest(current)
    assert former[0].manifest["metadata"]["labels"]["gpumpi.io/launcher"] == "openmpi"


def test_a_field_with_both_names_is_rejected() -> None:
    with pytest.raises(JobRefused) as caught:
        judged(job_world.values(prepare=["false"], setup=["true"]), cluster())
    assert str(caught.value) == "prepare: is the old name of setup, which is also set. Remove it."


def test_a_wrong_value_is_reported_under_the_current_name() -> None:
    with pytest.raises(JobRefused) as caught:
        judged(job_world.values(ttlSeconds="soon"), cluster())
    assert str(caught.value) == 'ttlSecondsAfterFinished: "soon" is text. Use a whole number.'


def test_former_names_in_a_stack_are_warnings_with_their_path() -> None:
    raw = values(pool(), jobs=[job_world.values(**CURRENT), job_world.values(**FORMER)])
    found = parse(Settings, raw, stack="test", region="us-west-2")
    assert [str(problem) for problem in found.problems] == [f"jobs[1].{text}" for text in WARNINGS]
    assert not any(problem.is_error for problem in found.problems) and not found.placeholders
    assert found.model is not None and found.model.jobs[0] == found.model.jobs[1]
