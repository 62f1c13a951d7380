"""What is installed into the cluster, and whether it can be from here."""

import re
from collections.abc import Iterator

from infra.config.messages import all_of, shown
from infra.config.problems import Problem, warning
from infra.facts.manifests import MIRROR_VARIABLE, Manifests
from infra.facts.model import Facts
from infra.naming import MPI_OPERATOR_NAMESPACE, NAMESPACE_LIMIT, PLATFORM_NAMESPACE, QUEUE_NAMESPACE
from infra.settings.stack import Settings
from infra.validation.pool_paths import AnyStack

_DNS_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")
_TAKEN = frozenset({"default", MPI_OPERATOR_NAMESPACE, PLATFORM_NAMESPACE, QUEUE_NAMESPACE})
_REGISTRY = re.compile(r"[a-z0-9][a-z0-9.-]*(:[0-9]+)?(/[a-z0-9][a-z0-9._-]*)*")
"""https://github.com/distribution/reference/blob/main/reference.go"""

LONGEST_IDLE_MINUTES = 24 * 60


def namespaces(settings: AnyStack) -> Iterator[Problem]:
    names = settings.platform.namespaces
    if not names:
        yield Problem("platform.namespaces", "is empty; name at least one, or remove the key")
    for index, name in enumerate(names):
        where = f"platform.namespaces[{index}]"
        if not _DNS_LABEL.fullmatch(name):
            yield Problem(where, f"{shown(name)} is not a DNS label; use lower-case letters, digits and inner hyphens")
        elif len(name) > NAMESPACE_LIMIT:
            yield Problem(where, f"{shown(name)} has {len(name)} characters; use at most {NAMESPACE_LIMIT}")
        elif name in _TAKEN or name.startswith("kube-"):
            yield Problem(where, f"{shown(name)} is not for jobs: the cluster's own pods run there; choose another")
        if name in names[:index]:
            yield Problem(where, f"{shown(name)} is listed twice; remove one")


def cpu_requests(settings: AnyStack) -> Iterator[Problem]:
    factor = settings.platform.cpu_request_factor
    if not 0 < factor <= 1:
        yield Problem("platform.cpuRequestFactor", f"must be greater than 0 and at most 1 (got {shown(factor)})")


def idle_minutes(settings: Settings) -> Iterator[Problem]:
    platform = settings.platform
    if not 1 <= platform.idle_minutes <= LONGEST_IDLE_MINUTES:
        fix = f"write 1 to {LONGEST_IDLE_MINUTES}"
        yield Problem("platform.idleMinutes", f"{shown(platform.idle_minutes)} is not possible; {fix}")


def image_registry(settings: AnyStack) -> Iterator[Problem]:
    registry = settings.platform.image_registry
    if registry is not None and not _REGISTRY.fullmatch(registry):
        fix = "write host and path without a scheme, like mirror.example.com/all"
        yield Problem("platform.imageRegistry", f"{shown(registry)} is not the beginning of an image's name; {fix}")


def manifest_mirror(settings: AnyStack) -> Iterator[Problem]:
    mirror = settings.platform.manifest_mirror
    if mirror is not None and not mirror.startswith(("/", "~/", "https://")):
        fix = "write an absolute path, or an address that begins with https://"
        yield Problem("platform.manifestMirror", f"{shown(mirror)} depends on where `pulumi` runs; {fix}")


def will_be_installed(settings: Settings) -> Iterator[Problem]:
    """The default is decided by the endpoint, which a user who only wants jobs does not expect."""
    if settings.platform.install is None and not settings.installs_platform:
        reason = "the Kubernetes API has no public endpoint, so `pulumi up` does not install the platform and jobs cannot run"
        fix = (
            "list your address in target.endpointAccess.publicCidrs, write true and run `pulumi up` inside the network, "
            "or write false"
        )
        yield warning("platform.install", f"is missing: {reason}; {fix}")


def reachable(settings: Settings, facts: Facts) -> Iterator[Problem]:
    """Nobody is inside a VPC that is yet to be made. In one that exists, `pulumi up` looks when the cluster is there."""
    if settings.eks.endpoint_access.is_public:
        return
    asked, cluster, where = settings.platform.install, facts.existing, "platform.install"
    if asked and cluster.cluster_version is None and not settings.network.is_existing:
        reason = "without target.endpointAccess.publicCidrs the Kubernetes API is reached from inside the VPC only"
        fix = "write false, and true when `pulumi up` runs inside"
        yield Problem(where, f"is true, but {reason}, which is yet to be made; {fix}")
    if asked is None and cluster.has_public_endpoint:
        reason = "without the public endpoint its default is false, which removes the platform and all jobs"
        yield Problem(where, f"is missing: {reason}; write true and run `pulumi up` from inside the network, or write false")


def manifests(settings: Settings, facts: Facts) -> Iterator[Problem]:
    yield from missing_manifests(facts.manifests)


def missing_manifests(manifests: Manifests) -> Iterator[Problem]:
    """One sentence for each upstream: what is wrong with one of its files is wrong with all."""
    by_upstream: dict[str, list[str]] = {}
    for path, reason in sorted(manifests.missing.items()):
        by_upstream.setdefault("/".join(path.split("/")[:2]), []).append(reason)
    if by_upstream:
        reason = next(iter(by_upstream.values()))[0]
        fix = f"name a folder or address that has it, here or in {MIRROR_VARIABLE}"
        yield Problem("platform.manifestMirror", f"{all_of(by_upstream)}: {reason}; {fix}")
