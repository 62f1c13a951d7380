"""Resource counts of an account, and the stack for tests with AWS faults or killed engines."""

from collections import Counter
from pathlib import Path

from localcloud.instance import LocalCloud
from localcloud.stack import LocalStack

Kinds = Counter[tuple[str, str]]
"""Maps (service, kind) to the number of resources in addition to an account's defaults."""
DATA = Path(__file__).parent / "data"


def prepare_stack(cloud: LocalCloud) -> LocalStack:
    """Return the stack for tests that inject AWS faults or kill the engine."""
    stack = LocalStack(cloud, "faults", DATA)
    stack.prepare()
    return stack


def deploy_and_count(cloud: LocalCloud) -> Kinds:
    """Deploy the stack without faults, count its resources, and reset the account."""
    up = prepare_stack(cloud).run("up")
    assert up.ok, up.output
    undisturbed = count_leftovers(cloud)
    cloud.reset()
    return undisturbed


def count_leftovers(cloud: LocalCloud) -> Kinds:
    return Counter((leftover["service"], leftover["container"].split(".")[0]) for leftover in cloud.control().leftovers())


def destroy_without_leftovers(stack: LocalStack) -> None:
    destroy = stack.run("destroy")
    assert destroy.ok, destroy.output
    assert stack.cloud.control().leftovers() == []
