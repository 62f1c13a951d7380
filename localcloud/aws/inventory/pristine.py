"""Fresh copies of moto's backends, in which default resources have the same ids as in the original backends.

The random seed depends only on the service, account and region.
"""

import functools
import random
from typing import Any

from moto.core.base_backend import AccountSpecificBackend
from moto.moto_api._internal import mock_random


def extend_moto() -> None:
    """Make the ids of default resources depend only on the service, account and region."""
    original = AccountSpecificBackend.__getitem__

    @functools.wraps(original)
    def get_region_backend(self: Any, region_name: str) -> Any:
        if dict.__contains__(self, region_name):
            return dict.__getitem__(self, region_name)
        with _OwnRandomNumbers(self.service_name, self.account_id, region_name):
            return original(self, region_name)

    AccountSpecificBackend.__getitem__ = get_region_backend  # type: ignore[method-assign]


def create_fresh_copy(service: str, backend: Any) -> Any:
    """Return a fresh copy of the given backend that is not registered with moto."""
    with _OwnRandomNumbers(service, backend.account_id, backend.region_name):
        return type(backend)(backend.region_name, backend.account_id)


class _OwnRandomNumbers:
    def __init__(self, *key: str) -> None:
        self._key = "/".join(key)

    def __enter__(self) -> None:
        self._outside = mock_random.getstate(), random.getstate()
        mock_random.seed(self._key)
        random.seed(self._key)  # a few services use Python's own random module

    def __exit__(self, *_: object) -> None:
        mock_random.setstate(self._outside[0])
        random.setstate(self._outside[1])
