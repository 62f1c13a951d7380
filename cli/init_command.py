"""`init`: its options. The questions and the file are in `cli.init` and `cli.init_forms`."""

from typing import Annotated

import typer

from cli import init, options


def command(
    stack: options.Stack,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not prompt; use the default for anything not given.")] = False,
    target: Annotated[str | None, typer.Option(help="eks or ec2.", show_default=False)] = None,
    region: Annotated[str | None, typer.Option(help="AWS Region.", show_default="the shell's")] = None,
    instance_type: Annotated[str | None, typer.Option(help="Instance type of the compute nodes.", show_default=False)] = None,
    size: Annotated[str | None, typer.Option(help="Maximum number of nodes.", show_default=False)] = None,
    storage: Annotated[str | None, typer.Option(help="efs or none.", show_default=False)] = None,
    allow: Annotated[
        str | None,
        typer.Option(help="CIDRs, separated by commas, that reach the Kubernetes API or the head node.", show_default=False),
    ] = None,
    ssh_key: Annotated[str | None, typer.Option(help="Target ec2: file of your public key.", show_default=False)] = None,
    offline: Annotated[bool, typer.Option("--offline", help="Do not query AWS.")] = False,
    config_dir: options.ConfigDir = options.STACK_FILES,
) -> int:
    """Never overwrites an existing file."""
    given = {"target": target, "region": region, "instance-type": instance_type, "size": size, "storage": storage}
    given |= {"allow": allow, "ssh-key": ssh_key}
    return init.run(stack, config_dir, given, yes=yes, offline=offline)
