"""Storage of records: ConfigMaps in the mirror, and written changes that the mirror does not contain yet.

Users of a namespace can write its ConfigMaps. A record is identified by the namespace and the name of its ConfigMap, never
by its content.
"""

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta

from . import moments, record
from .api import Api, ApiError, Object, build_resource_path, write_object
from .record import Record

KEPT_DAYS = 90
"""Days to keep the record of a deleted job."""
CONFIG_MAPS = "api/v1/namespaces/{}/configmaps"
METADATA = ("name", "namespace", "uid", "resourceVersion")


@dataclass(frozen=True, slots=True)
class EndedJob:
    """All that the controller keeps in memory of the record of a job that has ended: there may be thousands."""

    uid: str
    ended: str


def trim_config_map(config_map: Object) -> Object:
    """Return a mirrored ConfigMap with its parsed record instead of the text. The record is None if it is not valid, or
    complete: then `ended` contains what is left of it."""
    parsed = record.read_record(config_map)
    is_newer = parsed is None and record.has_newer_format(config_map)
    return {**summarize_record(config_map["metadata"], parsed), **({"isNewer": True} if is_newer else {})}


def summarize_record(metadata: Object, parsed: Record | None) -> Object:
    """Return a ConfigMap as the controller keeps it in memory."""
    own = {key: metadata[key] for key in METADATA if key in metadata}
    own["namespace"] = sys.intern(own["namespace"])
    if parsed is not None and record.is_complete(parsed):
        return {"metadata": own, "record": None, "ended": EndedJob(parsed["uid"], parsed["ended"])}
    return {"metadata": {**own, "labels": metadata.get("labels") or {}}, "record": parsed}


class Store:
    """ConfigMaps with records, by namespace and name."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._written: dict[tuple[str, str], Object] = {}

    def records(self, namespace: str, mirrored: Iterable[Object]) -> dict[str, Object]:
        """Return the ConfigMaps of a namespace by name. Written changes that the mirror does not contain yet take precedence."""
        by_name = {str(config_map["metadata"]["name"]): config_map for config_map in mirrored}
        for key, written in [(key, written) for key, written in self._written.items() if key[0] == namespace]:
            copy = by_name.get(key[1])
            if copy is not None and _read_version(copy) == _read_version(written):
                del self._written[key]
            else:
                by_name[key[1]] = written
        return by_name

    def write(self, new: Record, stored: Object | None) -> bool:
        """Write a record. Returns False if another client changed it; the mirror will get the change soon."""
        if not record.is_valid_record(new):
            raise ValueError("the record would not be valid")
        body = record.build_config_map(new, stored)
        namespace, name = str(body["metadata"]["namespace"]), str(body["metadata"]["name"])
        self._written.pop((namespace, name), None)
        written = write_object(self._api, build_resource_path(CONFIG_MAPS, namespace), stored, body)
        if written is not None:
            self._written[namespace, name] = summarize_record(written["metadata"], new)
        return written is not None

    def prune_records(self, config_maps: Mapping[str, Object], living: Iterable[str], now: str) -> None:
        """Delete old records of jobs that no longer exist. `living`: names of the records of existing jobs."""
        limit = moments.parse_time(now) - timedelta(days=KEPT_DAYS)
        for name in config_maps.keys() - set(living):
            old, metadata = config_maps[name].get("ended"), config_maps[name]["metadata"]
            if old is None or moments.parse_time(old.ended) >= limit:
                continue
            print(f"{metadata['namespace']}/{name}: record of {old.ended} deleted", file=sys.stderr, flush=True)
            self._written.pop((metadata["namespace"], name), None)
            try:
                self._api.call("DELETE", build_resource_path(f"{CONFIG_MAPS}/{{}}", metadata["namespace"], name))
            except ApiError as error:
                print(f"{metadata['namespace']}/{name}: {error}", file=sys.stderr, flush=True)


def _read_version(config_map: Object) -> str:
    return str(config_map["metadata"]["resourceVersion"])
