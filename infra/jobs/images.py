"""Names of container images and of the Secrets that pull them.

A short name has no registry; it refers to the cluster's image repository. Container runtimes would pull short names from
Docker Hub, where the name may belong to someone else.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from infra.config.messages import format_value
from infra.config.problems import Problem, create_warning
from infra.jobs.model import Job

_SECRET_NAME = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*")
SECRET_NAME_LIMIT = 253
"""https://kubernetes.io/docs/concepts/overview/working-with-objects/names/#dns-subdomain-names"""
_IMAGE = re.compile(r"[a-z0-9]([\w.:/-]*[\w])?(@sha256:[0-9a-f]{64})?", re.ASCII)
_REPOSITORY: Final = re.compile(r"[a-z0-9]+([._-][a-z0-9]+)*(/[a-z0-9]+([._-][a-z0-9]+)*)*")
"""https://docs.aws.amazon.com/AmazonECR/latest/APIReference/API_CreateRepository.html"""


def is_short_image_name(image: str) -> bool:
    """Return whether an image name has no registry.

    >>> [is_short_image_name(image) for image in ("openmpi:5", "team/train:1", "localhost/train:1", "nvcr.io/a/b:1")]
    [True, True, False, False]

    https://github.com/distribution/reference/blob/v0.6.0/normalize.go (splitDockerDomain)
    """
    first, slash, _ = image.partition("/")
    return not slash or not ("." in first or ":" in first or first == "localhost")


def strip_tag_and_digest(image: str) -> str:
    """Return an image name without its tag and digest.

    >>> strip_tag_and_digest("team/train:1"), strip_tag_and_digest("localhost:5000/train"), strip_tag_and_digest("train@sha256:0")
    ('team/train', 'localhost:5000/train', 'train')
    """
    name = image.partition("@")[0]
    folder, slash, last = name.rpartition("/")
    return f"{folder}{slash}{last.partition(':')[0]}"


def is_valid_repository_name(name: str) -> bool:
    """Return whether ECR accepts this name for a repository."""
    return _REPOSITORY.fullmatch(name) is not None


def check_image_name(job: Job) -> Iterator[Problem]:
    if not job.image:
        yield Problem("image", "is empty. Use an image such as registry.example.com/train:1.")
    elif "://" in job.image:
        yield Problem("image", f"{format_value(job.image)} is a URL. Remove {job.image.partition('://')[0]}:// from it.")
    elif not _IMAGE.fullmatch(job.image):
        yield Problem("image", f"{format_value(job.image)} is not an image name. Use one such as registry.example.com/train:1.")
    elif is_short_image_name(job.image) and not is_valid_repository_name(strip_tag_and_digest(job.image)):
        fix = "Use lowercase letters and digits, separated by single . _ or -, such as train:1."
        yield Problem("image", f"{format_value(job.image)} is not a valid short image name. {fix}")
    elif "@" not in job.image and ":" not in job.image.rpartition("/")[2]:
        fix = f"Add one, such as {job.image}:1."
        yield create_warning("image", f"{format_value(job.image)} has no tag or digest, so a retry may run another image. {fix}")


def is_valid_secret_name(name: str) -> bool:
    return len(name) <= SECRET_NAME_LIMIT and _SECRET_NAME.fullmatch(name) is not None


def check_secret_names(path: str, names: Sequence[str]) -> Iterator[Problem]:
    for index, name in enumerate(names):
        if not is_valid_secret_name(name):
            fix = "Use the name shown by `kubectl get secrets`, such as registry-login."
            yield Problem(f"{path}[{index}]", f"{format_value(name)} is not a valid Secret name. {fix}")
        elif name in names[:index]:
            yield Problem(f"{path}[{index}]", f"{format_value(name)} is listed twice. Remove one.")
