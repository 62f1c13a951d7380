"""Cleanup controller: wait until the launcher's Job has ended, then exit. Kubernetes then garbage-collects the workers.

It may only read the launcher's Job. Arguments: the namespace, the Job, and for keys on a volume the directory of the keys,
which it deletes at the end.
"""

import json
import shutil
import signal
import ssl
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
EVERY_SECONDS = 2
LONGEST_ABSENCE = 600 + 60
"""How long the Job may not exist yet: stacks create it after this controller, and only once volumes and queues exist."""
LAST_SECONDS = 20
"""Time limit of `is_job_deleted`: Kubernetes kills a pod 30 seconds after SIGTERM."""
ENDED_BY_SIGNAL = 128 + signal.SIGTERM


def get(url: str) -> "dict[str, Any]":
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {(ACCOUNT / 'token').read_text()}"})
    context = ssl.create_default_context(cafile=str(ACCOUNT / "ca.crt"))
    with urllib.request.urlopen(request, timeout=10, context=context) as answer:
        document: dict[str, Any] = json.load(answer)
    return document


def state_of(namespace: str, job: str) -> str:
    """Return `ended`, `running` or `absent` for the launcher's Job; `forbidden` or `unknown` if it cannot be read."""
    try:
        document = get(f"https://kubernetes.default.svc/apis/batch/v1/namespaces/{namespace}/jobs/{job}")
    except OSError as error:
        code = error.code if isinstance(error, urllib.error.HTTPError) else 0
        if code == 404:
            return "absent"
        print("cannot read the launcher's Job:", error, file=sys.stderr, flush=True)
        return "forbidden" if code in (401, 403) else "unknown"
    if "deletionTimestamp" in document["metadata"]:  # also of the previous run of a stack's job, which up replaces
        return "absent"
    conditions = document.get("status", {}).get("conditions") or ()
    has_ended = any(item["type"] in ("Complete", "Failed") and item["status"] == "True" for item in conditions)
    return "ended" if has_ended else "running"


def wait_for_job(namespace: str, job: str) -> None:
    """Wait until the launcher's Job has ended or was deleted."""
    latest_start = time.monotonic() + LONGEST_ABSENCE
    while True:
        state = state_of(namespace, job)
        if state == "running":
            latest_start = 0.0
        if state == "ended" or (state == "absent" and time.monotonic() > latest_start):
            print("the launcher has ended", flush=True)
            return
        time.sleep(EVERY_SECONDS)


def is_job_deleted(namespace: str, job: str) -> bool:
    """Return whether the whole job is being deleted, with this controller's permissions, and not only this pod, for example
    because its node is drained. Kubernetes then replaces this pod."""
    end = time.monotonic() + LAST_SECONDS
    while time.monotonic() < end:
        if state_of(namespace, job) in ("absent", "forbidden"):
            return True
        time.sleep(1)
    return False


def main(namespace: str, job: str, keys: str = "") -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(ENDED_BY_SIGNAL))  # PID 1 ignores signals without a handler
    try:
        wait_for_job(namespace, job)
    except SystemExit:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if keys and is_job_deleted(namespace, job):
            shutil.rmtree(keys, ignore_errors=True)
        raise
    if keys:
        shutil.rmtree(keys, ignore_errors=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
