"""`scale`: change the number of workers of an EC2 cluster."""

from typing import Annotated

import typer

from cli import options
from cli.console import print_json
from cli.ec2 import wait
from cli.ec2.ec2_instances import DeployedEc2Cluster
from cli.errors import CommandError
from cli.exit_codes import OK, REFUSED


def command(
    size: Annotated[int, typer.Argument(metavar="N", help="Number of workers, from minSize to maxSize.")],
    stack: options.Stack,
    wait_for_nodes: Annotated[
        bool,
        typer.Option(
            "--wait/--no-wait", help="Wait until new workers have joined, removed ones are gone, and the hostfile is up to date."
        ),
    ] = True,
    minutes: options.Minutes = wait.DEFAULT_MINUTES,
    identity: options.Identity = None,
    config_dir: options.ConfigDir = options.STACK_FILES,
    as_json: options.Json = False,
) -> int:
    """Later runs of `pulumi up` keep this size."""
    cluster = DeployedEc2Cluster(stack, config_dir)
    group = cluster.group()
    if not group.minimum <= size <= group.maximum:
        bound = "minSize" if size < group.minimum else "maxSize"
        fix = f"Use {group.minimum} to {group.maximum}, or change pools[0].{bound} and run `pulumi up -s {stack}`."
        raise CommandError(f"{size} is not between minSize and maxSize. {fix}", REFUSED)
    cluster.scale(size)
    if wait_for_nodes:
        wait.until_ready(cluster, minutes, identity)
    if as_json:
        print_json({"workers": size, "ready": wait_for_nodes})
    return OK
