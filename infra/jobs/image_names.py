"""Names of container images. A short name has no registry; it refers to the cluster's image repository.

Container runtimes would pull short names from Docker Hub, where the name may belong to someone else.
"""

import re
from typing import Final

_REPOSITORY: Final = re.compile(r"[a-z0-9]+([._-][a-z0-9]+)*(/[a-z0-9]+([._-][a-z0-9]+)*)*")
"""https://docs.aws.amazon.com/AmazonECR/latest/APIReference/API_CreateRepository.html"""


def is_short(image: str) -> bool:
    """Return whether an image name has no registry.

    >>> is_short("openmpi:5"), is_short("team/train:1"), is_short("localhost/train:1"), is_short("nvcr.io/a/b:1")
    (True, True, False, False)

    https://github.com/distribution/reference/blob/v0.6.0/normalize.go (splitDockerDomain)
    """
    first, slash, _ = image.partition("/")
    return not slash or not ("." in first or ":" in first or first == "localhost")


def repository_of(image: str) -> str:
    """Return an image name without its tag and digest.

    >>> repository_of("team/train:1"), repository_of("localhost:5000/train"), repository_of("train@sha256:0")
    ('team/train', 'localhost:5000/train', 'train')
    """
    name = image.partition("@")[0]
    folder, slash, last = name.rpartition("/")
    return f"{folder}{slash}{last.partition(':')[0]}"


def is_repository_name(name: str) -> bool:
    """Return whether ECR accepts this name for a repository."""
    return _REPOSITORY.fullmatch(name) is not None
