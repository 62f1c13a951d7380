"""A second `pulumi up` for a pool with nodes in a Capacity Block, checked against the AWS state after the first one."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from infra.config.stack_file import RawStack
from infra.preflight import examine_aws_stack
from localcloud.aws import prerequisites
from localcloud.engine.mocks import MotoMocks
from tests.program.engine import deploy

BLOCK = {"kind": "capacity-block", "reservationId": "cr-0123456789abcdef0"}
POOL = {"name": "train", "instanceType": "p5.48xlarge", "maxSize": 2, "desiredSize": 2, "capacity": BLOCK}
VALUES = {"target": {"kind": "eks"}, "platform": {"install": False, "autoscaler": False}, "storage": {"efs": "none"}}
OWN_AMI = "ami-0123456789abcdef0"

Stack = Callable[..., list[str]]


def make_raw_stack(target: Mapping[str, Any], **pool: Any) -> RawStack:
    return RawStack("block", "us-west-2", {**VALUES, "target": {"kind": "eks", **target}, "pools": [{**POOL, **pool}]})


@pytest.fixture(scope="module", params=[{}, {"amiId": OWN_AMI, "labels": {"team": "a"}}], ids=["AMI of EKS", "own AMI"])
def check_changes(request: pytest.FixtureRequest) -> Iterator[Stack]:
    """Deploy a pool with two nodes. Yield a function that validates changed settings and returns the problems."""
    before = make_raw_stack({}, **request.param)
    with MotoMocks(before.region) as mocks:
        prerequisites.create_prerequisites(before.region, before.values)
        deploy(*examine_aws_stack(before).settings_and_facts, mocks)

        def find_problems(target: Mapping[str, Any] | None = None, **pool: Any) -> list[str]:
            examined = examine_aws_stack(make_raw_stack(target or {}, **{**request.param, **pool}))
            return [str(problem) for problem in examined.problems]

        yield find_problems


def test_an_unchanged_stack_is_accepted_while_block_nodes_run(check_changes: Stack) -> None:
    assert check_changes() == []


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"rootVolumeGib": 300}, "rootVolumeGib"),
        ({"efa": False}, "efa and user data"),
        ({"instanceType": "p5e.48xlarge"}, "instanceType"),
    ],
    ids=str,
)
def test_a_launch_template_change_is_refused_while_block_nodes_run(
    check_changes: Stack, change: dict[str, Any], what: str
) -> None:
    refused = [problem for problem in check_changes(**change) if problem.startswith("pools[0]: ")]
    assert len(refused) == 1
    assert f"train has 2 nodes in a Capacity Block, and `pulumi up` would change {what}" in refused[0]
    assert "--cluster-name gpumpi-block --nodegroup-name gpumpi-block-train" in refused[0]


def test_label_changes_are_refused_only_with_a_custom_ami(check_changes: Stack, request: pytest.FixtureRequest) -> None:
    refused = check_changes(labels={"team": "b"})
    assert [refusal.partition(" in the launch")[0] for refusal in refused] == (
        ["pools[0]: train has 2 nodes in a Capacity Block, and `pulumi up` would change user data"]
        if "own AMI" in request.node.name
        else []
    )


def test_an_upgrade_is_refused_while_block_nodes_run(check_changes: Stack, request: pytest.FixtureRequest) -> None:
    refused = check_changes({"kubernetesVersion": "1.36"})
    words = '"1.36" would upgrade all pools, but train has 2 nodes in a Capacity Block.'
    assert [refusal.startswith(f"target.kubernetesVersion: {words}") for refusal in refused] == (
        [] if "own AMI" in request.node.name else [True]
    )
