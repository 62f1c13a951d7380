"""`exec`: run a command in a running pod of a job."""

import sys
from typing import Annotated

import typer

from cli import options
from cli.clusters.kubernetes_access import Access
from cli.clusters.pod_streams import STDERR, Command
from cli.ec2.run import not_started
from cli.errors import CommandError
from cli.exit_codes import USAGE
from cli.jobs import objects
from cli.jobs.job_pods import running_container
from cli.jobs.terminal import connected


def command(
    name: Annotated[str, typer.Argument(help="Job name.")],
    words: Annotated[list[str] | None, typer.Argument(metavar="-- COMMAND", help="The command and its arguments.")] = None,
    worker: options.Worker = 0,
    launcher: options.Launcher = False,
    stdin: Annotated[bool, typer.Option("--stdin", "-i", help="Pass standard input to the command.")] = False,
    kubeconfig: options.Kubeconfig = None,
    context: options.Context = None,
    namespace: options.Namespace = None,
    as_json: options.JsonErrors = False,
) -> int:
    """Example: `exec train --worker 1 -- nvidia-smi`.

    In a terminal, the command also gets a terminal: `exec train -- bash`. The exit code is that of the command.
    """
    if not words:
        raise CommandError("give a command after --, such as `-- nvidia-smi`", USAGE)
    tty = sys.stdin.isatty() and sys.stdout.isatty()
    with not_started():
        cluster = Access(kubeconfig, context).connect()
        state = objects.find(cluster, name, objects.default_namespace(cluster, namespace))
        where = running_container(cluster, state, worker, launcher=launcher)
        running = Command(cluster, where, words, stdin=stdin or tty, tty=tty)
        with connected(running, stdin=stdin or tty, tty=tty):
            return running.wait(_print)


def _print(channel: int, data: bytes) -> None:
    stream = sys.stderr if channel == STDERR else sys.stdout
    stream.buffer.write(data)
    stream.flush()
