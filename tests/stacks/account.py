"""What an account holds, counted, and the stack of those who disturb it."""

from collections import Counter
from pathlib import Path

from localcloud.instance import LocalCloud
from localcloud.stack import LocalStack

Kinds = Counter[tuple[str, str]]
"""Service and kind of thing -> how many beyond an account's defaults."""
DATA = Path(__file__).parent / "data"


def new_stack(cloud: LocalCloud) -> LocalStack:
    """The one that is disturbed."""
    made = LocalStack(cloud, "faults", DATA)
    made.prepare()
    return made


def kinds_undisturbed(cloud: LocalCloud) -> Kinds:
    """What the account holds after an `up` of `new_stack` in which nothing failed; it is empty again."""
    up = new_stack(cloud).run("up")
    assert up.ok, up.output
    found = kinds(cloud)
    cloud.reset()
    return found


def kinds(cloud: LocalCloud) -> Kinds:
    return Counter((one["service"], one["container"].split(".")[0]) for one in cloud.control().leftovers())


def goes_without_a_trace(stack: LocalStack) -> None:
    destroy = stack.run("destroy")
    assert destroy.ok, destroy.output
    assert stack.cloud.control().leftovers() == []
