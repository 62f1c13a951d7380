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
    *,
    access: Access,
    as_json: options.Json = False,
) -> int:
    """Cancels the job if it exists, and deletes the records, sent folders and logs of all jobs that had this name.

    Does not delete logs in CloudWatch.
    """
    cluster = access.connect()
    place = objects.default_namespace(cluster, access.namespace)
    all_records = records.all_records(cluster, place)
    own_records = [record for record in all_records if record.content["name"] == name]
    try:
        state = objects.find(cluster, name, place)
    except NotFound:
        if not remove_workdir(cluster, place, name) and not own_records:
            hint = did_you_mean(name, sorted({record.content["name"] for record in all_records}))
            raise NotFound(f"there is no job or record {name} in namespace {place}{hint}") from None
    else:
        cancel.end(cluster, state, wait=True)
        records.await_end(cluster, state.key)
        own_records = [record for record in records.all_records(cluster, place) if record.content["name"] == name]
    for record in own_records:
        cluster.delete("ConfigMap", record.config_map, place)
    if as_json:
        print_json({"name": name, "namespace": place, "records": len(own_records)})
    else:
        print(f"job {name} deleted, with {len(own_records)} record{'' if len(own_records) == 1 else 's'}")
    return OK
