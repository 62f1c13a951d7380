"""Options of `init`. `cli.stacks.init.dialog` asks the questions, and `cli.stacks.init.forms` writes the stack files."""

from typing import Annotated, Final, Literal

import typer

from cli import options
from cli.stacks.init import dialog

FOR_AWS: Final = "Targets eks and ec2"
FOR_EXISTING: Final = "Target existing"


def command(
    stack: options.Stack,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not prompt; use the default for anything not given.")] = False,
    target: Annotated[
        Literal["eks", "ec2", "existing"] | None, typer.Option(help="What the stack builds.", show_default=False)
    ] = None,
    storage: Annotated[
        Literal["efs", "none", "nfs", "storage-class"] | None,
        typer.Option(help="Shared volume: efs or none; for target existing: nfs, storage-class or none.", show_default=False),
    ] = None,
    size: Annotated[
        str | None, typer.Option(help="Maximum number of nodes; for target existing: the number of nodes.", show_default=False)
    ] = None,
    offline: Annotated[bool, typer.Option("--offline", help="Do not query AWS, the cluster or your public address.")] = False,
    config_dir: options.ConfigDir = options.STACK_FILES,
    region: Annotated[
        str | None, typer.Option(help="AWS region. Default: AWS_REGION.", show_default=False, rich_help_panel=FOR_AWS)
    ] = None,
    instance_type: Annotated[
        str | None, typer.Option(help="Instance type of the compute nodes.", show_default=False, rich_help_panel=FOR_AWS)
    ] = None,
    allow: Annotated[
        str | None,
        typer.Option(
            help="Comma-separated CIDRs allowed to reach the Kubernetes API (eks) or the head node's SSH port (ec2), or none. "
            "Default: your own public address, from https://checkip.amazonaws.com (to use another service, set "
            "GPUMPI_CHECKIP_URL).",
            show_default=False,
            rich_help_panel=FOR_AWS,
        ),
    ] = None,
    ssh_key: Annotated[
        str | None,
        typer.Option(help="Target ec2: path of your public SSH key.", show_default=False, rich_help_panel=FOR_AWS),
    ] = None,
    kubeconfig: Annotated[
        str | None,
        typer.Option(
            help="Kubeconfig file. Default: KUBECONFIG or ~/.kube/config.", show_default=False, rich_help_panel=FOR_EXISTING
        ),
    ] = None,
    context: Annotated[
        str | None,
        typer.Option(
            help="Context of the kubeconfig. Default: the current context.", show_default=False, rich_help_panel=FOR_EXISTING
        ),
    ] = None,
    pool: Annotated[
        str | None, typer.Option(help="Name of the node pool.", show_default=False, rich_help_panel=FOR_EXISTING)
    ] = None,
    node_selector: Annotated[
        str | None,
        typer.Option(
            help="Comma-separated KEY=VALUE labels that select exactly the nodes of the pool.",
            show_default=False,
            rich_help_panel=FOR_EXISTING,
        ),
    ] = None,
    gpus: Annotated[str | None, typer.Option(help="GPUs per node.", show_default=False, rich_help_panel=FOR_EXISTING)] = None,
    nfs: Annotated[
        str | None, typer.Option(help="NFS export, SERVER:/PATH.", show_default=False, rich_help_panel=FOR_EXISTING)
    ] = None,
    storage_class: Annotated[
        str | None,
        typer.Option(help="Storage class that supports ReadWriteMany.", show_default=False, rich_help_panel=FOR_EXISTING),
    ] = None,
    volume_size: Annotated[
        str | None, typer.Option(help="Size of each namespace's volume.", show_default=False, rich_help_panel=FOR_EXISTING)
    ] = None,
    mount_path: Annotated[
        str | None, typer.Option(help="Mount path of the volume in jobs.", show_default=False, rich_help_panel=FOR_EXISTING)
    ] = None,
) -> int:
    """Never overwrites an existing file."""
    given = {"target": target, "region": region, "instance-type": instance_type, "size": size, "storage": storage}
    given |= {"allow": allow, "ssh-key": ssh_key, "kubeconfig": kubeconfig, "context": context, "pool": pool}
    given |= {"node-selector": node_selector, "gpus": gpus, "nfs": nfs, "storage-class": storage_class}
    given |= {"volume-size": volume_size, "mount-path": mount_path}
    return dialog.run(stack, config_dir, given, yes=yes, offline=offline)
