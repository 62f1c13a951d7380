"""`scripts/cluster local ...`: the local cloud of this project, and stacks on it."""

import json
import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from localcloud.engine_events import Step
from localcloud.instance import FOREIGN_VARIABLES, LocalCloud, NotRunning
from localcloud.processes import ROOT, StartError
from localcloud.stack import LocalStack, PulumiError, Run, StackFileMissing, Verb
from localcloud.tools.build import BuildError

app = typer.Typer(no_args_is_help=True, help="The local cloud: run stacks on this machine, without an AWS account.")
errors = Console(stderr=True, highlight=False)

FAILED = 1

Home = Annotated[Path, typer.Option("--home", help="Folder of the local cloud; several run side by side.")]
StackName = Annotated[str, typer.Option("--stack", "-s", help="Name of the stack: NAME of Pulumi.NAME.yaml.")]
ConfigDir = Annotated[Path | None, typer.Option("--config-dir", help="Folder of the stack file; stacks/ by default.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")]
DEFAULT_HOME = ROOT / ".local" / "cloud"


def report(line: str) -> None:
    errors.print(line, style="dim", markup=False)


def fail(error: Exception) -> typer.Exit:
    errors.print(str(error), style="red", markup=False)
    return typer.Exit(FAILED)


@app.command()
def start(
    home: Home = DEFAULT_HOME,
    delay_factor: Annotated[
        float, typer.Option(help="Let AWS take its time: 1 as long as AWS takes, 0.01 a hundredth, 0 none.", min=0.0)
    ] = 0.0,
) -> None:
    """Start the local cloud; it keeps running between commands. The first start builds the Pulumi CLI (minutes)."""
    try:
        started = LocalCloud(home).start(report, delay_factor=delay_factor)
    except (BuildError, StartError) as error:
        raise fail(error) from None
    errors.print("local cloud started" if started else "local cloud is running already")
    errors.print('next: scripts/cluster local up -s local, or: eval "$(scripts/cluster local env)" and plain pulumi', style="dim")


@app.command()
def stop(home: Home = DEFAULT_HOME) -> None:
    """Stop the local cloud and remove all that it held."""
    errors.print("local cloud stopped" if LocalCloud(home).stop() else "no local cloud was running")


@app.command()
def status(home: Home = DEFAULT_HOME, as_json: Json = False) -> None:
    """What runs, where, and since when; exit code 1 unless everything does."""
    cloud = LocalCloud(home)
    servers = cloud.servers()
    if as_json:
        rows = [{"name": s.name, "pid": s.pid, "url": s.url, "log": s.log, "running": s.process() is not None} for s in servers]
        print(json.dumps({"home": str(home), "running": cloud.is_running(), "servers": rows}))
    elif not servers:
        errors.print(f"no local cloud runs in {home}")
    else:
        table = Table("server", "state", "pid", "address", "log")
        for server in servers:
            state = "[green]running[/]" if server.process() else "[red]ended by itself[/]"
            table.add_row(server.name, state, str(server.pid), f"127.0.0.1:{server.port}", server.log)
        Console().print(table)
        for server in cloud.crashed():
            errors.print(f"the end of {server.log}:\n{server.log_tail()}", markup=False)
    if not cloud.is_running():
        raise typer.Exit(FAILED)


@app.command()
def reset(home: Home = DEFAULT_HOME) -> None:
    """Empty the account and forget all stacks; the servers go on running."""
    try:
        LocalCloud(home).reset()
    except NotRunning as error:
        raise fail(error) from None
    errors.print("local cloud is empty")


@app.command()
def env(home: Home = DEFAULT_HOME) -> None:
    """Print the variables for a shell: eval "$(scripts/cluster local env)"."""
    try:
        variables = LocalCloud(home).environment()
    except NotRunning as error:
        raise fail(error) from None
    print(f"unset {' '.join(FOREIGN_VARIABLES)}")
    for name, value in variables.items():
        print(f"export {name}={shlex.quote(value)}")


@app.command()
def preview(stack: StackName, home: Home = DEFAULT_HOME, config_dir: ConfigDir = None, as_json: Json = False) -> None:
    """Show what `up` would do."""
    _run("preview", stack, home, config_dir, as_json)


@app.command()
def up(stack: StackName, home: Home = DEFAULT_HOME, config_dir: ConfigDir = None, as_json: Json = False) -> None:
    """Create or change the stack."""
    _run("up", stack, home, config_dir, as_json)


@app.command()
def refresh(stack: StackName, home: Home = DEFAULT_HOME, config_dir: ConfigDir = None, as_json: Json = False) -> None:
    """Take what AWS has now into the stack's state."""
    _run("refresh", stack, home, config_dir, as_json)


@app.command()
def destroy(stack: StackName, home: Home = DEFAULT_HOME, config_dir: ConfigDir = None, as_json: Json = False) -> None:
    """Delete everything the stack created."""
    _run("destroy", stack, home, config_dir, as_json)


@app.command()
def grant(stack: StackName, home: Home = DEFAULT_HOME, config_dir: ConfigDir = None) -> None:
    """Let the local account have what the stack names and does not create: reservations, an existing VPC, an AMI, people."""
    try:
        made = LocalStack(LocalCloud(home), stack, config_dir).grant()
    except (NotRunning, FileNotFoundError) as error:
        raise fail(error) from None
    errors.print(f"made: {', '.join(made)}" if made else "nothing was missing")


@app.command()
def outputs(
    stack: StackName,
    home: Home = DEFAULT_HOME,
    as_json: Json = False,
    show_secrets: Annotated[bool, typer.Option(help="Print the kubeconfig too.")] = False,
) -> None:
    """Print the stack's outputs."""
    try:
        values = LocalStack(LocalCloud(home), stack).outputs(secrets=show_secrets)
    except (NotRunning, PulumiError, FileNotFoundError) as error:
        raise fail(error) from None
    if as_json:
        print(json.dumps(values))
        return
    table = Table("output", "value")
    for name, value in values.items():
        table.add_row(name, value if isinstance(value, str) else json.dumps(value, indent=1))
    Console().print(table)


def _run(verb: Verb, name: str, home: Path, config_dir: Path | None, as_json: bool) -> None:
    stack = LocalStack(LocalCloud(home), name, config_dir)
    try:
        stack.prepare()
        run = stack.run(verb, stream=None if as_json else sys.stdout, colour=sys.stdout.isatty())
    except (NotRunning, StackFileMissing, PulumiError) as error:
        raise fail(error) from None
    if as_json:
        print(json.dumps(summary(name, run)))
    if not run.ok:
        raise typer.Exit(FAILED)


def summary(name: str, run: Run) -> dict[str, Any]:
    """What `--json` prints of a run."""
    return {
        "stack": name,
        "verb": run.verb,
        "ok": run.ok,
        "seconds": round(run.seconds, 2),
        "changes": run.changes,
        "errors": list(run.errors),
        "slowest": [_step(step) for step in sorted(run.steps, key=lambda step: -step.seconds)[:10]],
    }


def _step(step: Step) -> dict[str, Any]:
    return {"type": step.type, "name": step.name, "operation": step.operation, "seconds": round(step.seconds, 2)}
