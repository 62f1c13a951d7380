"""What tests of this folder share."""

import signal
from collections.abc import Iterator

import pytest


@pytest.fixture
def own_signals() -> Iterator[None]:
    """Pytest's again after a test of a program that handles SIGTERM."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)
