"""What holds for all tests: the order in which they run, and how often the engine saves its state."""

import os

import pytest
from hypothesis import HealthCheck, settings

# How fast examples come depends on the machine, which runs other tests too; no test is timed.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

LONGEST_FIRST = ("packer", "jobs", "clusters", "hosts", "job-images", "killed", "platform-changes", "demo", "faults", "checkov")
"""Groups of minutes, by their length (docs/measurements.md). Begun last, one would keep a worker busy while the others idle."""
SKIP_CHECKPOINTS = "PULUMI_SKIP_CHECKPOINTS"
"""The engine saves its state once, in the end: half the time of an `up` is its saving before and after each step."""


def pytest_configure(config: pytest.Config) -> None:
    config.option.loadscopereorder = False  # xdist would begin with the group of the most tests
    config.option.randomly_reset_seed = False  # names drawn in one test must not come again in the next


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=_place)


def _place(item: pytest.Item) -> int:
    mark = item.get_closest_marker("xdist_group")
    group = mark.args[0] if mark else ""
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
