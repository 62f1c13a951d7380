"""Selects the kubelet of a node: the control plane's version, or an older version for nodes with an older AMI."""

import os
from collections.abc import Mapping
from typing import Final

from localcloud.tools.catalogue import KUBELET, KUBELET_BEFORE, Tool

VARIABLE: Final = "GPUMPI_LOCAL_KUBELETS"
OLDER: Final[Mapping[str, Tool]] = {"1.34": KUBELET_BEFORE}
"""Maps each Kubernetes version of an AMI to the kubelet of this version. Compiling a kubelet takes minutes, so nodes run an older
kubelet only if GPUMPI_LOCAL_KUBELETS lists its version."""


class BadVersion(Exception):
    """The environment variable lists a version for which there is no kubelet. The message lists the supported
    versions."""


def select_kubelet(version: str | None, environment: Mapping[str, str] = os.environ) -> Tool:
    """Return the kubelet for nodes whose AMI has this Kubernetes version (None if the version is unknown)."""
    older_versions = {item.strip() for item in environment.get(VARIABLE, "").split(",")} - {""}
    if unknown := sorted(older_versions - OLDER.keys()):
        raise BadVersion(f"{VARIABLE}: no kubelet of version {', '.join(unknown)}. Possible: {', '.join(OLDER)}")
    return OLDER[version] if version is not None and version in older_versions else KUBELET
