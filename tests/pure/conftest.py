"""Fixtures for the tests in this folder."""

import os
import signal
from collections.abc import Iterator

import pytest


@pytest.fixture
def restore_process_state() -> Iterator[None]:
    """Restore pytest's SIGTERM handler and umask after a test that runs a program's `main` in this process."""
    handler, umask = signal.getsignal(signal.SIGTERM), os.umask(0o022)
    os.umask(umask)
    yield
    os.umask(umask)
    signal.signal(signal.SIGTERM, handler)
