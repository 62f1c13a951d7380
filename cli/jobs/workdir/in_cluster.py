"""Folder of a job on the shared volume of a Kubernetes cluster. Short-lived pods write, read and remove it."""

import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Final

from tenacity import RetryError, Retrying, retry_if_result, stop_after_delay, wait_fixed

from cli.clusters import pod_streams
from cli.clusters.kubernetes_access import Cluster, Object
from cli.clusters.pod_streams import Container
from cli.console import say
from cli.errors import CommandError, NotFound
from cli.exit_codes import UNREACHABLE
from cli.installation import NAME
from cli.jobs import objects
from cli.jobs.state import STUCK, list_container_statuses
from cli.jobs.workdir import in_bucket
from cli.jobs.workdir.selection import Selection, select_files
from cli.jobs.workdir.sending import Sent, send_files
from infra.jobs import files
from infra.jobs.cluster import ClusterDescription
from infra.jobs.files import JobFiles
from infra.jobs.placed import PlacedJob, Storage
from infra.jobs.reading import JobRefused
from infra.naming import JOB_LABEL, WORKDIR_DAYS
from infra.platform.job_controller.in_pod.moments import parse_time

START_SECONDS: Final = 300.0
"""Time limit for the start of a pod that reads or writes files, including the waits for quota, a node and the image."""
POLL_SECONDS: Final = 0.5
JOB_NAME_LABEL: Final = "batch.kubernetes.io/job-name"


class Files:
    """Files of a job about to be submitted."""

    def __init__(self, placed: PlacedJob, folder: Path | None, limit_mib: int) -> None:
        """Choose the files to send. Raises CommandError, before creating anything, if they cannot be sent."""
        self._placed, self._id = placed, _generate_id()
        self._files = files.find_job_files(placed, self._id)
        self._selection: Selection | None = None
        if folder is not None:
            assert self._files is not None  # places.choose has checked this
            self._selection = select_files(folder, limit_mib)

    @property
    def storage(self) -> Storage:
        """Where commands start, and where logs are copied unless they go to CloudWatch."""
        if self._files is None:
            return Storage()
        workdir = self._files.workdir if self._selection is not None else ""
        return Storage(workdir=workdir, logs="" if self._placed.cluster.log_group else self._files.logs)

    def create(self, cluster: Cluster) -> None:
        """Record the folder in a ConfigMap, and send the files. On errors, delete both and raise CommandError."""
        if self._files is None:
            return
        remove_expired_files(cluster, self._job_namespace)
        cluster.create(files.build_folder_record(self._placed, self._id))
        if self._selection is None:
            return
        try:
            sent = self._send_files(cluster, self._selection, self._files)
        except BaseException:
            self.remove(cluster)
            raise
        for left_out in self._selection.left_out:
            say(f"{NAME}: not sent: {left_out}")
        say(f"{NAME}: sent {sent} from {self._selection.root}")

    def _send_files(self, cluster: Cluster, selection: Selection, target: JobFiles) -> Sent:
        with run_helper_job(cluster, files.build_waiting_job(self._placed, self._id)) as where:
            return send_files(selection, partial(pod_streams.run_command, cluster, where), target.jobs, target.folder)

    def remove(self, cluster: Cluster) -> None:
        """Remove the files because their job could not be created."""
        if self._files is not None:
            _remove_folder(cluster, self._placed, self._files)
            cluster.delete(
                "ConfigMap", files.build_folder_record(self._placed, self._id)["metadata"]["name"], self._job_namespace
            )

    @property
    def _job_namespace(self) -> str:
        return self._placed.namespace.name


def remove_workdir(cluster: Cluster, namespace: str, job: str) -> bool:
    """Remove the sent folder and the stored logs of a job, even if the job no longer exists.

    Return whether the job had a folder or logs.

    The folder is removed in the background, once the ranks have ended.
    """
    records = cluster.list("ConfigMap", namespace, {**files.SELECTOR, JOB_LABEL: job})
    return _remove_recorded_files(cluster, records, namespace)


def remove_expired_files(cluster: Cluster, namespace: str) -> None:
    """Remove files older than WORKDIR_DAYS if their job no longer exists.

    Kubernetes deletes jobs whose time to live has expired, but not their files.
    """
    records = cluster.list("ConfigMap", namespace, files.SELECTOR)
    old = [one for one in records if is_record_expired(one, datetime.now(UTC))]
    existing = {state.name for state in objects.list_jobs(cluster, namespace)} if old else set()
    for record in (one for one in old if one["metadata"]["labels"].get(JOB_LABEL) not in existing):
        try:
            _remove_recorded_files(cluster, [record], namespace)
        except CommandError as error:  # an error here must not keep users from submitting jobs
            say(f"{NAME}: the files of ConfigMap {record['metadata']['name']} were not removed: {error}")


def is_record_expired(record: Object, now: datetime) -> bool:
    return now - parse_time(record["metadata"]["creationTimestamp"]) > timedelta(days=WORKDIR_DAYS)


def _remove_recorded_files(cluster: Cluster, records: Sequence[Object], namespace: str) -> bool:
    """Remove the files that the records describe, and the records. Return whether any record was valid: users of the
    namespace can write any text into the records."""
    if not records:
        return False
    described = cluster.description()
    were_valid = [_remove_record(cluster, described, record, namespace) for record in records]
    return any(were_valid)


def _remove_record(cluster: Cluster, described: ClusterDescription, record: Object, namespace: str) -> bool:
    name = record["metadata"]["name"]
    try:
        if in_bucket.is_bucket_record(record):
            in_bucket.delete_object(described, in_bucket.derive_object_key(record, described, namespace))
        else:
            _remove_folder(cluster, *read_record(record, described, namespace))
    except JobRefused as error:
        fix = f"Delete it: kubectl delete configmap {name} -n {namespace}"
        say(f"{NAME}: ConfigMap {name}: is not a valid record of a job's files ({error.problems[0]}) {fix}")
        return False
    cluster.delete("ConfigMap", name, namespace)
    return True


def read_record(record: Object, described: ClusterDescription, namespace: str) -> tuple[PlacedJob, JobFiles]:
    """Return the job and the folder of a record. Raises JobRefused if the record is invalid."""
    job = record["metadata"]["labels"].get(JOB_LABEL, "")
    return files.parse_folder_record(job, record.get("data") or {}, described, namespace)


def _remove_folder(cluster: Cluster, placed: PlacedJob, folder: JobFiles) -> None:
    cluster.create(files.build_cleanup_job(placed, folder, _generate_id()))


def _generate_id() -> str:
    return secrets.token_hex(4)


# --- stored logs -------------------------------------------------------------------------------------------------------


def read_logs_on_volume(cluster: Cluster, namespace: str, job: str) -> dict[str, list[str]]:
    """Return the stored log lines of the job's last run, keyed by pod. Raises NotFound if no record of logs exists."""
    records = cluster.list("ConfigMap", namespace, {**files.SELECTOR, JOB_LABEL: job})
    for record in sorted(records, key=lambda record: str(record["metadata"]["creationTimestamp"]), reverse=True):
        try:
            placed, folder = read_record(record, cluster.description(), namespace)
        except JobRefused:  # the ConfigMap does not record a folder
            continue
        with run_helper_job(cluster, files.build_waiting_job(placed, _generate_id())) as where:
            ran = pod_streams.run_command(cluster, where, ["/bin/sh", "-c", _READ_LOGS, "logs", folder.folder])
        return group_by_pod(ran.stdout.decode(errors="replace"))
    raise NotFound(f"no logs of job {job} are kept in namespace {namespace}")


_READ_LOGS: Final = """cd "$1/logs" 2> /dev/null || exit 0
for file in $(ls -tr); do echo "/$file"; sed 's/^/ /' "$file"; done"""
"""Prints the log files, oldest first. Iterating over `ls` is safe, because pod names contain no spaces."""


def group_by_pod(text: str) -> dict[str, list[str]]:
    """Parse the output of _READ_LOGS into log lines, keyed by pod.

    >>> by_pod("/a-worker-0\\n one\\n two\\n/a-worker-1\\n")
    {'a-worker-0': ['one', 'two'], 'a-worker-1': []}
    """
    users: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in text.split("\n"):
        if line.startswith("/"):
            lines = users.setdefault(line[1:], [])
        elif line:
            lines.append(line[1:])
    return users


# --- pods --------------------------------------------------------------------------------------------------------------


@contextmanager
def run_helper_job(cluster: Cluster, job: Object) -> Iterator[Container]:
    """Run a helper Job, yield its container, and delete the Job. Raises CommandError if the Job does not start."""
    name, namespace = job["metadata"]["name"], job["metadata"]["namespace"]
    cluster.create(job)
    try:
        polling = Retrying(
            retry=retry_if_result(lambda answer: answer is None),
            stop=stop_after_delay(START_SECONDS),
            wait=wait_fixed(POLL_SECONDS),
        )
        try:
            where = polling(find_running_container, cluster, name, namespace)
        except RetryError:
            reason = explain_pending_pod(cluster, name, namespace)
            raise CommandError(
                f"the helper pod for job files did not start in {START_SECONDS:.0f} s: {reason}", UNREACHABLE
            ) from None
        assert where is not None  # polling ends only when the pod has a container
        yield where
    finally:
        cluster.delete("Job", name, namespace)


def _list_helper_pods(cluster: Cluster, job: str, namespace: str) -> list[Object]:
    return cluster.list("Pod", namespace, {JOB_NAME_LABEL: job})


def find_running_container(cluster: Cluster, job: str, namespace: str) -> Container | None:
    for pod in _list_helper_pods(cluster, job, namespace):
        for one in list_container_statuses(pod):
            if "running" in one.get("state", {}):
                return Container(pod["metadata"]["name"], namespace, one["name"])
            waiting = one.get("state", {}).get("waiting", {})
            if waiting.get("reason") in STUCK:
                message = " ".join(str(waiting.get("message", "")).split())
                raise CommandError(f"the helper pod for job files cannot start: {waiting['reason']}: {message}")
    return None


def explain_pending_pod(cluster: Cluster, job: str, namespace: str) -> str:
    for pod in _list_helper_pods(cluster, job, namespace):
        for condition in pod["status"].get("conditions", ()):
            if condition["status"] == "False" and condition.get("message"):
                return str(condition["message"])
        return "its container is still being created"
    return "the queue has not admitted it"
