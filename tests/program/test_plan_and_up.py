"""`up` creates every stack that `plan` accepts, and fails for the same reason if `plan` rejects a stack. `python -m
bench.plan` compares more stacks.
"""

from pathlib import Path

import pytest

from testkit.plan_worlds import World, compare, drawn

FEW, SEED = 10, 20261123
WORLDS = drawn(FEW, SEED)


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


@pytest.mark.parametrize("world", WORLDS[:3], ids=range(3))
def test_up_does_what_plan_says(world: World) -> None:
    assert compare(world).disagreement == ""


@pytest.mark.mission_only
@pytest.mark.parametrize("world", WORLDS[3:], ids=range(3, FEW))
def test_up_does_what_plan_says_for_more_stacks(world: World) -> None:
    assert compare(world).disagreement == ""


def test_the_same_seed_draws_the_same_stacks() -> None:
    assert drawn(FEW, SEED) == WORLDS
