"""`cancel`: delete a job and everything that belongs to it."""

from typing import Annotated, Final

import typer
from tenacity import RetryError, Retrying, retry_if_result, stop_after_delay, wait_fixed

from cli import job_objects, options
from cli.cluster_access import Access, Cluster
from cli.console import print_json
from cli.errors import CommandError
from cli.exit_codes import OK
from cli.job_state import JobState

PODS_GONE_SECONDS: Final = 120.0
POLL_SECONDS: Final = 0.5


def command(
    name: Annotated[str, typer.Argument(help="Job name.")],
    wait: Annotated[bool, typer.Option(help="Wait until the pods of the job are gone.")] = True,
    kubeconfig: options.Kubeconfig = None,
    context: options.Context = None,
    namespace: options.Namespace = None,
    as_json: options.Json = False,
) -> int:
    """Also stops and deletes jobs that are still running."""
    cluster = Access(kubeconfig, context).connect()
    place = job_objects.default_namespace(cluster, namespace)
    state = job_objects.find(cluster, name, place)
    cluster.delete(state.kind, state.object_name, place)
    if wait:
        _wait_for_pods(cluster, state)
    if as_json:
        print_json({"name": name, "namespace": place, "was": state.phase})
    else:
        print(f"job {name} deleted")
    return OK


def _wait_for_pods(cluster: Cluster, state: JobState) -> None:
    polling = Retrying(retry=retry_if_result(bool), stop=stop_after_delay(PODS_GONE_SECONDS), wait=wait_fixed(POLL_SECONDS))
    try:
        polling(job_objects.pods, cluster, state)
    except RetryError as timeout:
        left = ", ".join(pod["metadata"]["name"] for pod in timeout.last_attempt.result()[:3])
        raise CommandError(
            f"job {state.name} was deleted, but these pods still exist after {PODS_GONE_SECONDS:.0f} s: {left}"
        ) from None
