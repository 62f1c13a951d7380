"""Read job records, which the job controller keeps after a job has ended or has been deleted."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tenacity import RetryError, Retrying, retry_if_result, stop_after_delay, wait_fixed

from cli.clusters.kubernetes_access import Cluster
from cli.console import print_progress_once
from cli.errors import NotFound
from cli.installation import NAME
from infra.naming import RECORD_LABEL
from infra.platform.job_controller.in_pod import record
from infra.platform.job_controller.in_pod.moments import parse_time
from infra.platform.job_controller.in_pod.progress import SLOW_STEPS
from infra.platform.job_controller.in_pod.stacks import format_ranges

Key = tuple[str, str, datetime]
"""Namespace, name and creation time, which identify a job. The name alone can be reused by a later job."""
COMPLETE_SECONDS, PAUSE_SECONDS = 20.0, 0.5


@dataclass(frozen=True)
class JobRecord:
    """The record of one job."""

    config_map: str
    content: Mapping[str, Any]

    @property
    def key(self) -> Key:
        return self.content["namespace"], self.content["name"], parse_time(self.content["created"])

    def gpu_hours(self, now: datetime) -> float:
        """Return the GPU hours that the job has used so far."""
        running_workers = [worker for worker in self.content["workers"] if worker["to"] is None]
        running = sum(worker["gpus"] * max(0.0, (now - parse_time(worker["from"])).total_seconds()) for worker in running_workers)
        return float((self.content["gpuSeconds"] + running) / 3600)

    @property
    def hang(self) -> str:
        """Why the last attempt hung, or why the job is not monitored for hangs; empty if neither applies."""
        ended = [attempt for attempt in self.content["attempts"] if attempt["outcome"]]
        if not ended or not ended[-1].get("hang"):
            return str(self.content.get("progressProblem", ""))
        return "; ".join(filter(None, (f"restarted after a {ended[-1]['cause']}", ended[-1]["hang"].get("where", ""))))

    @property
    def slow_rank_reason(self) -> str:
        """Sentence about the rank that the other ranks wait for in each step; empty if there is none."""
        attempts = self.content["attempts"]
        slow = attempts and not attempts[-1]["outcome"] and (attempts[-1].get("steps") or {}).get("slow")
        if not slow or slow["steps"] < SLOW_STEPS:
            return ""
        where = f" on {slow['node']}" if slow.get("node") else ""
        return f"rank {slow['rank']}{where} is slow: {slow['ratio']:.1f} times the median of all ranks since step {slow['since']}"

    def as_json(self, now: datetime) -> dict[str, Any]:
        """Return the fields that `jobs --all --json` adds."""
        keys = ("restarts", "failures", "disruptions", "exitCode", "phases", "attempts", "setup", "workers")
        return {"gpuHours": round(self.gpu_hours(now), 3), **{key: self.content[key] for key in keys if key in self.content}}


def list_records(cluster: Cluster, namespace: str | None, job: str = "") -> list[JobRecord]:
    """Return the records of one namespace or of all namespaces, or only those of `job`. Skip malformed and newer records."""
    config_maps = cluster.list_labeled("ConfigMap", f"{RECORD_LABEL}={job}" if job else RECORD_LABEL, namespace)
    return [record for record in map(_parse_record, config_maps) if record is not None]


def find_record(records: Iterable[JobRecord], key: Key) -> JobRecord | None:
    """Return the record of a job, or None if the job has no record."""
    return next((record for record in records if record.key == key), None)


def wait_until_record_is_complete(cluster: Cluster, key: Key) -> None:
    """Wait until the controller has completed the record of a deleted job.

    If the record were deleted earlier, the controller would recreate it.
    """

    def is_record_open() -> bool:
        record = find_record(list_records(cluster, key[0]), key)
        return record is not None and record.content["ended"] is None

    polling = Retrying(retry=retry_if_result(bool), stop=stop_after_delay(COMPLETE_SECONDS), wait=wait_fixed(PAUSE_SECONDS))
    with suppress(RetryError):  # without a job controller, the record stays as it is
        polling(is_record_open)


def _parse_record(config_map: Mapping[str, Any]) -> JobRecord | None:
    """Return a record. Users of a namespace can write its ConfigMaps: a malformed record is left out, with a note
    printed once."""
    content, metadata = record.read_record(dict(config_map)), config_map["metadata"]
    if content is not None:
        return JobRecord(metadata["name"], content)
    if not record.has_newer_format(dict(config_map)):
        name, namespace = metadata["name"], metadata.get("namespace", "")
        fix = f"Delete it: kubectl delete configmap {name} -n {namespace}"
        print_progress_once(f"{NAME}: ConfigMap {name} in namespace {namespace} is not a valid record of a job. {fix}")
    return None


def find_last_hang(cluster: Cluster, namespace: str, name: str) -> Mapping[str, Any]:
    """Return the last hung attempt of the newest job with this name, even if the job was deleted. Raises NotFound."""
    own = sorted(
        (record for record in list_records(cluster, namespace) if record.content["name"] == name), key=lambda record: record.key
    )
    if not own:
        raise NotFound(f"there is no record of job {name} in namespace {namespace}")
    hung = [attempt for attempt in own[-1].content["attempts"] if attempt.get("hang")]
    if not hung:
        raise NotFound(f"no attempt of {name} ended because of a hang")
    attempt: Mapping[str, Any] = hung[-1]
    return attempt


def format_hang_report(attempt: Mapping[str, Any]) -> Iterator[str]:
    """Yield a readable report of a hang."""
    hang = attempt["hang"]
    yield f"attempt {attempt['number']}, {hang['at']}: {attempt['cause']}"
    yield ""
    yield "last lines of the log:"
    yield from (f"    {line}" for line in hang.get("log") or ["none"])
    if not hang.get("ranks"):
        yield ""
        yield "the ranks' stacks are unknown: no pod answered in time"
    yield from (f"    {line}" for line in hang.get("unknown", ()))
    for group in hang.get("ranks", ()):
        numbers = format_ranges(group["ranks"])
        yield ""
        yield f"rank{'' if numbers.isdigit() else 's'} {numbers}{': ' if group['at'] else ''}{group['at']}"
        yield from (f"    {line}" for line in group["lines"])
    if hang.get("nccl"):
        yield ""
        yield "NCCL:"
        yield from (f"    {line}" for line in hang["nccl"])
