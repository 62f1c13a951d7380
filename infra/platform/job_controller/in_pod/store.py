"""Storage of records: ConfigMaps, and writes that the mirror does not have yet."""

import sys
from collections.abc import Iterable, Mapping
from datetime import timedelta

from . import moments, record
from .api import Api, ApiError, Object
from .record import Record

CONFLICT, NOT_FOUND = 409, 404
KEPT_DAYS = 90
"""Days to keep the record of a deleted job."""


def trimmed(config_map: Object) -> Object:
    """Return a mirrored ConfigMap with its parsed record instead of the text."""
    return {"metadata": config_map["metadata"], "record": record.read(config_map)}


class Store:
    """Records by job UID."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._written: dict[str, Object] = {}

    def records(self, mirrored: Iterable[Object]) -> dict[str, Object]:
        """Return ConfigMaps with their records. Writes that the mirror has not seen yet take precedence."""
        found = {one["record"]["uid"]: one for one in mirrored if one["record"] is not None}
        for uid, written in list(self._written.items()):
            seen = found.get(uid)
            if seen is not None and _version(seen) == _version(written):
                del self._written[uid]
            else:
                found[uid] = written
        return found

    def write(self, new: Record, found: Object | None) -> bool:
        """Write a record. Returns False if another client changed it; the mirror will get the change soon."""
        body = record.config_map(new, found)
        path = f"api/v1/namespaces/{new['namespace']}/configmaps"
        try:
            if found is None:
                made = self._api.call("POST", path, body=body)
            else:
                made = self._api.call("PUT", f"{path}/{body['metadata']['name']}", body=body)
        except ApiError as error:
            self._written.pop(new["uid"], None)
            if error.status in (CONFLICT, NOT_FOUND):
                return False
            raise
        self._written[new["uid"]] = {"metadata": made["metadata"], "record": new}
        return True

    def prune(self, found: Mapping[str, Object], living: Iterable[str], now: str) -> None:
        """Delete old records of jobs that no longer exist."""
        limit = moments.write(moments.read(now) - timedelta(days=KEPT_DAYS))
        for uid in found.keys() - set(living):
            old: Record = found[uid]["record"]
            if old["ended"] and old["ended"] < limit:
                print(f"{old['namespace']}/{old['name']}: record of {old['ended']} deleted", file=sys.stderr, flush=True)
                self._written.pop(uid, None)
                path = f"api/v1/namespaces/{old['namespace']}/configmaps/{found[uid]['metadata']['name']}"
                self._api.call("DELETE", path)


def _version(config_map: Object) -> str:
    return str(config_map["metadata"]["resourceVersion"])
