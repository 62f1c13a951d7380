"""URNs recorded in users' states: a renamed resource would be deleted and created again by the next `pulumi up`.

Each file in tests/golden/urns lists the URNs of one stack. `UPDATE_GOLDEN=1` rewrites them; a removed line means that running
clusters lose that resource, unless the resource has an alias.
"""

import os
from pathlib import Path

import pytest

from tests.program.test_every_stack import deployed, stack_name
from tests.program.worlds import STACKS

GOLDEN = Path(__file__).parents[1] / "golden" / "urns"


@pytest.mark.parametrize("path", STACKS, ids=stack_name)
def test_every_resource_keeps_the_urn_that_states_have_recorded(path: Path) -> None:
    urns = "".join(
        f"{urn.partition('::')[2].partition('::')[2]}\n" for urn in sorted(one.urn for one in deployed(path).resources)
    )
    file = GOLDEN / f"{stack_name(path)}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        file.parent.mkdir(exist_ok=True)
        file.write_text(urns, encoding="utf-8")
    assert urns == file.read_text(encoding="utf-8")
