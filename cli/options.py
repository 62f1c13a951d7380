"""Options and arguments shared by several verbs."""

from pathlib import Path
from typing import Annotated

import typer

from cli.installation import STACKS

Stack = Annotated[str, typer.Option("--stack", "-s", help="Stack name: NAME of Pulumi.NAME.yaml.")]
ClusterStack = Annotated[
    str | None, typer.Option("--stack", "-s", help="Stack name.", show_default="the cluster of the kubeconfig")
]
Ec2Stack = Annotated[
    str | None, typer.Option("--stack", "-s", help="Use the EC2 cluster of this stack instead of a Kubernetes cluster.")
]
ConfigDir = Annotated[Path, typer.Option("--config-dir", help="Folder of the stack files.", show_default="stacks/")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document, also for errors.")]
JsonErrors = Annotated[bool, typer.Option("--json", help="Report errors as one JSON document.")]

Kubeconfig = Annotated[
    Path | None, typer.Option("--kubeconfig", help="Kubeconfig file.", show_default="KUBECONFIG, then ~/.kube/config")
]
Context = Annotated[str | None, typer.Option("--context", help="Context of the kubeconfig.", show_default="the current one")]
Namespace = Annotated[
    str | None,
    typer.Option(
        "--namespace",
        "-n",
        help="Namespace of the jobs.",
        show_default="the context's namespace, or the cluster's first job namespace",
    ),
]

Worker = Annotated[int, typer.Option("--worker", "-w", min=0, help="Number of the worker, starting at 0.")]
Launcher = Annotated[bool, typer.Option("--launcher", help="Use the launcher's pod instead of a worker's.")]

Workdir = Annotated[
    Path | None,
    typer.Option("--workdir", help="Folder on this machine to send; ranks start in it.", show_default="the job file's"),
]
WorkdirLimit = Annotated[int, typer.Option("--workdir-limit", min=1, help="Maximum size of the folder in MiB.")]

Identity = Annotated[Path | None, typer.Option("--identity", "-i", help="Your private SSH key.", show_default="chosen by ssh")]
Minutes = Annotated[float, typer.Option("--minutes", min=0.0, help="Time limit.")]

STACK_FILES = STACKS
"""Default value of `ConfigDir`."""
