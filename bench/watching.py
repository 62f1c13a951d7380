"""Watches on a cluster's objects, with local timestamps, because Kubernetes timestamps have a resolution of one second."""

import json
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import kubernetes.client
import kubernetes.config
import urllib3.exceptions

Object = dict[str, Any]
Hear = Callable[[str, Object, float], None]
"""Callback that receives the event type, the object and the time."""


class Watch(threading.Thread):
    """Thread that calls `hear` for every future change of the objects at an API path."""

    def __init__(self, kubeconfig: Path, path: str, hear: Hear, selector: str = "") -> None:
        super().__init__(daemon=True)
        configuration = kubernetes.client.Configuration()
        kubernetes.config.load_kube_config(str(kubeconfig), client_configuration=configuration, persist_config=False)
        self._api, self._path, self._hear, self._selector = kubernetes.client.ApiClient(configuration), path, hear, selector
        self._version = ""
        """Resource version of the last event."""
        self._response: Any = None
        self._is_over = False

    def __enter__(self) -> "Watch":
        self._version = json.loads(self._send_watch_request(limit="1").data)["metadata"]["resourceVersion"]
        self._response = self._open_watch_stream()
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over = True
        # urllib3 raises one of these errors if the API server has already closed the connection.
        with suppress(RuntimeError, ValueError, OSError):
            self._response.shutdown()
        self.join()

    def run(self) -> None:
        try:
            while not self._is_over:
                self._read_events()
                # The API server ends the watch of a client that reads too slowly. The server still has the later events.
                self._response = self._open_watch_stream()
        except (urllib3.exceptions.HTTPError, OSError):
            if not self._is_over:  # raise, because the benchmark cannot tell a missed event from one that never happened
                raise

    def _read_events(self) -> None:
        rest = b""
        for chunk in self._response.stream(65536, decode_content=True):
            now = time.time()
            *lines, rest = (rest + chunk).split(b"\n")
            for event in map(json.loads, filter(None, lines)):
                if event["type"] == "ERROR":
                    raise ConnectionError(f"the API server ended the watch of {self._path}: {event['object'].get('message')}")
                self._version = event["object"]["metadata"]["resourceVersion"]
                self._hear(event["type"], event["object"], now)

    def _open_watch_stream(self) -> Any:
        return self._send_watch_request(watch="true", resourceVersion=self._version, timeoutSeconds="3600")

    def _send_watch_request(self, **query: str) -> Any:
        if self._selector:
            query["labelSelector"] = self._selector
        return self._api.call_api(
            self._path,
            "GET",
            query_params=list(query.items()),
            header_params={"Accept": "application/json"},
            auth_settings=["BearerToken"],
            _preload_content=False,
            _return_http_data_only=True,
        )


def has_true_condition(resource: Mapping[str, Any], name: str) -> bool:
    """Return whether the object's status contains this condition with status `True`."""
    return bool(find_condition_time(resource, name))


def find_condition_time(resource: Mapping[str, Any], name: str) -> str:
    """Return the time since which this condition has had the status `True`, or an empty string if its status differs."""
    conditions = resource.get("status", {}).get("conditions", ())
    return next((entry["lastTransitionTime"] for entry in conditions if entry["type"] == name and entry["status"] == "True"), "")
