"""What an account holds, counted."""

from collections import Counter

from localcloud.instance import LocalCloud
from localcloud.stack import LocalStack

Kinds = Counter[tuple[str, str]]
"""Service and kind of thing -> how many beyond an account's defaults."""


def kinds(cloud: LocalCloud) -> Kinds:
    return Counter((one["service"], one["container"].split(".")[0]) for one in cloud.control().leftovers())


def goes_without_a_trace(stack: LocalStack) -> None:
    destroy = stack.run("destroy")
    assert destroy.ok, destroy.output
    assert stack.cloud.control().leftovers() == []
