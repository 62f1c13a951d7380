"""Settings for all tests: test order, garbage collection, and how often the Pulumi engine saves its state."""

import os
import signal
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from localcloud import garbage

garbage.pause_collection()  # every test process imports all tests, and garbage collection would slow down these imports

# Hypothesis deadlines are off: speed depends on the machine, which runs other tests at the same time.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

LONGEST_FIRST = ("jobs", "kubernetes", "hosts", "packer", "job-images", "killed", "platform-changes", "demo", "faults", "checkov")
"""Groups that take minutes, longest first (docs/measurements/tests.md). If a long group started last, one worker would run
it while the other workers were idle.
"""
SKIP_CHECKPOINTS = "PULUMI_SKIP_CHECKPOINTS"
"""Environment variable that makes the engine save the state only at the end. Saving it before and after each step would
take half the time of an `up`.
"""


def pytest_configure(config: pytest.Config) -> None:
    # A shell without job control starts background commands with SIGINT ignored, and child processes inherit this setting.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ["GPUMPI_TODAY"] = "2026-11-28"  # the end of support for a Kubernetes version must not change a result
    config.option.loadscopereorder = False  # otherwise xdist would start with the group that has the most tests
    config.option.randomly_reset_seed = False  # otherwise the next test would draw the same random names


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    """Run tests in random order, except within a named group: the tests in such a group share a cluster, and the last
    tests break it. Groups also stay together without xdist, so their fixtures are set up only once.
    """
    written = {id(item): place for place, item in enumerate(items)}
    named = {_get_xdist_group(item) for item in items}
    for item in items:
        if not _get_xdist_group(item) and (shared := _find_shared_module(item)):
            item.add_marker(pytest.mark.xdist_group(shared))
    yield
    drawn = {id(item): place for place, item in enumerate(items)}
    start: dict[str, int] = {}
    for place, item in enumerate(items):
        start.setdefault(_get_xdist_group(item), place)

    def sort_key(item: pytest.Item) -> tuple[int, int, int]:
        group = _get_xdist_group(item)
        place = written[id(item)] if group in named else drawn[id(item)]
        return (_get_group_rank(item), start[group], place) if group else (_get_group_rank(item), drawn[id(item)], 0)

    items.sort(key=sort_key)


def _get_xdist_group(item: pytest.Item) -> str:
    mark = item.get_closest_marker("xdist_group")
    return str(mark.args[0]) if mark else ""


def _find_shared_module(item: pytest.Item) -> str:
    """Return the package or module whose fixtures a test uses; an empty string if the test uses only its own fixtures.

    Without a group, pytest would set up such fixtures once in each worker.
    """
    if not isinstance(item, pytest.Function):
        return ""
    used = item._fixtureinfo.name2fixturedefs
    scopes = {used[name][-1].scope for name in item.fixturenames if name in used}
    if "package" in scopes:
        return str(item.module.__package__)
    return str(item.module.__name__) if "module" in scopes else ""


def _get_group_rank(item: pytest.Item) -> int:
    group = _get_xdist_group(item)
    return LONGEST_FIRST.index(group) if group in LONGEST_FIRST else len(LONGEST_FIRST)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop() -> None:
    garbage.resume_collection()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Set or clear PULUMI_SKIP_CHECKPOINTS before any fixture runs: module-scoped fixtures start Pulumi engines too."""
    if item.get_closest_marker("checkpoints"):
        os.environ.pop(SKIP_CHECKPOINTS, None)
    else:
        os.environ[SKIP_CHECKPOINTS] = "true"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print the random seed: the plugin prints it only in the header, which `-q` hides."""
    seed = config.getoption("randomly_seed", None)
    if seed is not None:
        terminalreporter.line(f"To repeat this order: -p randomly --randomly-seed={seed}")
