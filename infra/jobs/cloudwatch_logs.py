"""Logs of submitted jobs in CloudWatch Logs: each pod sends its output to its own log stream.

A log stream is named `NAMESPACE/JOB/RUN/POD`. A pod's IAM role permits writes only to streams whose names contain the
pod's own namespace and name.
"""

from collections.abc import Sequence
from copy import deepcopy
from typing import Final

from infra.jobs.files import LOG_LIMIT_MIB, rank_pods
from infra.jobs.in_pods import text
from infra.jobs.pieces import Piece
from infra.jobs.pods import Manifest, PlacedJob, user_containers

PIPE: Final = "/tmp/log"


def streams(namespace: str, job: str) -> str:
    """Return the prefix of the log streams of all runs of a job.

    >>> streams("mpi-jobs", "mnist")
    'mpi-jobs/mnist/'
    """
    return f"{namespace}/{job}/"


def used_by(pieces: Sequence[Piece], placed: PlacedJob, run: str) -> list[Piece]:
    """Return copies of a job's objects in which pods send their logs to the cluster's log group."""
    made = [Piece(deepcopy(piece.manifest), piece.owner) for piece in pieces]
    for one in (one for piece in made for pod in rank_pods(piece.manifest) for one in user_containers(pod)):
        _send_log(one, placed, run)
    return made


def _send_log(one: Manifest, placed: PlacedJob, run: str) -> None:
    name = {"name": "GPUMPI_LOG_POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
    values = {
        "GPUMPI_LOG_GROUP": placed.cluster.log_group,
        "GPUMPI_LOG_REGION": placed.cluster.region,
        "GPUMPI_LOG_STREAM": f"{streams(placed.namespace.name, placed.job.name)}{run}/$(GPUMPI_LOG_POD)",
        "GPUMPI_LOG_BYTES": str(LOG_LIMIT_MIB << 20),
        "GPUMPI_LOG": PIPE,
        "GPUMPI_LOG_BLOCKS": "unlimited",
    }
    one["env"] = [*one["env"], name, *({"name": key, "value": value} for key, value in values.items())]
    shell, option, script, *rest = one["command"]
    program = f"cat > /tmp/send-log.py <<'END-OF-PROGRAM'\n{text('send_log.py')}END-OF-PROGRAM\n"
    one["command"] = [shell, option, program + text("send_log.sh") + text("log.sh") + script, *rest]
