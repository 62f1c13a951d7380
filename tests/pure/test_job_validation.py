"""Invalid job settings, with the full message of each rule."""

from pathlib import Path
from typing import Any

import pytest

from infra.jobs.reading import JobRefused, read_job, validate_job
from infra.jobs.validation import check_job
from tests.pure.job_world import make_cluster, make_job, make_job_values
from tests.pure.mistakes.jobs import REFUSED


def read_refusal(job_values: dict[str, Any], **described: Any) -> str:
    with pytest.raises(JobRefused) as refused:
        validate_job(job_values, make_cluster(**described))
    return str(refused.value)


def _format_case_id(case: Any) -> str:
    return ",".join(case) if isinstance(case, dict) else ""


@pytest.mark.parametrize(("more", "message"), REFUSED, ids=_format_case_id)
def test_job_that_can_never_run_is_refused_with_a_fix(more: dict[str, Any], message: str) -> None:
    assert read_refusal(make_job_values(**more)) == message


def test_all_problems_of_a_job_are_reported_at_once() -> None:
    lines = read_refusal({"name": "A", "pool": "smal", "workers": "2", "comand": ["x"]}).splitlines()
    assert [line.partition(":")[0] for line in lines] == ["workers", "image", "command", "comand", "name", "pool"]


@pytest.mark.parametrize("image", ["openmpi:5", "ubuntu:24.04", "gpumpi/openmpi:5", f"train@sha256:{'0' * 64}"])
def test_short_image_name_is_refused_without_a_repository(image: str) -> None:
    message = read_refusal(make_job_values(image=image), image_repository="")
    assert message.startswith(f'image: "{image[:9]}') and message.endswith(
        "has no registry, and gpumpi-test has no image repository. Write the full name, such as "
        "docker.io/library/ubuntu:24.04, or set platform.imageRepositories (target eks) or platform.imageRepository and run "
        "`pulumi up`."
    )


@pytest.mark.parametrize("image", ["docker.io/library/ubuntu:24.04", "localhost/train:1", "registry:5000/train:1"])
def test_a_full_image_name_needs_no_repository(image: str) -> None:
    assert validate_job(make_job_values(image=image), make_cluster(image_repository="")).job.image == image


def test_mpijob_is_refused_without_an_operator() -> None:
    expected = "launcher: mpijob needs mpi-operator, which gpumpi-test does not have. Use standalone or torchrun."
    assert read_refusal(make_job_values(), mpi_operator=False) == expected


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (
            {"image": "registry.example.com:5000/train"},
            'image: "registry.example.com:5000/train" has no tag or digest, so a retry may run another image. Add one, '
            "such as registry.example.com:5000/train:1.",
        ),
        (
            {"slots": 8},
            "slots: 8 ranks would share the 4 GPUs of a worker. Use 4, or ignore this if ranks share GPUs on purpose.",
        ),
    ],
)
def test_a_job_that_may_run_badly_is_accepted_with_a_warning(more: dict[str, Any], message: str) -> None:
    warnings: list[str] = []
    validate_job(make_job_values(**more), make_cluster(), on_warning=lambda problem: warnings.append(str(problem)))
    assert warnings == [message]


@pytest.mark.parametrize("more", [{"image": f"i@sha256:{'0' * 64}"}, {"env": {"BYPASS_CACHE": "on", "NUM_PASSES": "3"}}])
def test_a_pinned_image_and_harmless_names_get_no_warning(more: dict[str, Any]) -> None:
    warnings: list[str] = []
    validate_job(make_job_values(**more), make_cluster(), on_warning=lambda problem: warnings.append(str(problem)))
    assert warnings == []


def test_quantity_with_an_exponent_is_valid() -> None:
    assert check_job(make_job(resources={"memory": "12e6"}), make_cluster()) == []


def test_problems_in_a_stack_file_are_reported_at_the_jobs_path() -> None:
    (problem,) = check_job(make_job().model_copy(update={"pool": "zz"}), make_cluster(), "jobs[1]")
    assert problem.path == "jobs[1].pool"


def test_a_job_that_fits_exactly_is_not_refused() -> None:
    for more in ({"workers": 8, "gpusPerWorker": 1}, {"name": "a" * 54}, {"ranks": 8, "perNode": 4}):
        assert check_job(make_job(**more), make_cluster()) == []


def test_cpu_request_factor_lets_a_whole_node_job_fit() -> None:
    assert check_job(make_job(), make_cluster(cpu_request_factor=0.01)) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name: [", "job.yaml: is not YAML: expected the node content, but found '<stream end>', line 1, column 8"),
        ("just words", "job.yaml: is not a job: it has no keys like name, pool and command"),
        ("", "job.yaml: is not a job: it has no keys like name, pool and command"),
    ],
)
def test_file_that_is_not_a_job_is_refused(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(text)
    with pytest.raises(JobRefused, match=r".*") as refused:
        read_job(file, make_cluster())
    assert str(refused.value) == message


def test_duplicate_key_is_a_problem(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text("name: a\npool: small\nworkers: 1\nimage: i:1\ncommand: [x]\nworkers: 2\n")
    with pytest.raises(JobRefused) as refused:
        read_job(file, make_cluster())
    assert str(refused.value) == "workers: is set twice, on lines 3 and 6; keep one"


def test_namespace_option_overrides_the_file_which_overrides_the_default(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    text = "name: a\npool: small\nworkers: 1\nimage: i:1\ncommand: [x]\n"
    file.write_text(text)
    assert read_job(file, make_cluster()).job.namespace is None
    assert read_job(file, make_cluster(), None, "usual").job.namespace == "usual"
    file.write_text(f"{text}namespace: own\n")
    assert read_job(file, make_cluster(), None, "usual").job.namespace == "own"
    assert read_job(file, make_cluster(), "typed", "usual").job.namespace == "typed"
