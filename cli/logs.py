"""`scripts/cluster logs`: what a job has said."""

from cli import job_objects
from cli.cluster_access import Cluster, Failed
from cli.exit_codes import FINE
from cli.job_log import PodLog, log_pods
from cli.submit import Where, failed, followed


def run(name: str, where: Where, *, follow: bool, as_json: bool) -> int:
    try:
        cluster = where.connect()
        namespace = job_objects.default_namespace(cluster, where.namespace)
        if follow:
            return followed(cluster, name, namespace, as_json=as_json)
        return _print(cluster, name, namespace)
    except Failed as error:
        return failed("logs", error, as_json=as_json)


def _print(cluster: Cluster, name: str, namespace: str) -> int:
    """The log of the last attempt that wrote one."""
    state = job_objects.find(cluster, name, namespace)
    begun = [pod for pod in log_pods(job_objects.pods(cluster, state), state) if pod["status"].get("phase") != "Pending"]
    for pod in begun[-1:]:
        log = PodLog(cluster, pod["metadata"]["name"], namespace, pod["spec"]["containers"][0]["name"])
        for line in log.lines(follow=False):
            print(line)
    return FINE
