"""Rules for node labels: Kubernetes' syntax, and reserved keys."""

import re
from collections.abc import Iterator

from infra.config.messages import shown
from infra.config.problems import Problem
from infra.naming import ACCELERATOR_LABEL, EFA_LABEL, EMULATED_LABEL, GPU_LABEL, POOL_LABEL
from infra.settings.stack import Settings
from infra.validation.pool_paths import pools_with_paths

# https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#syntax-and-character-set
_NAME = r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?"
_PREFIX = r"(?=.{1,253}/)[a-z0-9]([a-z0-9.-]*[a-z0-9])?/"
_KEY = re.compile(rf"({_PREFIX})?{_NAME}")
_VALUE = re.compile(rf"({_NAME})?")
# A kubelet may not set labels with Kubernetes' prefixes on its own node, and EKS rejects labels with its own prefix.
_KEPT = re.compile(r"([a-z0-9.-]*\.)?(kubernetes\.io|k8s\.io|eks\.amazonaws\.com)/.*")
_OURS = (POOL_LABEL, GPU_LABEL, EFA_LABEL, ACCELERATOR_LABEL)


def pools(settings: Settings) -> Iterator[Problem]:
    for path, pool in pools_with_paths(settings):
        for key, value in pool.labels.items():
            where = f"{path}.labels.{key}"
            if key in _OURS:
                yield Problem(where, "is set by this program. Choose another key.")
            elif key == EMULATED_LABEL:
                yield Problem(where, "marks nodes with emulated devices, which `smoke` would not check. Remove the label.")
            elif _KEPT.fullmatch(key):
                yield Problem(where, "has a prefix reserved for Kubernetes and EKS. Choose another key.")
            yield from syntax(where, key, value)


def syntax(where: str, key: str, value: str) -> Iterator[Problem]:
    """Check a label's syntax."""
    if not _KEY.fullmatch(key):
        yield Problem(where, "is not a valid label key. Use one such as team or example.com/team.")
    if not _VALUE.fullmatch(value):
        fix = "Use at most 63 letters, digits and inner - _ ."
        yield Problem(where, f"{shown(value)} is not a valid label value. {fix}")
