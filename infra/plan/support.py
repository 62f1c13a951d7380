"""Upgrade policy of a control plane, which takes effect when standard support for its Kubernetes version ends. Pure."""

from typing import Literal

from infra.facts.model import Facts
from infra.settings.stack import Settings

SupportType = Literal["STANDARD", "EXTENDED"]


def support_type(settings: Settings, facts: Facts) -> SupportType:
    """Return the upgrade policy. New clusters get STANDARD: they must not enter extended support unnoticed, because
    extended support costs six times as much. An existing cluster keeps its policy. EKS accepts STANDARD only for
    versions in standard support.

    https://docs.aws.amazon.com/eks/latest/userguide/view-upgrade-policy.html
    """
    existing = facts.existing.support_type
    if existing is not None:
        return existing
    return "EXTENDED" if settings.eks.kubernetes_version in facts.extended_support else "STANDARD"
