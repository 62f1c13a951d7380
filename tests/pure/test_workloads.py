"""Every workload in `workloads/` can be submitted: it has a valid job, an image with its program, and a README."""

import re
import shlex
from pathlib import Path

import pytest

from infra.jobs.images import strip_tag_and_digest
from infra.jobs.reading import read_job
from infra.jobs.render import render_job
from infra.plan.image_repositories import PROJECT_IMAGES
from localcloud.images.catalogue import WORKLOAD_IMAGES, find_image
from localcloud.images.recipes import Source
from tests.docs.tables import ROOT
from tests.pure.job_world import KEYS, make_cluster

WORKLOADS = sorted(path for path in (ROOT / "workloads").iterdir() if path.is_dir() and not path.name.startswith("_"))
PAGE = (ROOT / "docs" / "guides" / "jobs.md").read_text()


@pytest.mark.parametrize("folder", WORKLOADS, ids=lambda folder: folder.name)
def test_workload_is_a_valid_job_and_its_image_contains_its_program(folder: Path) -> None:
    placed = read_job(folder / "job.yaml", make_cluster())
    job = placed.job
    assert job.name == folder.name
    assert render_job(placed, lambda: KEYS)
    image = find_image(job.image)
    assert image in WORKLOAD_IMAGES and strip_tag_and_digest(job.image) in PROJECT_IMAGES
    inside = {f"/{path}" for layer in image.layers if isinstance(layer, Source) for path, _ in layer.files()}
    named = re.findall(r"/workloads/[\w./-]+\w", shlex.join([*(job.setup or ()), *job.command]))
    assert named and set(named) <= inside


@pytest.mark.parametrize("folder", WORKLOADS, ids=lambda folder: folder.name)
def test_workload_documents_its_submit_command_and_is_listed_on_the_jobs_page(folder: Path) -> None:
    submitted = f"scripts/cluster submit workloads/{folder.name}/job.yaml --follow"
    assert submitted in (folder / "README.md").read_text()
    assert submitted in (folder / "job.yaml").read_text()
    assert f"(../../workloads/{folder.name}/README.md)" in PAGE
