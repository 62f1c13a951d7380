"""`scripts/cluster cancel`: a job and everything that belongs to it goes."""

import json
import time
from typing import Final

from cli import job_objects
from cli.cluster_access import Failed
from cli.exit_codes import FINE, NO_CLUSTER
from cli.submit import Where, failed

PATIENCE_SECONDS: Final = 120.0
EVERY_SECONDS: Final = 0.5


def run(name: str, where: Where, *, wait: bool, as_json: bool) -> int:
    try:
        cluster = where.connect()
        namespace = job_objects.default_namespace(cluster, where.namespace)
        state = job_objects.find(cluster, name, namespace)
        cluster.delete(state.kind, state.object_name, namespace)
        end = time.monotonic() + PATIENCE_SECONDS
        while wait and (left := job_objects.pods(cluster, state)):
            if time.monotonic() > end:
                named = ", ".join(pod["metadata"]["name"] for pod in left[:3])
                raise Failed(
                    f"job {name} is removed, but after {PATIENCE_SECONDS:.0f} s pods are still there: {named}", NO_CLUSTER
                )
            time.sleep(EVERY_SECONDS)
    except Failed as error:
        return failed("cancel", error, as_json=as_json)
    if as_json:
        print(json.dumps({"name": name, "namespace": namespace, "was": state.phase}, indent=1))
    else:
        print(f"job {name} removed")
    return FINE
