"""`run` and `ssh`: run a command on the head node as the login user, or open a shell."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from cli import options
from cli.console import print_json, say
from cli.ec2 import remote_run
from cli.ec2.ec2_instances import DeployedEc2Cluster
from cli.ec2.head_node_ssh import connect_to_head_node
from cli.ec2.remote_run import Lost
from cli.ec2.remote_runs import Runs, select_workdir
from cli.errors import CommandError
from cli.exit_codes import INTERRUPTED, NOT_FOUND, NOT_STARTED, OK, USAGE
from cli.installation import program_name as program
from cli.jobs.assignments import split_pairs
from cli.jobs.workdir.selection import LIMIT_MIB
from cli.output import RemoteOutput


def command(
    stack: options.Stack,
    words: Annotated[list[str] | None, typer.Argument(metavar="-- COMMAND", help="The command and its arguments.")] = None,
    workdir: Annotated[
        str | None, typer.Option(help="Send this folder to the shared file system; the command starts in it.")
    ] = None,
    workdir_limit: options.WorkdirLimit = LIMIT_MIB,
    directory: Annotated[
        str | None, typer.Option(help="Working directory on the head node.", show_default="the shared file system")
    ] = None,
    variables: Annotated[
        list[str] | None,
        typer.Option(
            "--env",
            metavar="NAME=VALUE",
            help="Environment variable of the command; `mpiexec -x NAME` passes it on to the ranks.",
            show_default=False,
        ),
    ] = None,
    restarts: Annotated[int, typer.Option(min=0, help="Restart a failed command, up to this many times.")] = 0,
    detach: Annotated[bool, typer.Option("--detach", "-d", help="Print the ID of the run and return.")] = False,
    attach: Annotated[str | None, typer.Option(help="Follow the run with this ID, which was started earlier.")] = None,
    identity: options.Identity = None,
    config_dir: options.ConfigDir = options.STACK_FILES,
    as_json: options.JsonErrors = False,
) -> int:
    """Example: `run -s STACK -- mpiexec -n 32 -N 8 python train_mnist.py`.

    The command keeps running if the connection breaks, and its output continues after a reconnect. ^C stops it.
    """
    if bool(words) == bool(attach):
        raise CommandError("give either a command after --, like `-- mpiexec hostname`, or --attach ID", USAGE)
    if workdir and directory:
        raise CommandError("--workdir and --directory exclude each other", USAGE)
    if workdir and workdir.startswith("/") and not Path(workdir).is_dir():
        say(f"warning: --workdir: {workdir} is not a folder on this machine; for one on the head node, use --directory")
        workdir, directory = None, workdir
    with exit_with_255_if_not_started(stack):
        cluster = DeployedEc2Cluster(stack, config_dir)
        selection = select_workdir(cluster, Path(workdir), workdir_limit) if workdir else None
        with connect_to_head_node(cluster, identity) as head_node:
            runs = Runs(cluster, head_node)
            if attach:
                return _follow_run(runs, attach, stack)
            id = remote_run.generate_run_id()
            environment = [f"{name}={value}" for name, value in split_pairs("--env", variables)]
            line = [*(["env", *environment] if environment else []), *(words or [])]
            folder = runs.send(selection, id) if selection else directory or cluster.shared
            remote_run.start_run(runs.build_bash_command, id, line, folder, restarts)
            if detach:
                print_json({"id": id}) if as_json else print(id)
                return OK
            return _follow_run(runs, id, stack)


def ssh(
    stack: options.Stack,
    words: Annotated[list[str] | None, typer.Argument(metavar="[-- COMMAND]", help="Command to run instead of a shell.")] = None,
    identity: options.Identity = None,
    config_dir: options.ConfigDir = options.STACK_FILES,
    as_json: options.JsonErrors = False,
) -> int:
    """Connects through Session Manager, so no port needs to be open. The host key comes from the key bucket."""
    remote = words or []
    with exit_with_255_if_not_started(), connect_to_head_node(DeployedEc2Cluster(stack, config_dir), identity) as head_node:
        # in batch mode, ssh could not prompt for the passphrase of a key
        line = head_node.command(*remote, batch=False, tty=not remote and sys.stdin.isatty())
        return subprocess.run(line, check=False).returncode


@contextmanager
def exit_with_255_if_not_started(stack: str = "") -> Iterator[None]:
    """Exit with 255 if the command could not be started. Keep the exit codes of usage errors and a missing stack."""
    try:
        yield
    except Lost as error:
        raise CommandError(f"{error}{explain_missing_permission(str(error), stack)}", NOT_STARTED) from None
    except CommandError as error:
        error.code = error.code if error.code in (USAGE, NOT_FOUND, INTERRUPTED) else NOT_STARTED
        raise


def _follow_run(runs: Runs, id: str, stack: str) -> int:
    try:
        return remote_run.follow_log(runs.build_bash_command, id, RemoteOutput(sys.stdout), report=say)
    except KeyboardInterrupt:
        stop = runs.build_bash_command(remote_run.render_stop_script(id))
        subprocess.run(stop, stdin=subprocess.DEVNULL, capture_output=True, check=False)
        raise CommandError(f"{id} was stopped", INTERRUPTED) from None
    except Lost as error:
        raise Lost(f"{error}; to follow it again: {program()} run -s {stack} --attach {id}") from None


def explain_missing_permission(message: str, stack: str) -> str:
    if "Permission denied" in message:
        return f"; add your public key to target.ssh.publicKeys of {stack}, or pass the matching private key with --identity"
    return ""
