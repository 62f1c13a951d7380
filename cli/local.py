"""`scripts/cluster local ...`: the local cloud of this project, and stacks on it."""

import json
import os
import shlex
import signal
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
import yaml
from rich.console import Console

from cli import progress, validate
from cli.recover import tell
from infra.config import preflight, stack_file
from infra.config.stack_file import NoSuchStack
from infra.facts.model import FactsError
from infra.recovery.pending_operations import Unknown
from localcloud.control import ControlError
from localcloud.engine_events import Step
from localcloud.environment import foreign
from localcloud.hosts.ami import MANIFESTS, build
from localcloud.hosts.capability import BadLimit
from localcloud.hosts.state import HostState
from localcloud.images.root import ImageError
from localcloud.instance import LocalCloud, NotOurFolder, NotRunning
from localcloud.kubernetes.state import ClusterState
from localcloud.machine.ledger import StillThere
from localcloud.processes import ROOT, StartError
from localcloud.stack import LocalStack, NoStack, PulumiError, Run, Verb
from localcloud.tools.build import BuildError

app = typer.Typer(no_args_is_help=True, help="The local cloud: run stacks on this machine, without an AWS account.")
errors = Console(stderr=True, highlight=False, soft_wrap=True)

FAILED = 1
EXPECTED = (
    BadLimit,
    BuildError,
    ControlError,
    FactsError,
    ImageError,
    NoStack,
    NoSuchStack,
    NotOurFolder,
    NotRunning,
    PulumiError,
    StartError,
    StillThere,
    Unknown,
)
"""Whose text says what to do."""

Home = Annotated[Path, typer.Option("--home", resolve_path=True, help="Folder of the local cloud; several run side by side.")]
StackName = Annotated[str, typer.Option("--stack", "-s", help="Name of the stack: NAME of Pulumi.NAME.yaml.")]
ConfigDir = Annotated[Path | None, typer.Option("--config-dir", help="Folder of the stack file; stacks/ by default.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")]
DEFAULT_HOME = ROOT / ".local" / "cloud"
AMI_MANIFESTS = ROOT / ".local" / MANIFESTS


def report(line: str) -> None:
    errors.print(line, style="dim", markup=False)


def fail(error: Exception) -> typer.Exit:
    errors.print(str(error), style="red", markup=False)
    return typer.Exit(FAILED)


@app.command()
def start(
    home: Home = DEFAULT_HOME,
    delay_factor: Annotated[
        float | None, typer.Option(help="Let AWS take its time: 1 as long as AWS takes, 0.01 a hundredth, 0 none.", min=0.0)
    ] = None,
    kubernetes: Annotated[bool, typer.Option(help="Let EKS clusters come alive, as Kubernetes on this machine.")] = True,
    hosts: Annotated[bool, typer.Option(help="Let EC2 instances come alive, as hosts on this machine.")] = True,
) -> None:
    """Start the local cloud; it keeps running between commands. The first start builds Pulumi and Kubernetes (minutes)."""
    cloud = LocalCloud(home)
    try:
        started = cloud.start(report, delay_factor=delay_factor or 0.0, kubernetes=kubernetes, hosts=hosts)
        if not started and delay_factor is not None:
            cloud.control().set_delays(delay_factor)
    except EXPECTED as error:
        raise fail(error) from None
    errors.print("local cloud started" if started else "local cloud is running already")
    if not started and delay_factor is not None:
        errors.print(f"its delay factor is {delay_factor:g} now")
    option = "" if home == DEFAULT_HOME else f" --home {shlex.quote(str(home))}"
    report(f'next: scripts/cluster local up -s local{option}, or: eval "$(scripts/cluster local env{option})" and plain pulumi')


@app.command()
def stop(home: Home = DEFAULT_HOME) -> None:
    """Stop the local cloud and remove all that it held."""
    try:
        had = LocalCloud(home).stop()
    except StillThere as error:
        raise fail(error) from None
    errors.print("local cloud stopped" if had else "no local cloud was running")


@app.command()
def status(home: Home = DEFAULT_HOME, as_json: Json = False) -> None:
    """What runs, and where; exit code 1 unless everything does."""
    cloud = LocalCloud(home)
    servers, clusters, hosts = cloud.servers(), cloud.clusters(), cloud.hosts()
    if as_json:
        rows = [{"name": s.name, "pid": s.pid, "url": s.url, "log": s.log, "running": s.is_serving()} for s in servers]
        alive = {"clusters": [asdict(cluster) for cluster in clusters], "hosts": [asdict(host) for host in hosts]}
        print(json.dumps({"home": str(cloud.folder), "running": cloud.is_running(), "servers": rows, **alive}))
    elif not servers:
        errors.print(f"no local cloud runs in {cloud.folder}; start it with: scripts/cluster local start", markup=False)
    else:
        for server in servers:
            state = "running" if server.is_serving() else "starting" if server.process() else "ended by itself"
            print(f"{server.name:<20} {state:<16} pid {server.pid:<8} 127.0.0.1:{server.port:<6} log {server.log}")
        for server in cloud.crashed():
            errors.print(f"the end of {server.log}:\n{server.log_tail()}", markup=False)
        if cloud.crashed():
            report("scripts/cluster local start begins anew, with an empty account")
        for cluster in clusters:
            _print_cluster(cluster)
        for host in hosts:
            _print_host(host)
    if not (cloud.is_running() and all(one.is_well for one in clusters) and all(one.is_well for one in hosts)):
        raise typer.Exit(FAILED)


def _print_cluster(cluster: ClusterState) -> None:
    print(f"\ncluster {cluster.name} in {cluster.region}: {cluster.phase} {cluster.endpoint}".rstrip())
    for process in cluster.processes:
        print(f"  {process.name:<40} running          pid {process.pid:<8} log {process.log}")
    for crash in cluster.crashes:
        print(f"  {crash.name:<40} ended by itself  {'':<12} log {crash.log}")
    for problem in [cluster.problem, *map(str, cluster.crashes)]:
        if problem:
            errors.print(problem, markup=False)


def _print_host(host: HostState) -> None:
    print(f"host {host.instance_id:<20} {host.phase:<10} {host.hostname} {host.log}".rstrip())
    if host.problem:
        errors.print(f"  {host.problem}", markup=False)


@app.command()
def reset(home: Home = DEFAULT_HOME) -> None:
    """Empty the account and forget all stacks; the servers go on running."""
    try:
        LocalCloud(home).reset()
    except EXPECTED as error:
        raise fail(error) from None
    errors.print("local cloud is empty")


@app.command()
def env(home: Home = DEFAULT_HOME) -> None:
    """Print the variables for a shell: eval "$(scripts/cluster local env)"."""
    try:
        variables = LocalCloud(home).environment()
    except EXPECTED as error:
        raise fail(error) from None
    print(f"unset {' '.join(foreign(os.environ))}")
    for name, value in variables.items():
        print(f"export {name}={shlex.quote(value)}")


@app.command()
def ami(
    openmpi: Annotated[Literal["4", "5"], typer.Option(help="Series of Open MPI.")] = "4",
    framework: Annotated[list[str] | None, typer.Option(help="A set of amis/frameworks/, as chainermn; several times.")] = None,
    region: Annotated[str, typer.Option(help="Where stacks look for it.")] = "us-west-2",
    home: Home = DEFAULT_HOME,
) -> None:
    """Build the AMI of plain EC2 clusters with Packer; its id is printed. The first time compiles Open MPI (minutes)."""
    try:
        print(build(LocalCloud(home), region, report, AMI_MANIFESTS, openmpi, framework or ()))
    except EXPECTED as error:
        raise fail(error) from None


@app.command()
def preview(stack: StackName, home: Home = DEFAULT_HOME, config_dir: ConfigDir = None, as_json: Json = False) -> None:
    """Show what `up` would do."""
    _run("preview", LocalStack(LocalCloud(home), stack, config_dir), as_json)


@app.command()
def up(stack: StackName, home: Home = DEFAULT_HOME, config_dir: ConfigDir = None, as_json: Json = False) -> None:
    """Create or change the stack."""
    _run("up", LocalStack(LocalCloud(home), stack, config_dir), as_json)


@app.command()
def refresh(stack: StackName, home: Home = DEFAULT_HOME, config_dir: ConfigDir = None, as_json: Json = False) -> None:
    """Take what AWS has now into the stack's state."""
    _run("refresh", LocalStack(LocalCloud(home), stack, config_dir), as_json)


@app.command()
def destroy(stack: StackName, home: Home = DEFAULT_HOME, config_dir: ConfigDir = None, as_json: Json = False) -> None:
    """Delete everything the stack created."""
    _run("destroy", LocalStack(LocalCloud(home), stack, config_dir), as_json)


@app.command()
def grant(stack: StackName, home: Home = DEFAULT_HOME, config_dir: ConfigDir = None) -> None:
    """Let the local account have what the stack names and does not create: reservations, an existing VPC, an AMI, people."""
    granting = LocalStack(LocalCloud(home), stack, config_dir)
    try:
        granting.cloud.server("aws")
        if problems := preflight.examine_aws(stack_file.read(granting.source), offline=True).problems:
            errors.print("\n".join(map(str, problems)), style="red", markup=False)
            raise typer.Exit(FAILED)
        made = granting.grant()
    except EXPECTED as error:
        raise fail(error) from None
    errors.print(f"made: {', '.join(made)}" if made else "nothing was missing", markup=False)


@app.command()
def recover(stack: StackName, home: Home = DEFAULT_HOME, config_dir: ConfigDir = None) -> None:
    """After an engine was killed: take away its lock and settle what it had begun, so that the next `up` or `destroy` goes on."""
    try:
        recovered = LocalStack(LocalCloud(home), stack, config_dir).recover(report)
    except EXPECTED as error:
        raise fail(error) from None
    tell(recovered, report)
    errors.print("ready for the next up")


@app.command()
def outputs(
    stack: StackName,
    home: Home = DEFAULT_HOME,
    config_dir: ConfigDir = None,
    as_json: Json = False,
    show_secrets: Annotated[bool, typer.Option(help="Print the kubeconfig too.")] = False,
) -> None:
    """Print the stack's outputs, as YAML or JSON."""
    try:
        values = LocalStack(LocalCloud(home), stack, config_dir).outputs(secrets=show_secrets)
    except EXPECTED as error:
        raise fail(error) from None
    print(json.dumps(values) if as_json else yaml.safe_dump(values, sort_keys=False, width=10_000), end="\n" if as_json else "")


def _run(verb: Verb, stack: LocalStack, as_json: bool) -> None:
    """One engine run: its output on the terminal, or one JSON document and a line now and then on stderr."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # the engine is asked to stop, as by ^C
    try:
        if verb in ("preview", "up"):
            _check_file(stack, verb, as_json)
            stack.prepare()
            if not stack.cloud.has_kubernetes:
                report("EKS clusters are only records in this local cloud: platform and jobs are left out")
        else:
            stack.must_exist()
        if as_json:
            with progress.shown(errors, verb) as watch:
                run = stack.run(verb, watch=watch)
            print(json.dumps(summary(stack.name, run)))
        else:
            run = stack.run(verb, stream=sys.stdout, colour=sys.stdout.isatty())
    except EXPECTED as error:
        raise fail(error) from None
    if not run.ok:
        raise typer.Exit(FAILED)


def _check_file(stack: LocalStack, verb: Verb, as_json: bool) -> None:
    """What Pulumi would refuse in words of its own, or read in another way than we do, is told as `validate` tells it."""
    raw = stack_file.read(stack.source)
    if not raw.problems:
        return
    variables = stack.cloud.process_environment()
    os.environ.clear()
    os.environ.update(variables)
    if as_json:
        found = tuple(str(problem) for problem in preflight.examine_aws(raw).problems)
        print(json.dumps(summary(stack.name, Run(verb, FAILED, 0.0, {}, errors=found))))
    else:
        validate.run(stack.name, stack.folder, offline=False, as_json=False)
    raise typer.Exit(FAILED)


def summary(name: str, run: Run) -> dict[str, Any]:
    """What `--json` prints of a run."""
    slowest = sorted((step for step in run.steps if not step.is_component), key=lambda step: -step.seconds)
    return {
        "stack": name,
        "verb": run.verb,
        "ok": run.ok,
        "seconds": round(run.seconds, 2),
        "changes": run.changes,
        "errors": list(run.errors),
        "slowest": [_step(step) for step in slowest[:10]],
    }


def _step(step: Step) -> dict[str, Any]:
    return {"type": step.type, "name": step.name, "operation": step.operation, "seconds": round(step.seconds, 2)}
