"""`ssh`: open a shell or run a command on the head node."""

import subprocess
import sys
from typing import Annotated

import typer

from cli import options
from cli.ec2.ec2_instances import DeployedEc2Cluster
from cli.ec2.head_node_ssh import to_head_node
from cli.ec2.run import not_started


def command(
    stack: options.Stack,
    words: Annotated[list[str] | None, typer.Argument(metavar="[-- COMMAND]", help="Command to run instead of a shell.")] = None,
    identity: options.Identity = None,
    config_dir: options.ConfigDir = options.STACK_FILES,
    as_json: options.JsonErrors = False,
) -> int:
    """Connects through Session Manager, so no port needs to be open. The host key comes from the key bucket."""
    remote = words or []
    with not_started(), to_head_node(DeployedEc2Cluster(stack, config_dir), identity) as head_node:
        # in batch mode, ssh could not prompt for the passphrase of a key
        line = head_node.command(*remote, batch=False, tty=not remote and sys.stdin.isatty())
        return subprocess.run(line, check=False).returncode
