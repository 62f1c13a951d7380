"""Checks of job images: does each image exist, and can the images of jobs on EFA pools use EFA?"""

import json
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final, Literal

from infra.checks.model import Answer, build_negative_answer, build_unknown_answer
from infra.facts.clients import Clients, is_error, try_query
from infra.facts.model import Facts
from infra.facts.registries import parse_ecr_repository
from infra.facts.registry_api import NotAnswered, read_image_config
from infra.jobs.images import is_short_image_name, strip_tag_and_digest
from infra.plan.image_repositories import find_repository_address
from infra.plan.placement import has_efa
from infra.settings.stack import Settings

EXIST: Final = "images of jobs"
EFA: Final = "EFA support of job images"
OPERATION: Final = "ecr:DescribeImages"
WITH_EFA: Final = ("mpi", "pytorch")
"""Names of images in images/ that are based on AWS's images with EFA; see docs/guides/images.md."""
MARKS: Final = ("/opt/amazon/efa", "/opt/amazon/openmpi", "aws-efa-installer", "aws-ofi-nccl")
"""Paths and names of AWS's EFA software that an image's environment or build steps may contain:
https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-start.html"""

PARALLEL: Final = 8


@dataclass(frozen=True)
class Image:
    """A job's image with its full name."""

    path: str
    """Path of the setting that contains the image."""
    name: str
    architecture: str
    needs_efa: bool


@dataclass(frozen=True)
class Found:
    verdict: Literal["yes", "no", "unknown"]
    reason: str = ""
    efa: bool = False
    """Whether the image contains AWS's EFA software, according to its name or configuration."""


def check_images(settings: Settings, facts: Facts) -> Iterator[Answer]:
    """Query the registries in parallel, and yield the results of the checks. Yield nothing for stacks without jobs."""
    required = list(list_job_images(settings, facts))
    if not required:
        return
    with ThreadPoolExecutor(PARALLEL) as threads:
        by_image = dict(zip(required, threads.map(lambda image: look_up_image(image, settings), required), strict=True))
    yield _check_images_exist(by_image)
    of_efa = {image: outcome for image, outcome in by_image.items() if image.needs_efa and outcome.verdict != "no"}
    if of_efa:
        yield _check_images_have_efa(of_efa)


def list_job_images(settings: Settings, facts: Facts) -> Iterator[Image]:
    """Yield the image of each job, with its full name.

    Skip short image names if the stack has no image repositories: a validation rule reports them.
    """
    repository = find_repository_address(settings, facts)
    pools = {pool.name: pool for pool in settings.pools}
    for index, job in enumerate(settings.jobs):
        pool = pools.get(job.pool)
        instance = facts.instance_types.get(pool.instance_type) if pool else None
        if is_short_image_name(job.image) and repository is None:
            continue
        name = f"{repository}/{job.image}" if is_short_image_name(job.image) else job.image
        efa = pool is not None and instance is not None and has_efa(pool, instance) and job.workers > 1
        yield Image(f"jobs[{index}].image", name, instance.architecture if instance else "x86_64", efa)


def look_up_image(image: Image, settings: Settings) -> Found:
    """Query ECR with the caller's credentials, and other registries anonymously."""
    in_ecr = parse_ecr_repository(strip_tag_and_digest(image.name))
    if in_ecr is not None:
        return _look_up_in_ecr(image, *in_ecr, settings)
    try:
        config = read_image_config(image.name, image.architecture)
    except NotAnswered as error:
        return Found("unknown", str(error))
    return Found("no") if config is None else Found("yes", efa=mentions_efa(config))


def mentions_efa(config: Mapping[str, Any]) -> bool:
    """Return whether an image's environment or build steps mention AWS's EFA software."""
    text = json.dumps([config.get("config"), config.get("history")])
    return any(mark in text for mark in MARKS)


def _look_up_in_ecr(image: Image, account: str, region: str, name: str, settings: Settings) -> Found:
    tag, digest = image.name.rpartition("/")[2].partition("@")[0].partition(":")[2], image.name.partition("@")[2]
    image_id = {"imageDigest": digest} if digest else {"imageTag": tag or "latest"}
    own = settings.platform.image_repositories and name.startswith(f"{settings.cluster_name}/")
    efa = bool(own) and name.rpartition("/")[2] in WITH_EFA

    def describe_image() -> Found:
        ecr = Clients(region).ecr
        try:
            ecr.describe_images(registryId=account, repositoryName=name, imageIds=[image_id])
        except ecr.exceptions.ClientError as error:
            if is_error(error, "ImageNotFoundException"):
                return Found("no")
            if is_error(error, "RepositoryNotFoundException"):
                return Found("unknown", f"the repository {name} does not exist; `pulumi up` creates it") if own else Found("no")
            raise
        return Found("yes", efa=efa)

    outcome, reason = try_query(region, describe_image)
    return outcome or Found("unknown", reason)


def _check_images_exist(by_image: Mapping[Image, Found]) -> Answer:
    missing = [
        f"{image.path}: {image.name} does not exist. Push it, or correct the name."
        for image in _select_by_verdict(by_image, "no")
    ]
    if missing:
        return build_negative_answer(EXIST, *missing)
    lacking = [f"{image.name}: {by_image[image].reason}" for image in _select_by_verdict(by_image, "unknown")]
    return build_unknown_answer(EXIST, *dict.fromkeys(lacking)) if lacking else Answer(EXIST, "yes")


def _check_images_have_efa(by_image: Mapping[Image, Found]) -> Answer:
    """Return yes or unknown, never no.

    An image can contain EFA's libraries without mentioning them in its configuration.
    """
    lacking = [image.name for image, outcome in by_image.items() if not outcome.efa]
    if not lacking:
        return Answer(EFA, "yes")
    why = "neither the name nor the configuration of the image mentions AWS's EFA software; see docs/guides/images.md"
    return build_unknown_answer(EFA, *(f"{name}: {why}" for name in dict.fromkeys(lacking)))


def _select_by_verdict(by_image: Mapping[Image, Found], verdict: str) -> list[Image]:
    return [image for image, outcome in by_image.items() if outcome.verdict == verdict]
