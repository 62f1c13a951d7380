"""What happens in a cluster, with the time at which it was seen here: Kubernetes' own times are whole seconds."""

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
"""Gets the kind of event, the object, and the time."""


class Watch(threading.Thread):
    """Tells every change of the objects at a path from now on."""

    def __init__(self, kubeconfig: Path, path: str, hear: Hear, selector: str = "") -> None:
        super().__init__(daemon=True)
        configuration = kubernetes.client.Configuration()
        kubernetes.config.load_kube_config(str(kubeconfig), client_configuration=configuration, persist_config=False)
        self._api, self._path, self._hear, self._selector = kubernetes.client.ApiClient(configuration), path, hear, selector
        self._answer: Any = None
        self._is_over = False

    def __enter__(self) -> "Watch":
        version = json.loads(self._ask(limit="1").data)["metadata"]["resourceVersion"]
        self._answer = self._ask(watch="true", resourceVersion=version, timeoutSeconds="3600")
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over = True
        with suppress(RuntimeError):  # of an answer that the API server ended by itself
            self._answer.shutdown()
        self.join()

    def run(self) -> None:
        rest = b""
        try:
            for chunk in self._answer.stream(65536, decode_content=True):
                now = time.time()
                *lines, rest = (rest + chunk).split(b"\n")
                for event in map(json.loads, filter(None, lines)):
                    self._hear(event["type"], event["object"], now)
        except (urllib3.exceptions.HTTPError, OSError):
            if not self._is_over:  # what is not seen would look like what did not happen
                raise

    def _ask(self, **query: str) -> Any:
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


def condition(found: Mapping[str, Any], name: str) -> bool:
    """Whether the object says so of itself."""
    conditions = found.get("status", {}).get("conditions", ())
    return any(one["type"] == name and one["status"] == "True" for one in conditions)
