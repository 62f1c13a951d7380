"""Rules that need only the stack file. Each case contains one mistake and the full message that reports it."""

from typing import Any

import pytest

from infra import validation
from tests.pure.mistakes import offline_access, offline_nodes, offline_stack
from tests.pure.mistakes.case import format_problem
from tests.pure.world import FILE_SYSTEM, RESERVATION, existing_network, pool, settings

CASES = offline_stack.CASES | offline_access.CASES | offline_nodes.CASES


@pytest.mark.parametrize("case", CASES)
def test_each_mistake_gets_one_error(case: str) -> None:
    sections, pools, expected = CASES[case]
    problems = validation.run_rules(settings(*pools, **sections))
    assert [format_problem(problem) for problem in problems] == [expected]


@pytest.mark.parametrize(
    ("sections", "pools"),
    [
        ({}, []),
        ({"target": {"endpointAccess": {"publicCidrs": ["0.0.0.0/0"], "allowAnywhere": True}}}, []),
        ({"target": {"admins": ["arn:aws:iam::123456789012:role/aws-reserved/sso.amazonaws.com/AWSReservedSSO_Admin_01"]}}, []),
        ({"target": {"admins": ["arn:aws-cn:iam::123456789012:user/team/ada.l+1@example.com"]}}, []),
        ({"network": {"natGateways": "none", "interfaceEndpoints": True}}, []),
        ({"network": {"cidr": "100.64.0.0/20", "zones": 4}}, []),
        ({"network": existing_network(), "storage": {"efs": {"fileSystemId": FILE_SYSTEM}}}, []),
        ({"storage": {"efs": "none"}}, []),
        ({"storage": {"efs": {"mountPath": "/fsx/"}}}, []),
        ({"stack": "01-single-g5"}, [pool("a" * 20, minSize=2, desiredSize=2)]),
        ({}, [pool(labels={"team": "", "example.com/team": "a.b-c_D"}, placementGroup="mine")]),
        ({}, [pool(capacity={"kind": "targeted-odcr", "reservationId": RESERVATION}, placementGroup="mine")]),
        ({"platform": {"namespaces": ["a", "b" * 20], "cpuRequestFactor": 1, "idleMinutes": 1440}}, []),
        ({"platform": {"imageRegistry": "mirror.example.com:5000/a/b-c", "manifestMirror": "~/mirror"}}, []),
        ({"tags": {"owner": "ada@example.com", "Größe": "groß"}, "costCenter": "ml research"}, []),
    ],
)
def test_valid_combinations_have_no_problems(sections: dict[str, Any], pools: list[dict[str, Any]]) -> None:
    assert validation.run_rules(settings(*pools, **sections)) == []


def test_duplicate_job_names_in_the_default_namespace_are_refused() -> None:
    job = {"name": "a", "pool": "train", "workers": 1, "image": "registry.example.com/i:1", "command": ["x"]}
    stack = settings(pool(), platform={"install": True, "namespaces": ["ml"]}, jobs=[job, {**job, "namespace": "ml"}])
    assert [str(problem) for problem in validation.run_rules(stack)] == [
        'jobs[1].name: "a" is already the name of jobs[0]. Choose another.'
    ]
    other = settings(pool(), platform={"install": True, "namespaces": ["ml", "b"]}, jobs=[job, {**job, "namespace": "b"}])
    assert validation.run_rules(other) == []
