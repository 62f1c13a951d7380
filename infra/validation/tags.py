"""Rules for tags and node labels: limits of AWS and Kubernetes, and keys that this program or controllers set."""

import re
from collections.abc import Iterator

from infra.config.messages import format_value
from infra.config.problems import Problem
from infra.jobs.pod_rules import check_label_syntax
from infra.naming import (
    ACCELERATOR_LABEL,
    BASE_TAGS,
    COST_TAG,
    EFA_LABEL,
    EMULATED_LABEL,
    GPU_LABEL,
    POOL_LABEL,
    POOL_TAG,
    ROLE_TAG,
)
from infra.settings.stack import Settings
from infra.validation.pool_paths import list_pools_with_paths
from infra.validation.registry import EKS, register_rule

# https://docs.aws.amazon.com/tag-editor/latest/userguide/best-practices-and-strats.html
LONGEST_KEY = 128
LONGEST_VALUE = 256
MAXIMUM_TAGS = 20
"""Maximum number of tags in the settings. AWS allows 50 tags per resource, and Auto Scaling groups need the other 30 to
describe nodes to the autoscaler."""
_CHARACTERS = re.compile(r"[\w +\-=.:/@]*")
_CONTROLLERS = re.compile(r"(^|\.)(kubernetes|k8s)\.io/|^eks:")


@register_rule()
def check_cost_center(settings: Settings) -> Iterator[Problem]:
    if settings.cost_center is not None:
        yield from _check_tag_value("costCenter", settings.cost_center)
        if not settings.cost_center.strip():
            yield Problem("costCenter", "is empty. Set a value, or remove the key.")


@register_rule()
def check_tags(settings: Settings) -> Iterator[Problem]:
    if len(settings.tags) > MAXIMUM_TAGS:
        yield Problem("tags", f"has {len(settings.tags)} tags. Use at most {MAXIMUM_TAGS}.")
    for key, value in settings.tags.items():
        where = f"tags.{key}"
        if key.lower().startswith("aws:"):
            yield Problem(where, 'begins with "aws:", which AWS reserves. Choose another key.')
        elif key == COST_TAG:
            yield Problem(where, "is set from costCenter. Set costCenter instead.")
        elif key in (*BASE_TAGS, POOL_TAG, ROLE_TAG, "Name"):
            yield Problem(where, "is set by this program. Choose another key.")
        elif _CONTROLLERS.search(key):
            yield Problem(where, "is a key that Kubernetes controllers act on. Choose another.")
        elif not key or len(key) > LONGEST_KEY or not _CHARACTERS.fullmatch(key):
            yield Problem(where, f"is not a valid tag key. Use 1 to {LONGEST_KEY} letters, digits, spaces and + - = . _ : / @")
        yield from _check_tag_value(where, value)


def _check_tag_value(where: str, value: str) -> Iterator[Problem]:
    if len(value) > LONGEST_VALUE or not _CHARACTERS.fullmatch(value):
        fix = f"Use at most {LONGEST_VALUE} letters, digits, spaces and + - = . _ : / @"
        yield Problem(where, f"{format_value(value)} is not a valid tag value. {fix}")


# A kubelet may not set labels with Kubernetes' prefixes on its own node, and EKS rejects labels with its own prefix.
_RESERVED = re.compile(r"([a-z0-9.-]*\.)?(kubernetes\.io|k8s\.io|eks\.amazonaws\.com)/.*")
_PROGRAM_LABELS = (POOL_LABEL, GPU_LABEL, EFA_LABEL, ACCELERATOR_LABEL)


@register_rule(target=EKS)
def check_labels(settings: Settings) -> Iterator[Problem]:
    for path, pool in list_pools_with_paths(settings):
        for key, value in pool.labels.items():
            where = f"{path}.labels.{key}"
            if key in _PROGRAM_LABELS:
                yield Problem(where, "is set by this program. Choose another key.")
            elif key == EMULATED_LABEL:
                yield Problem(where, "marks nodes with emulated devices, which `smoke` would not check. Remove the label.")
            elif _RESERVED.fullmatch(key):
                yield Problem(where, "has a prefix reserved for Kubernetes and EKS. Choose another key.")
            yield from check_label_syntax(where, key, value)
