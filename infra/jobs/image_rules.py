"""Rules for a job's image: its name, its registry, and the Secrets that nodes use to pull it."""

import re
from collections.abc import Iterator, Sequence

from infra.config.messages import shown
from infra.config.problems import Problem, warning
from infra.jobs.cluster import ClusterDescription
from infra.jobs.image_names import is_repository_name, is_short, repository_of
from infra.jobs.model import Job

_SECRET_NAME = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*")
SECRET_NAME_LIMIT = 253
"""https://kubernetes.io/docs/concepts/overview/working-with-objects/names/#dns-subdomain-names"""
_IMAGE = re.compile(r"[a-z0-9]([\w.:/-]*[\w])?(@sha256:[0-9a-f]{64})?", re.ASCII)


def name(job: Job) -> Iterator[Problem]:
    if not job.image:
        yield Problem("image", "is empty. Use an image such as registry.example.com/train:1.")
    elif "://" in job.image:
        yield Problem("image", f"{shown(job.image)} is a URL. Remove {job.image.partition('://')[0]}:// from it.")
    elif not _IMAGE.fullmatch(job.image):
        yield Problem("image", f"{shown(job.image)} is not an image name. Use one such as registry.example.com/train:1.")
    elif is_short(job.image) and not is_repository_name(repository_of(job.image)):
        fix = "Use lowercase letters and digits, separated by single . _ or -, such as train:1."
        yield Problem("image", f"{shown(job.image)} is not a valid short image name. {fix}")
    elif "@" not in job.image and ":" not in job.image.rpartition("/")[2]:
        fix = f"Add one, such as {job.image}:1."
        yield warning("image", f"{shown(job.image)} has no tag or digest, so a retry may run another image. {fix}")


def pull_secrets(job: Job) -> Iterator[Problem]:
    yield from secret_names("imagePullSecrets", job.image_pull_secrets or ())


def is_secret_name(name: str) -> bool:
    return len(name) <= SECRET_NAME_LIMIT and _SECRET_NAME.fullmatch(name) is not None


def secret_names(path: str, names: Sequence[str]) -> Iterator[Problem]:
    for index, one in enumerate(names):
        if not is_secret_name(one):
            fix = "Use the name shown by `kubectl get secrets`, such as registry-login."
            yield Problem(f"{path}[{index}]", f"{shown(one)} is not a valid Secret name. {fix}")
        elif one in names[:index]:
            yield Problem(f"{path}[{index}]", f"{shown(one)} is listed twice. Remove one.")


def repository(job: Job, cluster: ClusterDescription) -> Iterator[Problem]:
    """Reject short names without a repository: nodes would pull them from Docker Hub, where the name may belong to
    someone else.
    """
    if is_short(job.image) and is_repository_name(repository_of(job.image)) and not cluster.image_repository:
        fix = (
            "Write the full name, such as docker.io/library/ubuntu:24.04, or set platform.imageRepositories (target eks) "
            "or platform.imageRepository and run `pulumi up`."
        )
        yield Problem("image", f"{shown(job.image)} has no registry, and {cluster.cluster} has no image repository. {fix}")
