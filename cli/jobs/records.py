"""Read job records, which the job controller keeps after a job has ended or has been deleted."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tenacity import RetryError, Retrying, retry_if_result, stop_after_delay, wait_fixed

from cli.clusters.kubernetes_access import Cluster
from cli.console import say_once
from cli.installation import NAME
from cli.jobs.state import JobState
from cli.jobs.times import moment
from infra.naming import RECORD_LABEL
from infra.platform.job_controller.in_pod import record
from infra.platform.job_controller.in_pod.stragglers import SLOW_STEPS

COMPLETE_SECONDS, PAUSE_SECONDS = 20.0, 0.5
PHASES = {"Setup": "Queued", "Restarting": "Starting"}
"""Phase in a record -> phase that `jobs` shows, where they differ."""


@dataclass(frozen=True)
class JobRecord:
    """The record of one job."""

    config_map: str
    content: Mapping[str, Any]

    @property
    def key(self) -> tuple[str, str, datetime]:
        """Namespace, name and creation time, which identify the job. The name alone can be reused by a later job."""
        return self.content["namespace"], self.content["name"], moment(self.content["created"])

    def gpu_hours(self, now: datetime) -> float:
        """Return the GPU hours that the job has used so far."""
        open_ones = [one for one in self.content["workers"] if one["to"] is None]
        running = sum(one["gpus"] * max(0.0, (now - moment(one["from"])).total_seconds()) for one in open_ones)
        return float((self.content["gpuSeconds"] + running) / 3600)

    def state(self) -> JobState:
        """Return the state of a job that no longer exists."""
        found = self.content
        return JobState(
            name=found["name"],
            namespace=found["namespace"],
            kind="",
            object_name=found["name"],
            launcher=found.get("launcher", ""),
            pool=found.get("pool", ""),
            workers=found.get("size", 0),
            phase=PHASES.get(found["phase"], found["phase"]),
            reason=found["reason"],
            failures=found["failures"],
            created=moment(found["created"]),
            ended=moment(found["ended"]) if found["ended"] else None,
        )

    @property
    def hang(self) -> str:
        """Why the last attempt hung, or why the job is not monitored for hangs; empty if neither applies."""
        ended = [one for one in self.content["attempts"] if one["outcome"]]
        if not ended or not ended[-1].get("hang"):
            return str(self.content.get("progressProblem", ""))
        return "; ".join(filter(None, (f"restarted after a {ended[-1]['cause']}", ended[-1]["hang"].get("where", ""))))

    @property
    def slow(self) -> str:
        """Sentence about the rank that the other ranks wait for in each step; empty if there is none."""
        attempts = self.content["attempts"]
        slow = attempts and not attempts[-1]["outcome"] and (attempts[-1].get("steps") or {}).get("slow")
        if not slow or slow["steps"] < SLOW_STEPS:
            return ""
        where = f" on {slow['node']}" if slow.get("node") else ""
        return f"rank {slow['rank']}{where} is slow: {slow['ratio']:.1f} times the median of all ranks since step {slow['since']}"

    def as_json(self, now: datetime) -> dict[str, Any]:
        """Return the fields that `jobs --all --json` adds."""
        kept = ("restarts", "failures", "disruptions", "exitCode", "phases", "attempts", "setup", "workers")
        return {"gpuHours": round(self.gpu_hours(now), 3), **{key: self.content[key] for key in kept if key in self.content}}


def all_records(cluster: Cluster, namespace: str | None) -> list[JobRecord]:
    """Return the records of one namespace or of all namespaces. Skip malformed and newer records."""
    found = cluster.list_labeled("ConfigMap", RECORD_LABEL, namespace)
    return [record for record in map(_read, found) if record is not None]


def of_job(records: Iterable[JobRecord], state: JobState) -> JobRecord | None:
    """Return the record of an existing job, or None if the job has no record."""
    return next((one for one in records if one.key == (state.namespace, state.name, state.created)), None)


def await_end(cluster: Cluster, state: JobState) -> None:
    """Wait until the controller has completed the record of a deleted job.

    If the record were deleted earlier, the controller would recreate it.
    """
    polling = Retrying(retry=retry_if_result(bool), stop=stop_after_delay(COMPLETE_SECONDS), wait=wait_fixed(PAUSE_SECONDS))
    with suppress(RetryError):  # without a controller, the record stays as it is
        polling(_is_open, cluster, state)


def _is_open(cluster: Cluster, state: JobState) -> bool:
    found = of_job(all_records(cluster, state.namespace), state)
    return found is not None and found.content["ended"] is None


def _read(config_map: Mapping[str, Any]) -> JobRecord | None:
    """Return a record. Users of a namespace can write its ConfigMaps: a malformed record is left out, with one note."""
    content, metadata = record.read(dict(config_map)), config_map["metadata"]
    if content is not None:
        return JobRecord(metadata["name"], content)
    if not record.is_newer(dict(config_map)):
        name, namespace = metadata["name"], metadata.get("namespace", "")
        fix = f"Delete it: kubectl delete configmap {name} -n {namespace}"
        say_once(f"{NAME}: ConfigMap {name} in namespace {namespace} is not a valid record of a job. {fix}")
    return None
