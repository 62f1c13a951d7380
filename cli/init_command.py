"""`init`: its options. The questions and the file are in `cli.init` and `cli.init_forms`."""

from typing import Annotated, Final, Literal

import typer

from cli import init, options

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
        typer.Option(help="Shared volume: efs or none; for target existing nfs, storage-class or none.", show_default=False),
    ] = None,
    size: Annotated[
        str | None, typer.Option(help="Maximum number of nodes; for target existing, how many there are.", show_default=False)
    ] = None,
    offline: Annotated[
        bool, typer.Option("--offline", help="Query neither AWS, nor the cluster, nor your public address.")
    ] = False,
    config_dir: options.ConfigDir = options.STACK_FILES,
    region: Annotated[
        str | None, typer.Option(help="AWS region; AWS_REGION by default.", show_default=False, rich_help_panel=FOR_AWS)
    ] = None,
    instance_type: Annotated[
        str | None, typer.Option(help="Instance type of the compute nodes.", show_default=False, rich_help_panel=FOR_AWS)
    ] = None,
    allow: Annotated[
        str | None,
        typer.Option(
            help="CIDRs, separated by commas, that reach the Kubernetes API (eks) or the head node's SSH port (ec2), or none. "
            "Default: your own public address, from https://checkip.amazonaws.com (GPUMPI_CHECKIP_URL names another service).",
            show_default=False,
            rich_help_panel=FOR_AWS,
        ),
    ] = None,
    ssh_key: Annotated[
        str | None,
        typer.Option(help="Target ec2: file of your public SSH key.", show_default=False, rich_help_panel=FOR_AWS),
    ] = None,
    kubeconfig: Annotated[
        str | None,
        typer.Option(help="KUBECONFIG or ~/.kube/config by default.", show_default=False, rich_help_panel=FOR_EXISTING),
    ] = None,
    context: Annotated[
        str | None, typer.Option(help="The current context by default.", show_default=False, rich_help_panel=FOR_EXISTING)
    ] = None,
    pool: Annotated[
        str | None, typer.Option(help="Name of the node pool.", show_default=False, rich_help_panel=FOR_EXISTING)
    ] = None,
    node_selector: Annotated[
        str | None,
        typer.Option(
            help="KEY=VALUE, separated by commas: labels that exactly the pool's nodes have.",
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
        typer.Option(help="Storage class with ReadWriteMany volumes.", show_default=False, rich_help_panel=FOR_EXISTING),
    ] = None,
    volume_size: Annotated[
        str | None, typer.Option(help="Size of each namespace's volume.", show_default=False, rich_help_panel=FOR_EXISTING)
    ] = None,
    mount_path: Annotated[
        str | None, typer.Option(help="Where jobs see the volume.", show_default=False, rich_help_panel=FOR_EXISTING)
    ] = None,
) -> int:
    """Never overwrites an existing file."""
    given = {"target": target, "region": region, "instance-type": instance_type, "size": size, "storage": storage}
    given |= {"allow": allow, "ssh-key": ssh_key, "kubeconfig": kubeconfig, "context": context, "pool": pool}
    given |= {"node-selector": node_selector, "gpus": gpus, "nfs": nfs, "storage-class": storage_class}
    given |= {"volume-size": volume_size, "mount-path": mount_path}
    return init.run(stack, config_dir, given, yes=yes, offline=offline)
