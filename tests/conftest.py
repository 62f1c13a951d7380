"""What holds for all tests: the order in which they run, and how often the engine saves its state."""

import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

# How fast examples come depends on the machine, which runs other tests too; no test is timed.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

LONGEST_FIRST = ("kubernetes", "hosts", "packer", "job-images", "killed", "platform-changes", "demo", "faults", "checkov")
"""Groups that take minutes, longest first (docs/measurements.md). Started last, one would keep a worker busy while the
others idle. A machine with two cores cannot run two clusters at once, so all tests on real clusters are one group."""
SKIP_CHECKPOINTS = "PULUMI_SKIP_CHECKPOINTS"
"""The engine saves its state once, in the end: half the time of an `up` is its saving before and after each step."""


def pytest_configure(config: pytest.Config) -> None:
    config.option.loadscopereorder = False  # xdist would begin with the group of the most tests
    config.option.randomly_reset_seed = False  # names drawn in one test must not come again in the next


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    """Random order, except within a group: its tests share a cluster, and some end what the others need."""
    written = {id(item): place for place, item in enumerate(items)}
    yield
    drawn = {id(item): place for place, item in enumerate(items)}
    items.sort(key=lambda item: (_rank(item), written[id(item)] if _group(item) else drawn[id(item)]))


def _group(item: pytest.Item) -> str:
    mark = item.get_closest_marker("xdist_group")
    return str(mark.args[0]) if mark else ""


def _rank(item: pytest.Item) -> int:
    group = _group(item)
    return LONGEST_FIRST.index(group) if group in LONGEST_FIRST else len(LONGEST_FIRST)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Before the fixtures: those that last for a module start engines, too."""
    if item.get_closest_marker("checkpoints"):
        os.environ.pop(SKIP_CHECKPOINTS, None)
    else:
        os.environ[SKIP_CHECKPOINTS] = "true"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """`-q` hides the header, where the plugin prints it."""
    seed = config.getoption("randomly_seed", None)
    if seed is not None:
        terminalreporter.line(f"the order of this run: -p randomly --randomly-seed={seed}")
