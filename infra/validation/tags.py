"""Rules for tags: AWS's limits, and keys that this program sets."""

import re
from collections.abc import Iterator

from infra.config.messages import shown
from infra.config.problems import Problem
from infra.naming import BASE_TAGS, COST_TAG, POOL_TAG, ROLE_TAG
from infra.settings.stack import Settings

# https://docs.aws.amazon.com/tag-editor/latest/userguide/best-practices-and-strats.html
LONGEST_KEY = 128
LONGEST_VALUE = 256
MOST = 20
"""Maximum number of tags in the settings. AWS allows 50 tags per resource, and Auto Scaling groups need the other 30 to
describe nodes to the autoscaler."""
_CHARACTERS = re.compile(r"[\w +\-=.:/@]*")
_CONTROLLERS = re.compile(r"(^|\.)(kubernetes|k8s)\.io/|^eks:")


def cost_center(settings: Settings) -> Iterator[Problem]:
    if settings.cost_center is not None:
        yield from _value("costCenter", settings.cost_center)
        if not settings.cost_center.strip():
            yield Problem("costCenter", "is empty. Set a value, or remove the key.")


def extra(settings: Settings) -> Iterator[Problem]:
    if len(settings.tags) > MOST:
        yield Problem("tags", f"has {len(settings.tags)} tags. Use at most {MOST}.")
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
        yield from _value(where, value)


def _value(where: str, value: str) -> Iterator[Problem]:
    if len(value) > LONGEST_VALUE or not _CHARACTERS.fullmatch(value):
        fix = f"Use at most {LONGEST_VALUE} letters, digits, spaces and + - = . _ : / @"
        yield Problem(where, f"{shown(value)} is not a valid tag value. {fix}")
