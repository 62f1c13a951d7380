"""`cancel` and `delete`: end a job and delete everything that belongs to it, without or with its record."""

from typing import Annotated, Final

import typer
from tenacity import RetryError, Retrying, retry_if_result, stop_after_delay, wait_fixed

from cli import options
from cli.clusters.kubernetes_access import Access, Cluster
from cli.console import print_json, print_result, say
from cli.ec2 import remote_runs
from cli.errors import CommandError, NotFound
from cli.exit_codes import OK
from cli.installation import NAME
from cli.installation import program_name as program
from cli.jobs import objects, records
from cli.jobs.state import JobState
from cli.jobs.workdir.in_cluster import remove_workdir
from infra.config.messages import suggest_correction

PODS_GONE_SECONDS: Final = 90.0
"""Time limit for the deletion of pods, in addition to their grace period."""
POLL_SECONDS: Final = 0.5


def command(
    name: Annotated[str, typer.Argument(help="Job name.")],
    stack: options.Ec2Stack = None,
    wait: Annotated[bool, typer.Option(help="Wait until the pods of the job are gone.")] = True,
    *,
    access: Access,
    identity: options.Identity = None,
    config_dir: options.ConfigDir = options.STACK_FILES,
    as_json: options.Json = False,
) -> int:
    """Ranks of a running job get `checkpointSignal`, and can save a checkpoint within their grace period. `jobs --all`
    still lists the job.

    With --stack, NAME is a run on the head node of an EC2 cluster.
    """
    if stack:
        with remote_runs.connect_to_runs(stack, config_dir, identity) as runs:
            was = runs.delete(name).phase
        return print_result({"name": name, "was": was}, f"run {name} deleted", as_json=as_json)
    cluster = access.connect()
    place = objects.choose_namespace(cluster, access.namespace)
    try:
        state = objects.find_job(cluster, name, place)
    except NotFound:
        if not remove_workdir(cluster, place, name):
            raise
        say(f"{NAME}: job {name} was already deleted; its folder and logs are now deleted too")
        return OK
    delete_job_objects(cluster, state, wait=wait)
    if as_json:
        print_json({"name": name, "namespace": place, "was": state.phase})
    else:
        has_record = any(record.content["name"] == name for record in records.list_records(cluster, place))
        print(f"job {name} canceled" + (f"; its record stays until: {program()} delete {name}" if has_record else ""))
    return OK


def delete(
    name: Annotated[str, typer.Argument(help="Job name.")],
    *,
    access: Access,
    as_json: options.Json = False,
) -> int:
    """Cancels the job if it exists, and deletes the records, sent folders and logs of all jobs that had this name.

    Does not delete logs in CloudWatch.
    """
    cluster = access.connect()
    place = objects.choose_namespace(cluster, access.namespace)
    all_records = records.list_records(cluster, place)
    own_records = [record for record in all_records if record.content["name"] == name]
    try:
        state = objects.find_job(cluster, name, place)
    except NotFound:
        if not remove_workdir(cluster, place, name) and not own_records:
            hint = suggest_correction(name, sorted({record.content["name"] for record in all_records}))
            raise NotFound(f"there is no job or record {name} in namespace {place}{hint}") from None
    else:
        delete_job_objects(cluster, state, wait=True)
        records.wait_until_record_is_complete(cluster, state.key)
        own_records = [record for record in records.list_records(cluster, place) if record.content["name"] == name]
    for record in own_records:
        cluster.delete("ConfigMap", record.config_map, place)
    number = len(own_records)
    text = f"job {name} deleted, with {number} record{'' if number == 1 else 's'}"
    return print_result({"name": name, "namespace": place, "records": number}, text, as_json=as_json)


def delete_job_objects(cluster: Cluster, state: JobState, *, wait: bool) -> None:
    """Delete the objects of a job, and wait until its pods are gone."""
    pods = objects.list_pods(cluster, state) if wait else []
    grace_seconds = max((pod["spec"].get("terminationGracePeriodSeconds") or 0 for pod in pods), default=0)
    cluster.delete(state.kind, state.object_name, state.namespace)
    if wait:
        wait_for_pod_deletion(cluster, state, PODS_GONE_SECONDS + grace_seconds)
    remove_workdir(cluster, state.namespace, state.name)


def wait_for_pod_deletion(cluster: Cluster, state: JobState, limit: float) -> None:
    """Wait until a deleted job has no pods. Raises CommandError after `limit` seconds."""
    polling = Retrying(retry=retry_if_result(bool), stop=stop_after_delay(limit), wait=wait_fixed(POLL_SECONDS))
    try:
        polling(objects.list_pods, cluster, state)
    except RetryError as timeout:
        left = ", ".join(pod["metadata"]["name"] for pod in timeout.last_attempt.result()[:3])
        raise CommandError(f"job {state.name} was deleted, but these pods still exist after {limit:.0f} s: {left}") from None
