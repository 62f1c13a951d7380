"""Every workload in `workloads/` can be submitted: it has a valid job, an image with its program, and a README."""

import re
import shlex
from pathlib import Path

import pytest

from infra.jobs.images import repository_of
from infra.jobs.reading import read_job
from infra.jobs.render import render
from infra.plan.image_repositories import PROJECT_IMAGES
from localcloud.images.catalogue import WORKLOAD_IMAGES, find
from localcloud.images.recipes import Source
from tests.docs.tables import ROOT
from tests.pure.job_world import KEYS, cluster

WORKLOADS = sorted(path for path in (ROOT / "workloads").iterdir() if path.is_dir() and not path.name.startswith("_"))
PAGE = (ROOT / "docs" / "guides" / "jobs.md").read_text()


@pytest.mark.parametrize("folder", WORKLOADS, ids=lambda folder: folder.name)
def test_a_workload_is_a_valid_job_whose_image_has_its_program(folder: Path) -> None:
    placed = read_job(folder / "job.yaml", cluster())
    job = placed.job
    assert job.name == folder.name
    assert render(placed, lambda: KEYS)
    image = find(job.image)
    assert image in WORKLOAD_IMAGES and repository_of(job.image) in PROJECT_IMAGES
    inside = {f"/{path}" for layer in image.layers if isinstance(layer, Source) for path, _ in layer.files()}
    named = re.findall(r"/workloads/[\w./-]+\w", shlex.join([*(job.setup or ()), *job.command]))
    assert named and set(named) <= inside


@pytest.mark.parametrize("folder", WORKLOADS, ids=lambda folder: folder.name)
def test_a_workload_says_how_it_is_submitted_and_the_page_of_jobs_names_it(folder: Path) -> None:
    submitted = f"scripts/cluster submit workloads/{folder.name}/job.yaml --follow"
    assert submitted in (folder / "README.md").read_text()
    assert submitted in (folder / "job.yaml").read_text()
    assert f"(../../workloads/{folder.name}/README.md)" in PAGE
