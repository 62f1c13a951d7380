"""EKS add-ons of a stack and their versions."""

from infra.facts.model import Facts
from infra.naming import ADDONS, EFS_CSI_DRIVER, FSX_CSI_DRIVER, KUBE_PROXY
from infra.facts import Facts
from infra.naming import ADDONS, KUBE_PROXY, STORAGE_KINDS
from infra.settings.stack import Settings


def list_addons(settings: Settings) -> tuple[str, ...]:
    """Return the names of the add-ons that the stack needs."""
    unused = {kind.driver for kind in STORAGE_KINDS} - {each.kind.driver for each in settings.storage.file_systems}
    return tuple(name for name in ADDONS if name not in unused)


def choose_versions(settings: Settings, facts: Facts) -> dict[str, str | None]:
    """Return add-on -> version: from the settings, else the installed version, else AWS's default.

    An add-on moves to the default if AWS does not offer its installed version for the stack's Kubernetes version. None: AWS
    installs its default, and an existing add-on keeps its version.
    """
    return {name: settings.eks.addon_versions.get(name) or _choose(settings, facts, name) for name in list_addons(settings)}


def _choose(settings: Settings, facts: Facts, name: str) -> str | None:
    installed, versions = facts.existing.addon_versions.get(name), facts.addon_versions.get(name)
    if versions is None:
        return installed
    # kube-proxy must have the minor version of the control plane, although EKS also offers older ones:
    # https://docs.aws.amazon.com/eks/latest/userguide/managing-kube-proxy.html
    is_older = name == KUBE_PROXY and not (installed or "").startswith(f"v{settings.eks.kubernetes_version}.")
    return installed if installed in versions.offered and not is_older else versions.default
