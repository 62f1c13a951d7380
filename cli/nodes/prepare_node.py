"""`prepare-node`: prepare this machine for kubeadm, with the provisioners used for AMIs."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from cli import options
from cli.errors import CommandError
from cli.exit_codes import USAGE
from cli.installation import ROOT

PROVISIONER = ROOT / "amis" / "provisioners" / "prepare-kubernetes-node.sh"


def command(
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing; only report what is present and what is missing.")
    ] = False,
    kubernetes_folder: Annotated[
        Path | None,
        typer.Option(
            help="For air-gapped nodes: folder with kubeadm, kubelet and kubectl.", show_default="download from pkgs.k8s.io"
        ),
    ] = None,
    as_json: options.JsonErrors = False,
) -> int:
    """Run it as root on the node (see docs/guides/on-premises.md). Exits with 0 if the machine is ready."""
    if sys.platform != "linux":
        raise CommandError("this machine does not run Linux; run the command on a node with Debian or Ubuntu", USAGE)
    environment = dict(os.environ)
    if kubernetes_folder is not None:
        environment["KUBERNETES_FOLDER"] = str(kubernetes_folder.resolve())
    arguments = ["--check"] if check else []
    return subprocess.run([PROVISIONER, *arguments], env=environment, check=False).returncode
