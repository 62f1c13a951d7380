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
    made = LocalStack(cloud, "faults", DATA)
    made.prepare()
    return made


def kinds_undisturbed(cloud: LocalCloud) -> Kinds:
    """Deploy `new_stack` without faults, count its resources, and reset the account."""
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
