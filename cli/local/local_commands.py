"""`local ...`: manage the local cloud and run stacks in it."""

import os
import shlex
import signal
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
import yaml

from cli import options
from cli.console import make_console, print_json
from cli.errors import CommandError, NotFound, problem_count
from cli.exit_codes import FAILED, NOT_FOUND, OK, REFUSED
from cli.installation import command as program
from cli.installation import pasteable
from cli.local import crashed_parts
from cli.local.crashed_parts import DEFAULT_HOME
from cli.stacks import operation_progress
from cli.stacks.recover import describe
from infra.config import preflight, stack_file
from infra.facts import regions
from localcloud import mending
from localcloud.engine_events import Step
from localcloud.environment import foreign
from localcloud.hosts.ami import MANIFESTS, build
from localcloud.hosts.state import HostState
from localcloud.instance import LocalCloud
from localcloud.kubernetes.state import ClusterState
from localcloud.processes import ROOT
from localcloud.stack import LocalStack, Run, Verb

Home = Annotated[
    Path,
    typer.Option(
        "--home", resolve_path=True, help="Folder of the local cloud; several can run side by side.", show_default=".local/cloud/"
    ),
]
AMI_MANIFESTS = ROOT / ".local" / MANIFESTS


def report(line: str) -> None:
    """Print a line on stderr, because stdout is reserved for results."""
    make_console(stderr=True).print(line)


def progress_line(line: str) -> None:
    make_console(stderr=True).print(line, style="dim")


def start(
    home: Home = DEFAULT_HOME,
    delay_factor: Annotated[
        float | None,
        typer.Option(
            help="Factor for the duration of AWS operations: 1 takes as long as AWS, 0.01 a hundredth of that.",
            min=0.0,
            show_default="0",
        ),
    ] = None,
    kubernetes: Annotated[bool, typer.Option(help="Run EKS clusters as real Kubernetes on this machine.")] = True,
    hosts: Annotated[bool, typer.Option(help="Run EC2 instances as hosts on this machine.")] = True,
    account: Annotated[
        Literal["established", "new"] | None,
        typer.Option(help="A new account has AWS's default quotas and no service-linked roles.", show_default="established"),
    ] = None,
    providers: Annotated[
        Literal["emulated", "official", "official-kubernetes"] | None,
        typer.Option(
            help="Resource providers: our emulators, or installed official plugins (all, or only Kubernetes).",
            show_default="emulated",
        ),
    ] = None,
    as_json: options.Json = False,
) -> int:
    """The first start builds Pulumi and Kubernetes, which takes several minutes."""
    cloud = LocalCloud(home)
    factor, plugins = delay_factor or 0.0, _plugins(providers or "emulated")
    crashed_before = cloud.crashed()
    crashed_parts.refuse_other_account(cloud, account)
    crashed_parts.refuse_other_providers(cloud, providers)
    started = cloud.start(
        progress_line, delay_factor=factor, kubernetes=kubernetes, hosts=hosts, plugins=plugins, account=account or "established"
    )
    if not started and delay_factor is not None:
        cloud.control().set_delays(delay_factor)
    crashed = [server.name for server in crashed_before]
    restarted = [] if started else [*crashed, *mending.restart(cloud)]
    if as_json:
        print_json({"home": str(cloud.folder), "running": True, "started": started, "restarted": restarted})
        return OK
    report("local cloud started" if started else "local cloud is already running")
    for part in restarted:
        report(f"restarted {part}")
    if not started and delay_factor is not None:
        report(f"its delay factor is now {delay_factor:g}")
    local = f"{program()} local"
    option = crashed_parts.home_option(cloud)
    progress_line(f'next: {local} up -s local{option}; or for plain pulumi: eval "$({local} env{option})"')
    return OK


def _plugins(providers: str) -> dict[str, Path]:
    """Return the official plugins to use instead of emulators. Raises NotInstalled."""
    if not crashed_parts.OFFICIAL[providers]:
        return {}
    from localcloud import officials  # imports grpc, which is slow

    found = {name: officials.provider(name) for name in sorted(crashed_parts.OFFICIAL[providers])}
    for plugin in found.values():
        progress_line(f"using {plugin.path}, version {plugin.version}")
    return {name: plugin.path for name, plugin in found.items()}


def stop(home: Home = DEFAULT_HOME, as_json: options.Json = False) -> int:
    stopped = LocalCloud(home).stop()
    if as_json:
        print_json({"home": str(home), "running": False, "stopped": stopped})
    else:
        report("local cloud stopped" if stopped else "no local cloud was running")
    return OK


def status(home: Home = DEFAULT_HOME, as_json: options.Json = False) -> int:
    """Exits with 0 only if everything runs, and with 4 if there is no local cloud."""
    cloud = LocalCloud(home)
    servers, clusters, hosts, problems = cloud.servers(), cloud.clusters(), cloud.hosts(), cloud.problems()
    if as_json:
        rows = [{"name": s.name, "pid": s.pid, "url": s.url, "log": s.log, "running": s.is_serving()} for s in servers]
        alive = {"clusters": [asdict(cluster) for cluster in clusters], "hosts": [asdict(host) for host in hosts]}
        print_json({"home": str(cloud.folder), "running": cloud.is_running(), "problems": problems, "servers": rows, **alive})
    elif not servers:
        raise NotFound(f"no local cloud is running in {cloud.folder}; start it with: {program()} local start")
    else:
        for server in servers:
            state = "running" if server.is_serving() else "starting" if server.process() else "ended by itself"
            print(f"{server.name:<20} {state:<16} pid {server.pid:<8} 127.0.0.1:{server.port:<6} log {server.log}")
        for server in cloud.crashed():
            report(f"the end of {server.log}:\n{server.log_tail()}")
        if cloud.crashed():
            emptied = any(server.name == "aws" for server in cloud.crashed())
            progress_line(f"{program()} local start restarts the servers that ended{' with an empty account' if emptied else ''}")
        for problem in problems:
            report(f"{problem}; see the log of the aws server for details")
        for cluster in clusters:
            _print_cluster(cluster)
        if mending.dead_parts(cloud):
            progress_line(f"{program()} local start restarts the processes that have died")
        for host in hosts:
            _print_host(host)
    if not servers:
        return NOT_FOUND
    is_well = all(one.is_well for one in clusters) and all(one.is_well for one in hosts)
    return OK if cloud.is_running() and is_well and not problems else FAILED


def _print_cluster(cluster: ClusterState) -> None:
    print(f"\ncluster {cluster.name} in {cluster.region}: {cluster.phase} {cluster.endpoint}".rstrip())
    for process in cluster.processes:
        print(f"  {process.name:<40} running          pid {process.pid:<8} log {process.log}")
    for crash in cluster.crashes:
        print(f"  {crash.name:<40} ended by itself  {'':<12} log {crash.log}")
    if cluster.network_policies:
        print(f"  network policies: {cluster.network_policies}")
    for problem in [cluster.problem, *map(str, cluster.crashes)]:
        if problem:
            report(problem)


def _print_host(host: HostState) -> None:
    print(f"host {host.instance_id:<20} {host.phase:<10} {host.hostname} {host.log}".rstrip())
    if host.problem:
        report(f"  {host.problem}")


def reset(home: Home = DEFAULT_HOME, as_json: options.Json = False) -> int:
    LocalCloud(home).reset()
    if as_json:
        print_json({"home": str(home), "empty": True})
    else:
        report("local cloud is empty")
    return OK


def env(home: Home = DEFAULT_HOME, as_json: options.Json = False) -> int:
    """Usage: eval "$(scripts/cluster local env)"."""
    variables = LocalCloud(home).environment()
    if as_json:
        print_json({"unset": list(foreign(os.environ)), "export": dict(variables)})
        return OK
    print(f"unset {' '.join(foreign(os.environ))}")
    for name, value in variables.items():
        print(f"export {name}={shlex.quote(value)}")
    return OK


def ami(
    openmpi: Annotated[Literal["4", "5"], typer.Option(help="Open MPI series.")] = "4",
    framework: Annotated[
        list[str] | None, typer.Option(help="Framework in amis/frameworks/, such as chainermn; repeatable.", show_default=False)
    ] = None,
    region: Annotated[str, typer.Option(help="Region of the AMI.")] = "us-west-2",
    home: Home = DEFAULT_HOME,
    as_json: options.Json = False,
) -> int:
    """The first build compiles Open MPI, which takes several minutes."""
    regions.require_known(region)
    image = build(LocalCloud(home), region, progress_line, AMI_MANIFESTS, openmpi, framework or ())
    print_json({"ami": image}) if as_json else print(image)
    return OK


def preview(
    stack: options.Stack,
    home: Home = DEFAULT_HOME,
    config_dir: options.ConfigDir = options.STACK_FILES,
    as_json: options.Json = False,
) -> int:
    return _run("preview", LocalStack(LocalCloud(home), stack, config_dir), as_json)


def up(
    stack: options.Stack,
    home: Home = DEFAULT_HOME,
    config_dir: options.ConfigDir = options.STACK_FILES,
    as_json: options.Json = False,
) -> int:
    return _run("up", LocalStack(LocalCloud(home), stack, config_dir), as_json)


def refresh(
    stack: options.Stack,
    home: Home = DEFAULT_HOME,
    config_dir: options.ConfigDir = options.STACK_FILES,
    as_json: options.Json = False,
) -> int:
    return _run("refresh", LocalStack(LocalCloud(home), stack, config_dir), as_json)


def destroy(
    stack: options.Stack,
    home: Home = DEFAULT_HOME,
    config_dir: options.ConfigDir = options.STACK_FILES,
    as_json: options.Json = False,
) -> int:
    return _run("destroy", LocalStack(LocalCloud(home), stack, config_dir), as_json)


def grant(
    stack: options.Stack,
    home: Home = DEFAULT_HOME,
    config_dir: options.ConfigDir = options.STACK_FILES,
    as_json: options.Json = False,
) -> int:
    local = LocalStack(LocalCloud(home), stack, config_dir)
    source = local.source
    local.cloud.server("aws")
    raw = stack_file.read(source)
    _refuse(source, _examination(raw)(raw, offline=True))
    if raw.region:
        regions.require_known(raw.region)
    created = local.grant()
    if as_json:
        print_json({"created": created})
    else:
        report(f"created: {', '.join(created)}" if created else "nothing was missing")
    return OK


def recover(
    stack: options.Stack,
    home: Home = DEFAULT_HOME,
    config_dir: options.ConfigDir = options.STACK_FILES,
    as_json: options.Json = False,
) -> int:
    """Removes the lock and records what AWS created, so that the next `up` or `destroy` continues."""
    cloud = LocalCloud(home)
    crashed_parts.refuse_dead(cloud)
    recovered = LocalStack(cloud, stack, config_dir).recover(progress_line)
    if as_json:
        print_json(recovered._asdict())
    else:
        describe(recovered, report)
        report("ready for the next up")
    return OK


def outputs(
    stack: options.Stack,
    home: Home = DEFAULT_HOME,
    config_dir: options.ConfigDir = options.STACK_FILES,
    as_json: options.Json = False,
    show_secrets: Annotated[bool, typer.Option(help="Also print secrets, such as the kubeconfig.")] = False,
) -> int:
    values = LocalStack(LocalCloud(home), stack, config_dir).outputs(secrets=show_secrets)
    if as_json:
        print_json(values)
    else:
        print(yaml.safe_dump(values, sort_keys=False, width=10_000), end="")
    return OK


def _run(verb: Verb, stack: LocalStack, as_json: bool) -> int:
    """Run one Pulumi operation and print its output. With --json, print JSON on stdout and progress on stderr."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # SIGTERM stops the engine cleanly, as ^C does
    crashed_parts.refuse_dead(stack.cloud)
    if verb in ("preview", "up"):
        _check_file(stack)
        stack.prepare()
        if not stack.cloud.has_kubernetes:
            progress_line("EKS clusters exist only in the API of this local cloud: platform and jobs are left out")
    else:
        stack.must_exist()
    if as_json:
        with operation_progress.shown(make_console(stderr=True), verb) as watch:
            run = stack.run(verb, watch=watch, report=progress_line)
        print_json(summary(stack.name, run))
    else:
        console = make_console()
        run = stack.run(verb, stream=sys.stdout, color=console.is_terminal and not console.no_color, report=progress_line)
        if fix := stack.how_to_unlock(run.output):
            report(pasteable(fix))
    return OK if run.ok else FAILED


def _check_file(stack: LocalStack) -> None:
    """Reject an invalid stack file before the engine starts, with the same messages and exit code as `validate`."""
    variables = stack.cloud.process_environment()
    os.environ.clear()
    os.environ.update(variables)
    raw = stack_file.read(stack.source)
    _refuse(stack.source, _examination(raw)(raw))


def _examination(raw: stack_file.RawStack) -> Callable[..., preflight.Examined[Any, Any]]:
    return preflight.examine_existing if stack_file.is_existing(raw.values) else preflight.examine_aws


def _refuse(source: Path, examined: preflight.Examined[Any, Any]) -> None:
    if number := len(examined.problems):
        message = problem_count(source.name, number, "created")
        raise CommandError(message, REFUSED, problems=(*examined.warnings, *examined.problems))


def summary(name: str, run: Run) -> dict[str, Any]:
    """Return the result of a Pulumi operation as a JSON document."""
    slowest = sorted((step for step in run.steps if not step.is_component), key=lambda step: -step.seconds)
    return {
        "stack": name,
        "verb": run.verb,
        "ok": run.ok,
        "seconds": round(run.seconds, 2),
        "changes": run.changes,
        "errors": [pasteable(error) for error in run.errors],
        "slowest": [_step(step) for step in slowest[:10]],
    }


def _step(step: Step) -> dict[str, Any]:
    return {"type": step.type, "name": step.name, "operation": step.operation, "seconds": round(step.seconds, 2)}
