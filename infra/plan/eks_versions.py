"""EKS add-ons of a stack and their versions, and the upgrade policy of its Kubernetes version. Performs no I/O."""

from typing import Literal

from infra.facts.model import Facts
from infra.naming import ADDONS, KUBE_PROXY, STORAGE_KINDS
from infra.settings.stack import Settings

SupportType = Literal["STANDARD", "EXTENDED"]


def list_addons(settings: Settings) -> tuple[str, ...]:
    """Return the names of the add-ons that the stack needs."""
    unused = {kind.driver for kind in STORAGE_KINDS} - {each.kind.driver for each in settings.storage.file_systems}
    return tuple(name for name in ADDONS if name not in unused)


def choose_versions(settings: Settings, facts: Facts) -> dict[str, str | None]:
    """Return a mapping from add-on to version: from the settings, or else the installed version, or else AWS's default.

    An add-on changes to the default if AWS does not offer its installed version for the stack's Kubernetes version. None: AWS
    installs its default, and an existing add-on keeps its version.
    """
    return {
        name: settings.eks.addon_versions.get(name) or _choose_addon_version(settings, facts, name)
        for name in list_addons(settings)
    }


def _choose_addon_version(settings: Settings, facts: Facts, name: str) -> str | None:
    installed, versions = facts.existing.addon_versions.get(name), facts.addon_versions.get(name)
    if versions is None:
        return installed
    # kube-proxy must have the minor version of the control plane, although EKS also offers older ones:
    # https://docs.aws.amazon.com/eks/latest/userguide/managing-kube-proxy.html
    is_older = name == KUBE_PROXY and not (installed or "").startswith(f"v{settings.eks.kubernetes_version}.")
    return installed if installed in versions.offered and not is_older else versions.default


def choose_support_type(settings: Settings, facts: Facts) -> SupportType:
    """Return the upgrade policy, which takes effect when standard support for the Kubernetes version ends.

    New clusters get STANDARD: they must not enter extended support unnoticed, because the control plane costs six
    times as much in extended support. An existing cluster keeps its policy. EKS accepts STANDARD only for versions in
    standard support.

    https://docs.aws.amazon.com/eks/latest/userguide/view-upgrade-policy.html
    """
    existing = facts.existing.support_type
    if existing is not None:
        return existing
    return "EXTENDED" if settings.eks.kubernetes_version in facts.extended_support else "STANDARD"
