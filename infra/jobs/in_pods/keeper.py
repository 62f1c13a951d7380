"""Cleanup controller: wait until the job's launcher has ended, then exit. Kubernetes then garbage-collects the workers.

It may only read pods and the launcher's Job. Arguments: the namespace, the launcher's Job, and the maximum number of failed
attempts, or `job` where a job controller decides whether the Job has ended. For keys
on a volume, also: the directory of the keys, which it deletes at the end, and the labels of the job's workers.
"""

import json
import shutil
import signal
import ssl
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
EVERY_SECONDS = 2
LONGEST_PAUSE = 600 + 60
"""Kubernetes pauses for at most ten minutes between attempts, and this adds a minute:
https://kubernetes.io/docs/concepts/workloads/controllers/job/"""
LAST_SECONDS = 20
"""Time limit of `is_taken_away`: Kubernetes kills a pod 30 seconds after SIGTERM."""
ENDED_BY_SIGNAL = 128 + signal.SIGTERM


def pods(namespace: str, labels: str) -> "list[dict[str, Any]]":
    """Return the pods with these labels. Raises OSError."""
    query = urllib.parse.urlencode({"labelSelector": labels})
    url = f"https://kubernetes.default.svc/api/v1/namespaces/{namespace}/pods?{query}"
    found: list[dict[str, Any]] = _get(url)["items"]
    return found


def _get(url: str) -> "dict[str, Any]":
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {(ACCOUNT / 'token').read_text()}"})
    context = ssl.create_default_context(cafile=str(ACCOUNT / "ca.crt"))
    with urllib.request.urlopen(request, timeout=10, context=context) as answer:
        found: dict[str, Any] = json.load(answer)
    return found


def state_of(namespace: str, job: str) -> str:
    """Return `ended`, `running` or `absent` for the launcher's Job. Raises OSError."""
    url = f"https://kubernetes.default.svc/apis/batch/v1/namespaces/{namespace}/jobs/{job}"
    try:
        found = _get(url)
    except urllib.error.HTTPError as error:
        if error.code == 404:
            return "absent"
        raise
    if "deletionTimestamp" in found["metadata"]:  # of the previous run of a stack's job, which up replaces
        return "absent"
    conditions = found.get("status", {}).get("conditions") or ()
    is_ended = any(one["type"] in ("Complete", "Failed") and one["status"] == "True" for one in conditions)
    return "ended" if is_ended else "running"


def wait_for_job(namespace: str, job: str) -> None:
    """Wait until the launcher's Job has ended or was deleted. Stacks create it after this controller."""
    latest_start = time.monotonic() + LONGEST_PAUSE
    while True:
        try:
            state = state_of(namespace, job)
        except OSError as error:
            print("cannot ask:", error, file=sys.stderr, flush=True)
            state = "unknown"
        if state == "running":
            latest_start = 0.0
        if state == "ended" or (state == "absent" and time.monotonic() > latest_start):
            print("the launcher has ended", flush=True)
            return
        time.sleep(EVERY_SECONDS)


def is_over(phases: "list[str]", most_failures: int, idle_seconds: float) -> bool:
    """Return whether the launcher will not run again."""
    if "Succeeded" in phases or phases.count("Failed") > most_failures:
        return True
    return idle_seconds > LONGEST_PAUSE


def wait(namespace: str, attempts: str, most_failures: int) -> None:
    """Wait until the launcher has ended. `attempts` selects its pods by label; there is one pod per attempt."""
    last_active = time.monotonic()
    while True:
        try:
            phases = [pod["status"].get("phase", "Unknown") for pod in pods(namespace, attempts)]
        except OSError as error:  # the API server is down for a moment; keep the workers meanwhile
            print("cannot ask:", error, file=sys.stderr, flush=True)
            last_active = time.monotonic()
            phases = []
        if any(phase in ("Pending", "Running", "Unknown") for phase in phases):
            last_active = time.monotonic()
        elif is_over(phases, most_failures, time.monotonic() - last_active):
            print("the launcher has ended:", ", ".join(phases) or "no pod", flush=True)
            return
        time.sleep(EVERY_SECONDS)


def is_taken_away(namespace: str, attempts: str, workers: str) -> bool:
    """Return whether the whole job is being deleted, and not only this pod, for example because its node is drained.

    In the first case, the workers are being deleted too, or the launcher has no pods any more, or this pod has already
    lost its permissions. In the second case, Kubernetes replaces this pod.
    """
    end, seen = time.monotonic() + LAST_SECONDS, []
    while time.monotonic() < end:
        try:
            if all("deletionTimestamp" in pod["metadata"] for pod in pods(namespace, workers)):
                return True
            seen.append(bool(pods(namespace, attempts)))
        except urllib.error.HTTPError as error:
            if error.code in (401, 403):
                return True
        except OSError as error:
            print("cannot ask:", error, file=sys.stderr, flush=True)
        time.sleep(1)
    return bool(seen) and not any(seen)


def main(namespace: str, job: str, most_failures: "int | None", keys: str = "", workers: str = "") -> None:
    attempts = f"batch.kubernetes.io/job-name={job}"
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(ENDED_BY_SIGNAL))  # PID 1 ignores signals without a handler
    try:
        wait_for_job(namespace, job) if most_failures is None else wait(namespace, attempts, most_failures)
    except SystemExit:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if keys and is_taken_away(namespace, attempts, workers):
            shutil.rmtree(keys, ignore_errors=True)
        raise
    if keys:
        shutil.rmtree(keys, ignore_errors=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], None if sys.argv[3] == "job" else int(sys.argv[3]), *sys.argv[4:])
