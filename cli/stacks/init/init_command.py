"""Options of `init`. `cli.stacks.init.dialog` asks the questions, and `cli.stacks.init.forms` writes the stack files."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import typer

from cli import options
from cli.stacks.init import dialog


def _make_option(help: str, panel: str | None = None) -> Any:
    return typer.Option(help=help, show_default=False, rich_help_panel=panel)


def _make_aws_option(help: str) -> Any:
    return _make_option(help, "Targets eks and ec2")


def _make_existing_option(help: str) -> Any:
    return _make_option(help, "Target existing")


@dataclass(frozen=True)
class Answers:
    """Answers to the questions of `init`, given as options."""

    target: Annotated[Literal["eks", "ec2", "existing"] | None, _make_option("What the stack builds.")] = None
    storage: Annotated[
        Literal["efs", "none", "nfs", "storage-class"] | None,
        _make_option("Shared volume: efs or none; for target existing: nfs, storage-class or none."),
    ] = None
    size: Annotated[str | None, _make_option("Maximum number of nodes; for target existing: the number of nodes.")] = None
    region: Annotated[str | None, _make_aws_option("AWS region. Default: AWS_REGION.")] = None
    instance_type: Annotated[str | None, _make_aws_option("Instance type of the compute nodes.")] = None
    allow: Annotated[
        str | None,
        _make_aws_option(
            "Comma-separated CIDRs allowed to reach the Kubernetes API (eks) or the head node's SSH port (ec2), or none. "
            "Default: your own public address, from https://checkip.amazonaws.com (to use another service, set "
            "GPUMPI_CHECKIP_URL)."
        ),
    ] = None
    ssh_key: Annotated[str | None, _make_aws_option("Target ec2: path of your public SSH key.")] = None
    kubeconfig: Annotated[str | None, _make_existing_option("Kubeconfig file. Default: KUBECONFIG or ~/.kube/config.")] = None
    context: Annotated[str | None, _make_existing_option("Context of the kubeconfig. Default: the current context.")] = None
    pool: Annotated[str | None, _make_existing_option("Name of the node pool.")] = None
    node_selector: Annotated[
        str | None, _make_existing_option("Comma-separated KEY=VALUE labels that select exactly the nodes of the pool.")
    ] = None
    gpus: Annotated[str | None, _make_existing_option("GPUs per node.")] = None
    nfs: Annotated[str | None, _make_existing_option("NFS export, SERVER:/PATH.")] = None
    storage_class: Annotated[str | None, _make_existing_option("Storage class that supports ReadWriteMany.")] = None
    volume_size: Annotated[str | None, _make_existing_option("Size of each namespace's volume.")] = None
    mount_path: Annotated[str | None, _make_existing_option("Mount path of the volume in jobs.")] = None


def command(
    stack: options.Stack,
    *,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not prompt; use the default for anything not given.")] = False,
    answers: Answers,
    offline: Annotated[bool, typer.Option("--offline", help="Do not query AWS, the cluster or your public address.")] = False,
    config_dir: options.ConfigDir = options.STACK_FILES,
) -> int:
    """Never overwrites an existing file."""
    by_question = {name.replace("_", "-"): answer for name, answer in vars(answers).items()}
    return dialog.run_dialog(stack, config_dir, by_question, yes=yes, offline=offline)
