"""Rules for the cluster's version, add-ons and logs."""

import re
from collections.abc import Collection, Iterator
from datetime import date

from infra.config.messages import format_value, join_with_and, join_with_or, suggest_correction
from infra.config.problems import Problem, create_warning
from infra.facts.eks import parse_minor_version
from infra.facts.model import Facts
from infra.facts.queries import Query
from infra.naming import ADDONS
from infra.plan.eks_versions import choose_versions
from infra.settings.stack import Settings
from infra.validation.registry import EKS, Topic, register_rule
from infra.versions import (
    KUBERNETES_VERSIONS,
    LIVE_KUBERNETES_VERSIONS,
    STANDARD_SUPPORT_ENDS,
    is_near_end_of_support,
)

_VERSION = re.compile(r"1\.[0-9]{1,3}")
_WHERE = "target.kubernetesVersion"

# https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_PutRetentionPolicy.html
RETENTION_DAYS = (
    *(1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731),
    *(1096, 1827, 2192, 2557, 2922, 3288, 3653),
)


@register_rule(target=EKS)
def check_version(settings: Settings) -> Iterator[Problem]:
    version = settings.eks.kubernetes_version
    if not _VERSION.fullmatch(version):
        example = format_value(KUBERNETES_VERSIONS[-2])
        yield Problem(
            _WHERE, f"{format_value(version)} is not an EKS version. Use the major and minor version, such as {example}."
        )
    elif version not in LIVE_KUBERNETES_VERSIONS:
        fix = f"Choose from {join_with_and(KUBERNETES_VERSIONS)}."
        yield Problem(_WHERE, f"{format_value(version)} is not a version that this program was tested with. {fix}")


@register_rule(target=EKS)
def check_standard_support(settings: Settings, today: date) -> Iterator[Problem]:
    """Warn about a version whose standard support has ended or ends soon."""
    version = settings.eks.kubernetes_version
    if not is_near_end_of_support(version, today):
        return
    end, newer = STANDARD_SUPPORT_ENDS[version], f'Set "1.{parse_minor_version(version) + 1}"'
    if end and today > end:
        yield create_warning(
            _WHERE, f"{_describe_ended_support(version)}, and AWS bills the cluster for extended support. {newer} to upgrade."
        )
    else:
        effect = (
            "After that date, AWS upgrades the control plane or bills extended support, depending on the cluster's upgrade policy"
        )
        yield create_warning(_WHERE, f"EKS's standard support for {version} ends on {end}. {effect}. {newer}.")


def _describe_ended_support(version: str) -> str:
    end = STANDARD_SUPPORT_ENDS.get(version)
    return f"EKS's standard support for {version} {f'ended on {end}' if end else 'has ended'}"


@register_rule(Topic.VERSIONS, target=EKS, reads=(Query.KUBERNETES_VERSIONS, Query.EKS_CLUSTER))
def check_version_is_offered(settings: Settings, facts: Facts) -> Iterator[Problem]:
    version, now = settings.eks.kubernetes_version, facts.existing.cluster_version
    if not _VERSION.fullmatch(version):
        return
    if now is None and version in _list_extended_support_versions(facts):
        # The cluster would soon need an upgrade.
        fix = f"Set {join_with_or(KUBERNETES_VERSIONS)}."
        yield Problem(_WHERE, f"{format_value(version)} is only for running clusters: {_describe_ended_support(version)}. {fix}")
        return
    if version == now:
        return
    if facts.kubernetes_versions and version not in facts.kubernetes_versions:
        choice = [offered for offered in facts.kubernetes_versions if offered in KUBERNETES_VERSIONS]
        yield Problem(_WHERE, f"EKS does not offer {format_value(version)} in {facts.region}. Choose {join_with_or(choice)}.")
    if now is not None and parse_minor_version(version) < parse_minor_version(now):
        yield Problem(_WHERE, _describe_older_version(version, now))
    if now is not None and parse_minor_version(version) > parse_minor_version(now) + 1:
        fix = f'Set "1.{parse_minor_version(now) + 1}", run `pulumi up`, and continue from there.'
        yield Problem(_WHERE, f"{format_value(version)} skips a minor version: the cluster has {now}. {fix}")


def _list_extended_support_versions(facts: Facts) -> Collection[str]:
    """Return the versions in extended support, as reported by EKS or, if that could not be read, by date."""
    if facts.kubernetes_versions or facts.today is None:
        return facts.extended_support
    return [version for version, end in STANDARD_SUPPORT_ENDS.items() if end and facts.today > end]


def _describe_older_version(version: str, now: str) -> str:
    """https://docs.aws.amazon.com/eks/latest/userguide/rollback-cluster.html, read 2026-11-28"""
    older = f"{format_value(version)} is older than the version of the cluster"
    if parse_minor_version(version) < parse_minor_version(now) - 1:
        return f'{older}, and EKS rolls back at most one minor version. Use "{now}".'
    rollback = (
        "EKS rolls back only within 7 days of an upgrade, and `pulumi up` does not roll back, because node groups "
        "must be rolled back first"
    )
    return f'{older}. {rollback}. Use "{now}", or roll back with the AWS CLI (docs/guides/upgrade.md).'


@register_rule(target=EKS)
def check_addons(settings: Settings) -> Iterator[Problem]:
    for name in settings.eks.addon_versions:
        if name not in ADDONS:
            hint = suggest_correction(name, ADDONS) or f". Choose from {join_with_and(sorted(ADDONS))}."
            yield Problem(f"target.addonVersions.{name}", f"is not an add-on that this program installs{hint}")


@register_rule(Topic.VERSIONS, target=EKS, reads=(Query.ADDON_VERSIONS,))
def check_addons_are_offered(settings: Settings, facts: Facts) -> Iterator[Problem]:
    if not facts.addon_versions:
        return
    kubernetes_version = settings.eks.kubernetes_version
    for name, version in choose_versions(settings, facts).items():
        where, versions = f"target.addonVersions.{name}", facts.addon_versions.get(name)
        if versions is None:
            fix = "Choose another target.kubernetesVersion."
            yield Problem(where, f"EKS offers no {name} for Kubernetes {kubernetes_version} in {facts.region}. {fix}")
        elif version is not None and version not in versions.offered:
            fix = f"Use AWS's default, {versions.default}." if versions.default else "Remove it."
            yield Problem(where, f"{format_value(version)} is not offered for Kubernetes {kubernetes_version}. {fix}")


@register_rule(target=EKS)
def check_eks_log_retention(settings: Settings) -> Iterator[Problem]:
    yield from check_retention_days(settings.eks.log_retention_days)


def check_retention_days(days: int) -> Iterator[Problem]:
    """Check that CloudWatch Logs supports the retention period."""
    if days not in RETENTION_DAYS:
        nearest = sorted(sorted(RETENTION_DAYS, key=lambda period: abs(period - days))[:2])
        fix = f"Use {nearest[0]} or {nearest[1]}."
        yield Problem("target.logRetentionDays", f"{days} is not a valid CloudWatch Logs retention period. {fix}")
