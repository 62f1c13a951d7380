"""`demo`: show a cluster in a local AWS, step by step. Each step verifies its own result."""

from typing import Annotated

import typer

from cli import demo_ec2, demo_eks, demo_heal, options
from cli.errors import CommandError
from cli.exit_codes import USAGE


def command(
    ec2: Annotated[bool, typer.Option("--ec2", help="Use an EC2 cluster instead of EKS.")] = False,
    heal: Annotated[
        bool, typer.Option("--heal", help="Break a GPU of a running job, which then finishes on another node.")
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Print Pulumi's output.")] = False,
    as_json: options.Json = False,
) -> int:
    """Creates, uses, changes and deletes a cluster. Takes several minutes and needs no AWS account."""
    if ec2 and heal:
        raise CommandError("--heal: an EC2 cluster has no job controller. Use either --ec2 or --heal", USAGE)
    show = demo_ec2.SHOW if ec2 else demo_heal.SHOW if heal else demo_eks.SHOW
    return show.run(verbose=verbose, as_json=as_json)
