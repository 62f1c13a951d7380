"""Local copy of all objects of one kind. The cache lists the objects, then watches the API server for changes."""

import logging
import threading
import time
from collections.abc import Callable
from http.client import HTTPException
from typing import Any, Generic, TypeVar

from localcloud.kubernetes.client import Api, ApiError

log = logging.getLogger(__name__)

PAUSE_SECONDS = 1.0
T = TypeVar("T")
Key = tuple[str, str]


class Cache(Generic[T]):
    """Copy of the objects at one API path, as parsed by a function that returns None for irrelevant objects."""

    def __init__(self, api: Api, path: str, parse: Callable[[Any], T | None], changed: threading.Event) -> None:
        self._api, self._path, self._parse, self._changed = api, path, parse, changed
        self._items: dict[Key, T] = {}
        self._lock = threading.Lock()
        self.is_complete = threading.Event()
        """Set once all objects have been listed."""

    def start(self) -> None:
        threading.Thread(target=self._follow_changes, name=f"cache {self._path}", daemon=True).start()

    def items(self) -> dict[Key, T]:
        """Return the parsed objects, keyed by namespace and name."""
        with self._lock:
            return dict(self._items)

    def _follow_changes(self) -> None:
        while True:
            try:
                version = self._list_objects()
                for event in self._api.watch(self._path, resourceVersion=version):
                    if event["type"] == "ERROR":  # the resource version has expired
                        break
                    self._apply_event(event)
            except (OSError, HTTPException, ApiError, ValueError) as error:  # the API server is restarting
                log.info("following %s: %r", self._path, error)
                time.sleep(PAUSE_SECONDS)

    def _list_objects(self) -> str:
        listing = self._api.get(self._path, resourceVersion="0")
        items = {_get_key(item): parsed for item in listing["items"] if (parsed := self._parse(item)) is not None}
        with self._lock:
            self._items = items
        self.is_complete.set()
        self._changed.set()
        return str(listing["metadata"]["resourceVersion"])

    def _apply_event(self, event: Any) -> None:
        item = event["object"]
        key, parsed = _get_key(item), self._parse(item) if event["type"] != "DELETED" else None
        with self._lock:
            if self._items.get(key) == parsed:
                return
            if parsed is None:
                del self._items[key]
            else:
                self._items[key] = parsed
        self._changed.set()


def _get_key(item: Any) -> Key:
    return item["metadata"].get("namespace", ""), item["metadata"]["name"]
