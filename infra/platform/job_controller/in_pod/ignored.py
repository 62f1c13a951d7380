"""Reports to users, with an event and in the log, which of their documents the controller ignores because they are invalid."""

import sys
import zlib
from collections.abc import Iterable, Mapping

from infra.naming import RECORD_KEY

from .actions import Report
from .api import Api, Object
from .job import ManagedJob

REPORTS_PER_ROUND = 10
"""The limit applies per namespace: a user may write thousands of invalid documents."""
INVALID_RECORD = f"{RECORD_KEY}: ignored because it is not a valid record of a job"
NAME_LENGTH = 200
"""Maximum number of characters of an object's name in the name of its event, which may have 253 characters."""


class IgnoredDocuments:
    """Reports each ignored document of a namespace once. A new controller creates no second event: the names of both
    events are equal."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._reported: dict[str, set[str]] = {}
        """Maps each namespace to the names of the events about documents that still exist."""

    def report(self, namespace: str, jobs: Iterable[ManagedJob], records: Iterable[Object], now: str) -> None:
        reports = {report.name: report for report in (*_report_annotations(jobs), *_report_records(records))}
        reported = self._reported[namespace] = self._reported.get(namespace, set()) & reports.keys()
        for name in [name for name in reports if name not in reported][:REPORTS_PER_ROUND]:
            report = reports[name]
            print(f"{namespace}/{report.about['name']}: {report.message}", file=sys.stderr, flush=True)
            reported.add(name)
            report.perform(self._api, now)


def _report_annotations(jobs: Iterable[ManagedJob]) -> list[Report]:
    return [_build_report(job.build_reference(), job.ignored_parts_message) for job in jobs if job.ignored_parts_message]


def _report_records(records: Iterable[Object]) -> list[Report]:
    invalid = [
        stored["metadata"]
        for stored in records
        if stored["record"] is None and "ended" not in stored and not stored.get("isNewer")
    ]
    keys = ("name", "namespace", "uid")
    return [
        _build_report({"apiVersion": "v1", "kind": "ConfigMap", **{key: metadata[key] for key in keys}}, INVALID_RECORD)
        for metadata in invalid
    ]


def _build_report(about: Mapping[str, str], sentence: str) -> Report:
    name = f"{about['name'][:NAME_LENGTH].rstrip('-.')}.{zlib.crc32(sentence.encode()):08x}.{about['uid']}"
    return Report(name, about, "Ignored", sentence)
