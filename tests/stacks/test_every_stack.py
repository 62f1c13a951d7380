"""Every stack file with the real Pulumi engine and the local AWS, as a user with only the policies of docs/iam.

The stacks in coverage.LIFECYCLE and the demos' stacks are deployed twice, refreshed and destroyed. The other stacks
have no additional features and are only previewed.
"""

from typing import Any

import pytest

from localcloud.instance import LocalCloud
from localcloud.stack import LocalStack
from testkit import iam_policies
from tests.program.worlds import STACKS
from tests.stacks import coverage

DEMOS = {"local", "local-ec2"}
FOLDERS = {coverage.get_stack_name(file): file.parent for file in STACKS}


SHORT = ("full", "full-ec2", "03-p5-capacity-block", "10-fsx-lustre")
"""Stacks that `make test` deploys or previews here; `make mission` runs all. `make test` also deploys each stack with
Pulumi's mocks (tests/program/test_every_stack.py), and the demo deploys stack `local`.
"""


def make_case(name: str) -> Any:
    return pytest.param(name, marks=() if name in SHORT else pytest.mark.mission_only)


@pytest.fixture
def stack(request: pytest.FixtureRequest, cloud: LocalCloud) -> LocalStack:
    prepared = LocalStack(cloud, request.param, FOLDERS[request.param])
    prepared.prepare()
    prepared.create_prerequisites()
    iam_policies.restrict_user(cloud.clients(prepared.region), map(iam_policies.read_policy, ("read", "up", "destroy")))
    return prepared


def test_the_lifecycle_stacks_use_every_feature_of_all_stacks() -> None:
    used = coverage.map_used_settings()
    covered = set().union(*(used[name] for name in coverage.LIFECYCLE))
    missing = {name: sorted(uses - covered) for name, uses in used.items() if uses - covered}
    assert missing == {}, "add the stack to coverage.LIFECYCLE, or the setting to one of its stacks"


@pytest.mark.mission("C", "network")
@pytest.mark.parametrize(
    "stack",
    [make_case(name) for name in sorted({*DEMOS, *coverage.LIFECYCLE})],
    indirect=True,
)
def test_a_stack_is_deployed_stays_unchanged_and_leaves_nothing_behind(stack: LocalStack, cloud: LocalCloud) -> None:
    control = cloud.control()
    control.set_baseline()

    preview = stack.run("preview")
    assert preview.ok, preview.output
    assert control.leftovers() == [], "a preview creates nothing"

    up = stack.run("up")
    assert up.ok, up.output
    assert up.changes == preview.changes, "up does what the preview showed"

    control.reset_call_counts()
    again = stack.run("up")
    assert again.ok, again.output
    assert not again.changed, again.output
    assert control.writes() == {}, "an unchanged up only reads"

    refresh = stack.run("refresh")
    assert refresh.ok, refresh.output
    assert not refresh.changed, refresh.output

    disable_deletion_protection(stack)
    destroy = stack.run("destroy")
    assert destroy.ok, destroy.output
    assert control.leftovers() == []


@pytest.mark.parametrize(
    "stack", [make_case(name) for name in sorted(set(FOLDERS) - DEMOS - set(coverage.LIFECYCLE))], indirect=True
)
def test_a_preview_lists_every_resource_of_the_stack(stack: LocalStack, cloud: LocalCloud) -> None:
    control = cloud.control()
    control.set_baseline()
    preview = stack.run("preview")
    assert preview.ok, preview.output
    assert set(preview.changes) == {"create"}, preview.output
    types = {step.type for step in preview.steps}
    assert {token.rpartition("$")[2] for token in coverage.list_resource_types(stack.name)} <= types
    assert control.leftovers() == []


def disable_deletion_protection(stack: LocalStack) -> None:
    """Turn off deletion protection for the cluster and file systems in stack `full`, as users must before a destroy."""
    if stack.name != "full":
        return
    stack.set_config("gpumpi:target.deletionProtection", "false")
    stack.set_config("gpumpi:storage.efs.protect", "false")
    stack.set_config("gpumpi:storage.fsx.protect", "false")
    lifted = stack.run("up")
    assert lifted.ok, lifted.output
