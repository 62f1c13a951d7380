"""Waits until the job's launcher has come to its end, then ends itself: the workers go with it, by Kubernetes' garbage collector.

It may read pods and nothing else. Arguments: namespace, the launcher's Job, how many failed attempts are too many.
"""

import json
import ssl
import sys
import time
import urllib.request
from pathlib import Path

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
EVERY_SECONDS = 2
LONGEST_PAUSE = 600 + 60
"""Kubernetes pauses between attempts, at most ten minutes: https://kubernetes.io/docs/concepts/workloads/controllers/job/"""


def pods(namespace: str, job: str) -> "list[str]":
    """The phases of the launcher's pods, one per attempt."""
    query = f"labelSelector=batch.kubernetes.io/job-name%3D{job}"
    url = f"https://kubernetes.default.svc/api/v1/namespaces/{namespace}/pods?{query}"
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {(ACCOUNT / 'token').read_text()}"})
    context = ssl.create_default_context(cafile=str(ACCOUNT / "ca.crt"))
    with urllib.request.urlopen(request, timeout=10, context=context) as answer:
        return [pod["status"].get("phase", "Unknown") for pod in json.load(answer)["items"]]


def is_over(phases: "list[str]", most_failures: int, idle_seconds: float) -> bool:
    """Whether the launcher will not run again."""
    if "Succeeded" in phases or phases.count("Failed") > most_failures:
        return True
    return idle_seconds > LONGEST_PAUSE


def main(namespace: str, job: str, most_failures: int) -> None:
    last_active = time.monotonic()
    while True:
        try:
            phases = pods(namespace, job)
        except OSError as error:  # the API server is away for a moment; the workers stay meanwhile
            print("cannot ask:", error, file=sys.stderr, flush=True)
            last_active = time.monotonic()
            phases = []
        if any(phase in ("Pending", "Running", "Unknown") for phase in phases):
            last_active = time.monotonic()
        elif is_over(phases, most_failures, time.monotonic() - last_active):
            print("the launcher has ended:", ", ".join(phases) or "no pod", flush=True)
            return
        time.sleep(EVERY_SECONDS)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
