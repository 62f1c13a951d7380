"""Resource counts of an account, and the stack for tests with AWS faults or killed engines."""

from collections import Counter
from pathlib import Path

from localcloud.instance import LocalCloud
from localcloud.stack import LocalStack

Kinds = Counter[tuple[str, str]]
"""(service, kind) -> number of resources in addition to an account's defaults."""
DATA = Path(__file__).parent / "data"


def new_stack(cloud: LocalCloud) -> LocalStack:
    """Return the stack for tests that inject AWS faults or kill the engine."""
    stack = LocalStack(cloud, "faults", DATA)
    stack.prepare()
    return stack


def kinds_undisturbed(cloud: LocalCloud) -> Kinds:
    """Deploy `new_stack` without faults, count its resources, and reset the account."""
    up = new_stack(cloud).run("up")
    assert up.ok, up.output
    undisturbed = kinds(cloud)
    cloud.reset()
    return undisturbed


def kinds(cloud: LocalCloud) -> Kinds:
    return Counter((leftover["service"], leftover["container"].split(".")[0]) for leftover in cloud.control().leftovers())


def goes_without_a_trace(stack: LocalStack) -> None:
    destroy = stack.run("destroy")
    assert destroy.ok, destroy.output
    assert stack.cloud.control().leftovers() == []
