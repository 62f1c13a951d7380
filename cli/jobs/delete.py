"""`delete`: delete a job and its record."""

from typing import Annotated

import typer

from cli import options
from cli.clusters.kubernetes_access import Access
from cli.console import print_json
from cli.errors import NotFound
from cli.exit_codes import OK
from cli.jobs import cancel, objects, records
from cli.jobs.workdir.in_cluster import remove_workdir
from infra.config.messages import did_you_mean


def command(
    name: Annotated[str, typer.Argument(help="Job name.")],
    kubeconfig: options.Kubeconfig = None,
    context: options.Context = None,
    namespace: options.Namespace = None,
    as_json: options.Json = False,
) -> int:
    """Cancels the job if it exists, and deletes the records, sent folders and logs of all jobs that had this name.

    Does not delete logs in CloudWatch.
    """
    cluster = Access(kubeconfig, context).connect()
    place = objects.default_namespace(cluster, namespace)
    found = records.all_records(cluster, place)
    mine = [one for one in found if one.content["name"] == name]
    try:
        state = objects.find(cluster, name, place)
    except NotFound:
        if not remove_workdir(cluster, place, name) and not mine:
            hint = did_you_mean(name, sorted({one.content["name"] for one in found}))
            raise NotFound(f"there is no job or record {name} in namespace {place}{hint}") from None
    else:
        cancel.end(cluster, state, wait=True)
        records.await_end(cluster, state)
        mine = [one for one in records.all_records(cluster, place) if one.content["name"] == name]
    for one in mine:
        cluster.delete("ConfigMap", one.config_map, place)
    if as_json:
        print_json({"name": name, "namespace": place, "records": len(mine)})
    else:
        print(f"job {name} deleted, with {len(mine)} record{'' if len(mine) == 1 else 's'}")
    return OK
