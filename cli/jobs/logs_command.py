"""`logs`: print the log of a job's launcher, or the logs of its workers."""

import sys
from collections.abc import Mapping, Sequence
from typing import Annotated

import typer

from cli import options
from cli.clusters.kubernetes_access import Access, Cluster
from cli.console import print_json, print_result, say
from cli.ec2 import remote_runs
from cli.errors import CommandError, NotFound
from cli.exit_codes import OK, USAGE
from cli.installation import NAME
from cli.jobs import cloudwatch_logs, objects, records, worker_logs
from cli.jobs.follow_log import PodLog, select_log_pods
from cli.jobs.job_pods import check_worker
from cli.jobs.state import JobState
from cli.jobs.submit import follow_job
from cli.jobs.waits import Waits
from cli.jobs.workdir.in_cluster import read_logs_on_volume
from cli.output import print_log_line


def command(
    name: Annotated[str, typer.Argument(help="Job name.")],
    stack: options.Ec2Stack = None,
    worker: Annotated[int | None, typer.Option("--worker", "-w", min=0, help="Print only the log of this worker.")] = None,
    every: Annotated[
        bool, typer.Option("--all", help="Print the logs of all pods; each line starts with its pod, such as worker-0.")
    ] = False,
    hang: Annotated[
        bool, typer.Option("--hang", help="Show why the job was last restarted after a hang, and what each rank was doing.")
    ] = False,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Follow the log through restarts until the job ends.")] = False,
    *,
    access: Access,
    identity: options.Identity = None,
    config_dir: options.ConfigDir = options.STACK_FILES,
    as_json: options.Json = False,
) -> int:
    """Prints the log of the launcher's last attempt; for torchrun jobs, the log of rank 0's pod.

    Logs of deleted pods come from the shared volume, or from CloudWatch with `platform.jobLogs: cloudwatch`.

    MPI sends the output of all ranks to the launcher. With `rankPrefix: true`, each line starts with its rank.

    With --stack, NAME is a run on the head node of an EC2 cluster.

    With --follow, the exit code shows whether the job succeeded, and --json prints the log on stderr and the result on stdout.
    """
    if every and worker is not None:
        raise CommandError("--worker and --all exclude each other", USAGE)
    if hang and (every or worker is not None or follow or stack):
        raise CommandError("--hang excludes --worker, --all, --follow and --stack", USAGE)
    if stack:
        if every or worker is not None:
            raise CommandError(
                "--worker, --all: not available for EC2 clusters. Omit these options: the log of a run contains the "
                "output of all ranks",
                USAGE,
            )
        with remote_runs.connect_to_runs(stack, config_dir, identity) as runs:
            return remote_runs.print_log(runs, name, follow=follow, as_json=as_json)
    cluster = access.connect()
    place = objects.choose_namespace(cluster, access.namespace)
    if hang:
        return _print_hang(cluster, place, name, as_json=as_json)
    choose = worker_logs.select_all_pods if every else worker_logs.select_worker(worker) if worker is not None else None
    try:
        state = objects.find_job(cluster, name, place)
    except NotFound:
        lines = find_logs(cluster, place, name, worker, every=every)
        if lines is None:
            raise
        _print_logs(lines, {"name": name, "namespace": place, "phase": "Deleted", "reason": ""}, every=every, as_json=as_json)
        return OK
    check_worker(state, worker)
    if follow:
        return follow_job(cluster, name, place, as_json=as_json, choose=choose, prefixed=every)
    if choose:
        lines = dict(worker_logs.read_latest_logs(cluster, choose(state.pods, state), state))
    else:
        lines = read_last_log(cluster, state)
    if not lines:
        lines = find_logs(cluster, place, name, worker, every=every) or {}
    reason = state.reason or Waits(cluster).reason(state)
    about = {"name": name, "namespace": place, "phase": state.phase, "reason": reason}
    _print_logs(lines, about, every=every, as_json=as_json)
    return OK


def _print_hang(cluster: Cluster, namespace: str, name: str, *, as_json: bool) -> int:
    attempt = records.find_last_hang(cluster, namespace, name)
    document = {key: attempt[key] for key in ("number", "cause", "hang")}
    return print_result(document, "\n".join(records.format_hang_report(attempt)), as_json=as_json)


def _print_logs(by_pod: Mapping[str, Sequence[str]], about: Mapping[str, str], *, every: bool, as_json: bool) -> None:
    """Print the log lines of each pod, or the reason why there are none."""
    lines = [line for part in by_pod.values() for line in part]
    if as_json:
        print_json({**about, "lines": lines, **({"pods": by_pod} if every else {})})
        return
    for line in [f"{pod} | {line}" for pod, part in by_pod.items() for line in part] if every else lines:
        print_log_line(line, sys.stdout)
    if about["reason"] and not lines:
        say(f"{NAME}: job {about['name']}: {about['reason']}")


def find_logs(cluster: Cluster, namespace: str, name: str, worker: int | None, *, every: bool) -> dict[str, list[str]] | None:
    """Return the stored logs of deleted pods, keyed by label; None if there are none."""
    try:
        stored = read_stored_logs(cluster, namespace, name)
    except NotFound:
        return None
    by_label = {label_deleted_pod(pod, name): lines for pod, lines in stored.items()}  # for each label, keep the last attempt
    if every:
        return dict(sorted(by_label.items()))
    first = "launcher" if "launcher" in by_label else "worker-0"
    pod_name = first if worker is None else f"worker-{worker}"
    return {pod_name: by_label.get(pod_name, [])}


def read_stored_logs(cluster: Cluster, namespace: str, name: str) -> dict[str, list[str]]:
    """Return the stored log lines, keyed by pod.

    If CloudWatch has none, read the volume: it has the logs of jobs submitted before `platform.jobLogs` changed.
    """
    described = cluster.description()
    if described.log_group:
        try:
            return cloudwatch_logs.read_logs(described, namespace, name)
        except NotFound:
            pass
    return read_logs_on_volume(cluster, namespace, name)


def label_deleted_pod(pod: str, job: str) -> str:
    """Return the label that precedes each log line of a deleted pod.

    >>> [kept_label(pod, "a") for pod in ("a-launcher-x2x4b", "a-worker-3", "a-1-fghij")]
    ['launcher', 'worker-3', 'worker-1']
    """
    rest = pod.removeprefix(f"{job}-").removeprefix("worker-")
    number = rest.partition("-")[0]
    return f"worker-{number}" if number.isdigit() else number


def read_last_log(cluster: Cluster, state: JobState) -> dict[str, list[str]]:
    """Return the log of the last attempt that has started, keyed by pod."""
    started = [pod for pod in select_log_pods(state.pods, state) if pod["status"].get("phase") != "Pending"]
    if not started:
        return {}
    name = started[-1]["metadata"]["name"]
    log = PodLog(cluster, name, state.namespace, started[-1]["spec"]["containers"][0]["name"])
    return {name: list(log.lines(follow=False))}
