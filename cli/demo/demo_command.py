"""`demo`: show a cluster in a local AWS, step by step. Each step verifies its own result."""

from typing import Annotated

import typer

from cli import options
from cli.demo.ec2_demo import Ec2Demo
from cli.demo.eks_demo import EksDemo
from cli.demo.heal_demo import HealDemo
from cli.demo.steps import Steps
from cli.errors import CommandError
from cli.exit_codes import USAGE


def command(
    ec2: Annotated[bool, typer.Option("--ec2", help="Use an EC2 cluster instead of an EKS cluster.")] = False,
    heal: Annotated[
        bool, typer.Option("--heal", help="Break a GPU of a running job, which then finishes on another node.")
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Print Pulumi's output.")] = False,
    as_json: options.Json = False,
) -> int:
    """Creates, uses, changes and deletes a cluster in a local AWS. Takes several minutes and needs no AWS account."""
    if ec2 and heal:
        raise CommandError("--heal: an EC2 cluster has no job controller. Use either --ec2 or --heal", USAGE)
    demo: type[Steps] = Ec2Demo if ec2 else HealDemo if heal else EksDemo
    return demo.run_and_report(verbose=verbose, as_json=as_json)
