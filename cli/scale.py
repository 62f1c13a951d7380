"""`scripts/cluster scale`: another number of workers. `pulumi up` leaves it as it is."""

import sys
from pathlib import Path

from cli import wait
from cli.exit_codes import FINE, REFUSED
from cli.plain_cluster import Failed, PlainCluster


def run(size: int, stack: str, folder: Path, *, minutes: float, identity: Path | None, wait_for_it: bool) -> int:
    try:
        cluster = PlainCluster(stack, folder)
        group = cluster.group()
        if not group.minimum <= size <= group.maximum:
            bound = "minSize" if size < group.minimum else "maxSize"
            way_out = f"write {group.minimum} to {group.maximum}, or change pools[0].{bound} and run `pulumi up -s {stack}`"
            raise Failed(f"{size} is outside of minSize and maxSize; {way_out}", REFUSED)
        cluster.scale(size)
        if wait_for_it:
            wait.until_ready(cluster, minutes, identity)
    except Failed as error:
        print(f"cluster scale: {error}", file=sys.stderr)
        return error.code
    return FINE
