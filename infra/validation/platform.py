"""Rules for the platform: what to install into the cluster, and whether this machine can install it."""

import re
from collections.abc import Iterator
from urllib.parse import urlsplit

from infra.config.messages import format_value, join_with_and
from infra.config.problems import Problem, create_warning
from infra.facts.existing_cluster import ClusterFacts
from infra.facts.manifests import MIRROR_VARIABLE
from infra.facts.model import Facts
from infra.facts.queries import Query
from infra.jobs.images import check_secret_names, is_short_image_name, is_valid_repository_name, is_valid_secret_name
from infra.naming import (
    JOBSET_NAMESPACE,
    MONITORING_NAMESPACE,
    MPI_OPERATOR_NAMESPACE,
    NAMESPACE_LIMIT,
    PLATFORM_NAMESPACE,
    QUEUE_NAMESPACE,
    TRAINER_NAMESPACE,
)
from infra.settings.stack import Settings
from infra.validation.registry import EKS, KUBERNETES, AnyStack, Topic, register_rule

_DNS_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")
_RESERVED_NAMESPACES = frozenset(
    {
        *("default", JOBSET_NAMESPACE, MONITORING_NAMESPACE, MPI_OPERATOR_NAMESPACE, PLATFORM_NAMESPACE, QUEUE_NAMESPACE),
        TRAINER_NAMESPACE,
    }
)
_REGISTRY = re.compile(r"[a-z0-9][a-z0-9.-]*(:[0-9]+)?(/[a-z0-9][a-z0-9._-]*)*")
"""https://github.com/distribution/reference/blob/main/reference.go"""

_BUCKET = re.compile(r"(?=.{3,63}$)[a-z0-9]([a-z0-9.-]*[a-z0-9])?")
"""https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html"""

LONGEST_IDLE_MINUTES = 24 * 60


@register_rule(target=KUBERNETES)
def check_namespaces(settings: AnyStack) -> Iterator[Problem]:
    names = settings.platform.namespace_names
    if not names:
        yield Problem("platform.namespaces", "is empty. List at least one namespace, or remove the key.")
    for index, name in enumerate(names):
        where = f"platform.namespaces[{index}]"
        if not _DNS_LABEL.fullmatch(name):
            yield Problem(where, f"{format_value(name)} is not a DNS label. Use lowercase letters, digits and inner hyphens.")
        elif len(name) > NAMESPACE_LIMIT:
            yield Problem(where, f"{format_value(name)} has {len(name)} characters. Use at most {NAMESPACE_LIMIT}.")
        elif name in _RESERVED_NAMESPACES or name.startswith("kube-"):
            yield Problem(where, f"{format_value(name)} is reserved: the cluster's own pods run there. Choose another.")
        if name in names[:index]:
            yield Problem(where, f"{format_value(name)} is listed twice. Remove one.")


@register_rule(target=KUBERNETES)
def check_cpu_request_factor(settings: AnyStack) -> Iterator[Problem]:
    factor = settings.platform.cpu_request_factor
    if not 0 < factor <= 1:
        yield Problem("platform.cpuRequestFactor", f"must be greater than 0 and at most 1 (got {format_value(factor)})")


@register_rule(target=EKS)
def check_idle_minutes(settings: Settings) -> Iterator[Problem]:
    platform = settings.platform
    if not 1 <= platform.idle_minutes <= LONGEST_IDLE_MINUTES:
        fix = f"Use 1 to {LONGEST_IDLE_MINUTES}."
        yield Problem("platform.idleMinutes", f"{format_value(platform.idle_minutes)} is out of range. {fix}")


@register_rule(target=KUBERNETES)
def check_image_registry(settings: AnyStack) -> Iterator[Problem]:
    registry = settings.platform.image_registry
    if registry is not None and not _REGISTRY.fullmatch(registry):
        fix = "Use a host and path without a scheme, such as mirror.example.com/all."
        yield Problem("platform.imageRegistry", f"{format_value(registry)} is not a valid prefix of image names. {fix}")


@register_rule(target=KUBERNETES)
def check_image_repository(settings: AnyStack) -> Iterator[Problem]:
    repository = settings.platform.image_repository
    if repository is not None and (not _REGISTRY.fullmatch(repository) or is_short_image_name(f"{repository}/image")):
        fix = "Use the registry's host and a path, without a scheme, such as registry.example.com/team."
        yield Problem("platform.imageRepository", f"{format_value(repository)} is not a repository. {fix}")


@register_rule(target=EKS)
def check_image_repositories(settings: Settings) -> Iterator[Problem]:
    platform, where = settings.platform, "platform.imageRepositories"
    if not platform.image_repositories:
        return
    if platform.image_repository is not None:
        already = f"platform.imageRepository is {format_value(platform.image_repository)}"
        yield Problem(where, f"is true, but {already}: short image names can refer to only one of them. Remove one.")
    if not is_valid_repository_name(settings.cluster_name):
        fix = "Name the stack file without double hyphens, or use platform.imageRepository."
        yield Problem(where, f"ECR rejects the repository prefix {format_value(settings.cluster_name)}. {fix}")


@register_rule(target=KUBERNETES)
def check_image_pull_secrets(settings: AnyStack) -> Iterator[Problem]:
    yield from check_secret_names("platform.imagePullSecrets", settings.platform.image_pull_secrets)


@register_rule(target=KUBERNETES)
def check_monitoring(settings: AnyStack) -> Iterator[Problem]:
    platform = settings.platform
    receiver, token, webhook = platform.remote_write, platform.remote_write_login, platform.alert_receiver
    if receiver is not None:
        yield from _check_alert_receiver(receiver)
    for name, secret in (("remoteWriteLogin", token), ("alertReceiver", webhook)):
        if secret is not None and not is_valid_secret_name(secret):
            fix = "Use the name shown by `kubectl get secrets`, such as metrics-receiver."
            yield Problem(f"platform.{name}", f"{format_value(secret)} is not a valid Secret name. {fix}")
    if token is not None and receiver is None:
        yield Problem(
            "platform.remoteWriteLogin",
            "has no effect without platform.remoteWrite. Set platform.remoteWrite, or remove the key.",
        )
    for name, value in (("remoteWrite", receiver), ("alertReceiver", webhook)):
        if value is not None and not platform.monitoring:
            yield Problem(
                f"platform.{name}",
                "has no effect without platform.monitoring. Set platform.monitoring to true, or remove the key.",
            )


def _check_alert_receiver(text: str) -> Iterator[Problem]:
    where, fix = "platform.remoteWrite", "Use one such as https://metrics.example.com/api/v1/push."
    try:
        url = urlsplit(text)
        is_valid = url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0
    except ValueError:
        url, is_valid = urlsplit(""), False
    if not is_valid or re.search(r"\s", text):
        yield Problem(where, f"{format_value(text)} is not an http or https URL. {fix}")
    elif url.username or url.password:
        yield Problem(where, "contains a user or password, which the stack file would show. Use platform.remoteWriteLogin.")


@register_rule(target=EKS)
def check_job_policies(settings: Settings) -> Iterator[Problem]:
    index_of: dict[tuple[str, str, str | None], int] = {}
    for index, policy in enumerate(settings.platform.job_policies):
        where = f"platform.jobPolicies[{index}]"
        if not _BUCKET.fullmatch(policy.bucket):
            fix = "Use only the name, without s3:// or a path."
            yield Problem(f"{where}.bucket", f"{format_value(policy.bucket)} is not the name of a bucket. {fix}")
        if re.search(r"[*?$]", policy.path):
            yield Problem(
                f"{where}.path", f"{format_value(policy.path)} has a wildcard or variable. Use the path of a folder or object."
            )
        if policy.namespace is not None and policy.namespace not in settings.platform.namespace_names:
            yield Problem(f"{where}.namespace", f"{format_value(policy.namespace)} is not in platform.namespaces. Add it there.")
        key = (policy.bucket, policy.path.strip("/"), policy.namespace)
        if key in index_of:
            yield Problem(where, f"repeats platform.jobPolicies[{index_of[key]}]. Remove one.")
        index_of.setdefault(key, index)


@register_rule(target=KUBERNETES)
def check_manifest_mirror(settings: AnyStack) -> Iterator[Problem]:
    mirror = settings.platform.manifest_mirror
    if mirror is not None and not mirror.startswith(("/", "~/", "https://")):
        fix = "Use an absolute path or an https:// URL."
        yield Problem("platform.manifestMirror", f"{format_value(mirror)} depends on the working directory of `pulumi`. {fix}")


@register_rule(target=EKS)
def check_platform_is_installed(settings: Settings) -> Iterator[Problem]:
    """Warn if `pulumi up` skips the platform by default, because users who only want to run jobs do not expect that."""
    if settings.platform.install is None and not settings.installs_platform:
        reason = "the Kubernetes API has no public endpoint, so `pulumi up` does not install the platform and jobs cannot run"
        fix = (
            "List your address in target.endpointAccess.publicCidrs; or set true, list a network in privateCidrs and run "
            "`pulumi up` there; or set false."
        )
        yield create_warning("platform.install", f"is not set: {reason}. {fix}")


@register_rule(Topic.MANIFESTS, target=EKS, reads=(Query.EKS_CLUSTER,), applies=lambda settings: settings.installs_platform)
def check_platform_reaches_api(settings: Settings, facts: Facts) -> Iterator[Problem]:
    """Check that this machine can reach a Kubernetes API without a public endpoint.

    This machine cannot be connected to a VPC that does not exist yet. In an existing VPC, `pulumi up` checks the
    connection once the cluster exists.
    """
    has_network = facts.existing.cluster_version is not None or settings.network.is_existing
    if settings.eks.endpoint_access.is_public or has_network:
        return
    reason = "without target.endpointAccess.publicCidrs the Kubernetes API is reachable only over the VPC"
    fix = "Set false now, and true when `pulumi up` runs in a network that is connected to the VPC."
    yield Problem("platform.install", f"is true, but {reason}, which does not exist yet. {fix}")


@register_rule(Topic.CHANGES, target=EKS, reads=(Query.EKS_CLUSTER,))
def check_platform_is_not_removed(settings: Settings, facts: Facts) -> Iterator[Problem]:
    """Check that removing the public endpoint does not remove the platform."""
    is_unset = settings.platform.install is None and not settings.eks.endpoint_access.is_public
    if is_unset and facts.existing.has_public_endpoint:
        reason = "without the public endpoint it defaults to false, which removes the platform and all jobs"
        fix = "Set true and run `pulumi up` in a network of privateCidrs, or set false."
        yield Problem("platform.install", f"is not set: {reason}. {fix}")


@register_rule(Topic.MANIFESTS, target=KUBERNETES, reads=(Query.MANIFESTS,), applies=lambda settings: settings.installs_platform)
def check_manifests(settings: AnyStack, facts: Facts | ClusterFacts) -> Iterator[Problem]:
    """Report all missing manifests as one problem with the first reason, because they usually all fail for the same
    reason."""
    reasons: dict[str, str] = {}
    for path, reason in sorted(facts.manifests.missing.items()):
        reasons.setdefault("/".join(path.split("/")[:2]), reason)
    if reasons:
        fix = f"Set platform.manifestMirror or {MIRROR_VARIABLE} to a directory or URL that contains the manifests."
        yield Problem("platform.manifestMirror", f"{join_with_and(reasons)}: {next(iter(reasons.values()))}. {fix}")
