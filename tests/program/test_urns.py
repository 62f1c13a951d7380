"""URNs must not change: they are recorded in users' state, so `pulumi up` would delete and recreate a renamed resource.

Each file in tests/golden/urns lists the URNs of one stack. `UPDATE_GOLDEN=1` rewrites the files. A removed line
means that running clusters lose that resource, unless the resource has an alias.
"""

import os
from pathlib import Path

import pytest

from tests.program.test_every_stack import deploy_stack, stack_name
from tests.program.worlds import STACKS

pytestmark = pytest.mark.xdist_group("every-stack")  # the stacks that the worker of this group has already deployed
GOLDEN = Path(__file__).parents[1] / "golden" / "urns"


@pytest.mark.parametrize("path", STACKS, ids=stack_name)
def test_every_resource_keeps_its_recorded_urn(path: Path) -> None:
    urns = "".join(
        f"{urn.partition('::')[2].partition('::')[2]}\n"
        for urn in sorted(resource.urn for resource in deploy_stack(path).resources)
    )
    file = GOLDEN / f"{stack_name(path)}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        file.parent.mkdir(exist_ok=True)
        file.write_text(urns, encoding="utf-8")
    assert urns == file.read_text(encoding="utf-8")
