"""Every stack file on the real engine and the local AWS: up, up again, destroy to nothing."""

from pathlib import Path

import pytest

from localcloud.instance import LocalCloud
from localcloud.stack import LocalStack
from tests.program.worlds import STACKS


@pytest.fixture(params=STACKS, ids=lambda file: file.name.removeprefix("Pulumi.").removesuffix(".yaml"))
def stack(request: pytest.FixtureRequest, cloud: LocalCloud) -> LocalStack:
    file: Path = request.param
    made = LocalStack(cloud, file.name.removeprefix("Pulumi.").removesuffix(".yaml"), file.parent)
    made.prepare()
    made.grant()
    return made


@pytest.mark.mission("C", "network")
def test_a_stack_goes_up_stays_as_it_is_and_leaves_nothing(stack: LocalStack, cloud: LocalCloud) -> None:
    control = cloud.control()
    control.accept()

    preview = stack.run("preview")
    assert preview.ok, preview.output
    assert control.leftovers() == [], "a preview makes nothing"

    up = stack.run("up")
    assert up.ok, up.output
    assert up.changes == preview.changes, "what was previewed is what happened"

    control.forget_calls()
    again = stack.run("up")
    assert again.ok, again.output
    assert not again.changed, again.output
    assert control.writes() == {}, "an unchanged up only looks"

    refresh = stack.run("refresh")
    assert refresh.ok, refresh.output
    assert not refresh.changed, refresh.output

    unprotect(stack)
    destroy = stack.run("destroy")
    assert destroy.ok, destroy.output
    assert control.leftovers() == []


def unprotect(stack: LocalStack) -> None:
    """The fullest file protects cluster and file system: what its author would do before a destroy."""
    if stack.name != "full":
        return
    stack.set_config("gpumpi:target.deletionProtection", "false")
    stack.set_config("gpumpi:storage.efs.protect", "false")
    lifted = stack.run("up")
    assert lifted.ok, lifted.output
