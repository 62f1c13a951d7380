"""Local copies of objects, kept up to date by list and watch."""

import sys
import threading
import time
from collections.abc import Callable

from .api import REQUEST_SECONDS, WATCH_SECONDS, Api, ApiError, Object, Unreachable
from .health import Heart

PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 1.0, 30.0
ABSENT_SECONDS = 60.0
"""Pause before another attempt to list a kind that the cluster does not serve, such as MPIJob without the operator."""
NOT_FOUND, GONE, TOO_MANY, SERVER_ERROR = 404, 410, 429, 500

Trim = Callable[[Object], Object]


class Mirror(threading.Thread):
    """Copies of the objects at one API path. `changed` is called after each change."""

    def __init__(self, api: Api, path: str, kind: str, changed: Callable[[], None], trim: Trim = dict, labels: str = "") -> None:
        super().__init__(daemon=True, name=f"mirror {path}")
        self._api, self._path, self._kind, self._changed, self._trim = api.copy(), path, kind, changed, trim
        self._query = {"labelSelector": labels} if labels else {}
        self._lock = threading.Lock()
        self._objects: dict[str, Object] = {}
        self.is_synced = threading.Event()
        self.is_refused = False
        """Whether the API server last refused the request, for example because the namespace no longer exists."""
        self.heart = Heart(WATCH_SECONDS + 4 * REQUEST_SECONDS)

    def objects(self) -> list[Object]:
        with self._lock:
            return list(self._objects.values())

    def run(self) -> None:
        pause = PAUSE_SECONDS
        while True:
            self.heart.beat()
            try:
                version = self._list_all()
                while True:
                    version = self._watch_changes(version)
                    pause = PAUSE_SECONDS
                    time.sleep(PAUSE_SECONDS)
            except ApiError as error:
                if error.status == NOT_FOUND and not self._objects:
                    self._replace_objects({}, ABSENT_SECONDS)
                    continue
                self.is_refused = error.status not in (GONE, TOO_MANY) and error.status < SERVER_ERROR
                if error.status != GONE:
                    print(f"{self._path}: {error}", file=sys.stderr, flush=True)
            except Unreachable as error:
                print(f"{self._path}: {error}", file=sys.stderr, flush=True)
            except Exception as error:  # nobody must act on copies that cannot be brought up to date
                self.is_synced.clear()
                print(f"{self._path}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)

    def _replace_objects(self, objects: dict[str, Object], pause: float = 0.0) -> None:
        with self._lock:
            self._objects, self.is_refused = objects, False
        self.is_synced.set()
        self._changed()
        time.sleep(pause)

    def _list_all(self) -> str:
        """Replace the copies with a new list of all objects. Returns the list's resource version."""
        objects: dict[str, Object] = {}

        def add_object(item: Object) -> None:
            self.heart.beat()
            self._store_object(objects, item)

        version = self._api.read_list(self._path, self._query, add_object)
        self._replace_objects(objects)
        return version

    def _watch_changes(self, version: str) -> str:
        for event in self._api.watch(self._path, {**self._query, "resourceVersion": version}):
            self.heart.beat()
            item = event["object"]
            if event["type"] == "ERROR":
                raise ApiError(int(item.get("code", 0)), str(item.get("reason", "")), str(item.get("message", "")))
            version = str(item["metadata"]["resourceVersion"])
            if event["type"] != "BOOKMARK":
                self._apply_event(event["type"], item)
        return version

    def _apply_event(self, event: str, item: Object) -> None:
        with self._lock:
            if event == "DELETED":
                self._objects.pop(item["metadata"]["uid"], None)
            else:
                self._store_object(self._objects, item)
        self._changed()

    def _store_object(self, objects: dict[str, Object], item: Object) -> None:
        """Add an object to the copies. An object that cannot be read is left out, and does not affect the others."""
        metadata = item["metadata"]
        try:
            objects[metadata["uid"]] = {**self._trim(item), "kind": self._kind}
        except Exception as error:
            objects.pop(metadata["uid"], None)
            about = f"{self._path}/{metadata.get('name')}"
            print(f"{about}: ignored: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
