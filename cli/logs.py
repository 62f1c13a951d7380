"""`logs`: print the log of a job's launcher."""

from typing import Annotated

import typer

from cli import job_objects, options
from cli.cluster_access import Access, Cluster
from cli.console import print_json
from cli.exit_codes import OK
from cli.job_log import PodLog, log_pods
from cli.submit import follow_job


def command(
    name: Annotated[str, typer.Argument(help="Job name.")],
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Follow the log through restarts until the job ends.")] = False,
    kubeconfig: options.Kubeconfig = None,
    context: options.Context = None,
    namespace: options.Namespace = None,
    as_json: options.Json = False,
) -> int:
    """Prints the log of the launcher's last attempt; for torchrun jobs, the log of rank 0's pod.

    With --follow, the exit code shows whether the job succeeded, and --json prints the log on stderr and the result on stdout.
    """
    cluster = Access(kubeconfig, context).connect()
    place = job_objects.default_namespace(cluster, namespace)
    if follow:
        return follow_job(cluster, name, place, as_json=as_json)
    lines = _last_log(cluster, name, place)
    if as_json:
        print_json({"name": name, "namespace": place, "lines": lines})
    else:
        for line in lines:
            print(line)
    return OK


def _last_log(cluster: Cluster, name: str, namespace: str) -> list[str]:
    """Return the log of the last attempt that started."""
    state = job_objects.find(cluster, name, namespace)
    started = [pod for pod in log_pods(job_objects.pods(cluster, state), state) if pod["status"].get("phase") != "Pending"]
    if not started:
        return []
    log = PodLog(cluster, started[-1]["metadata"]["name"], namespace, started[-1]["spec"]["containers"][0]["name"])
    return list(log.lines(follow=False))
