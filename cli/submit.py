"""`scripts/cluster submit`: a job file -> a job in the cluster."""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import yaml

from cli import job_objects
from cli.cluster_access import Cluster, Failed
from cli.exit_codes import FINE, INTERRUPTED, NOT_FOUND, REFUSED
from cli.job_log import Follower
from cli.job_state import JobState
from infra.jobs.model import Job
from infra.jobs.reading import JobRefused, read
from infra.jobs.render import Piece, render


@dataclass(frozen=True)
class Where:
    """Which cluster, and where in it."""

    kubeconfig: Path | None = None
    context: str | None = None
    namespace: str | None = None

    def connect(self) -> Cluster:
        return Cluster(self.kubeconfig, self.context)


def run(file: Path, where: Where, *, follow: bool, dry_run: bool, as_json: bool) -> int:
    """Submit a job, or show what would be; the exit code says how it ended."""
    try:
        if not file.is_file():
            raise Failed(f"there is no job file {file}", NOT_FOUND)
        cluster = where.connect()
        job = read(file, described := cluster.description(), where.namespace, cluster.namespace)
        pieces = render(job, described)
        if dry_run:
            return _shown(pieces, as_json=as_json)
        return submitted(cluster, job, pieces, follow=follow, as_json=as_json)
    except JobRefused as error:
        return refused(file.name, error, as_json=as_json)
    except Failed as error:
        return failed("submit", error, as_json=as_json)


def submitted(cluster: Cluster, job: Job, pieces: Sequence[Piece], *, follow: bool, as_json: bool) -> int:
    """Make the objects; with `follow` stay until the job's end."""
    namespace = pieces[0].manifest["metadata"]["namespace"]
    job_objects.refuse_existing(cluster, pieces)
    job_objects.create(cluster, pieces)
    if follow:
        print(f"cluster: job {job.name} submitted to namespace {namespace}", file=sys.stderr, flush=True)
        return followed(cluster, job.name, namespace, as_json=as_json)
    if as_json:
        print(json.dumps({"name": job.name, "namespace": namespace, "objects": [piece.key for piece in pieces]}, indent=1))
    else:
        print(f"job {job.name} submitted to namespace {namespace}; look on with: scripts/cluster logs {job.name} --follow")
    return FINE


def followed(cluster: Cluster, name: str, namespace: str, *, as_json: bool) -> int:
    """The job's log, then its result; with `--json` the log goes to the other stream."""
    follower = Follower(cluster, name, namespace, out=sys.stderr if as_json else sys.stdout)
    try:
        state, code = follower.run()
    except KeyboardInterrupt:
        print(f"\ncluster: job {name} goes on; to end it: scripts/cluster cancel {name}", file=sys.stderr)
        return INTERRUPTED
    if as_json:
        now = datetime.now(UTC)
        print(json.dumps(state.as_json(now) if state else {"name": name, "namespace": namespace, "phase": "Removed"}, indent=1))
    elif state:
        print(f"cluster: {result(state)}", file=sys.stderr)
    return code


def result(state: JobState) -> str:
    """`job train succeeded after 12 s`"""
    seconds = state.seconds(datetime.now(UTC))
    after = f", after {state.failures} failed attempt{'' if state.failures == 1 else 's'}" if state.failures else ""
    if state.phase == "Succeeded":
        return f"job {state.name} succeeded in {seconds} s{after}"
    reason = f": {state.reason}" if state.reason else ""
    log = f"scripts/cluster logs {state.name}"
    too_long = "a rank hung, or deadlineSeconds is too short"  # the words of Kubernetes' Job controller
    hint = f"{too_long}: {log}" if "deadline" in state.reason.lower() else f"its log says more: {log}"
    return f"job {state.name} failed in {seconds} s{reason}; {hint}"


def _shown(pieces: Sequence[Piece], *, as_json: bool) -> int:
    """What would be made. A key pair shown here is never used."""
    manifests = [piece.manifest for piece in pieces]
    if as_json:
        print(json.dumps(manifests, indent=1))
    else:
        print(yaml.safe_dump_all(manifests, sort_keys=False), end="")
    return FINE


# --- errors of every job verb ------------------------------------------------------------------------------------------


def refused(file: str, error: JobRefused, *, as_json: bool) -> int:
    if as_json:
        found = [{"path": problem.path, "message": problem.message} for problem in error.problems]
        print(json.dumps({"file": file, "problems": found}, indent=1))
    else:
        number = len(error.problems)
        print(error, file=sys.stderr)
        print(f"{file}: {number} problem{'' if number == 1 else 's'}; nothing was submitted", file=sys.stderr)
    return REFUSED


def failed(verb: str, error: Failed, *, as_json: bool) -> int:
    if as_json:
        print(json.dumps({"error": str(error), "exitCode": error.code}, indent=1))
    else:
        print(f"cluster {verb}: {error}", file=sys.stderr)
    return error.code
