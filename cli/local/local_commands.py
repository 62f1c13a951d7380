"""`local ...`: manage the local cloud and run stacks in it."""

import os
import shlex
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from cli import options
from cli.console import make_console, print_json, print_result
from cli.errors import CommandError, NotFound, summarize_problems
from cli.exit_codes import FAILED, NOT_FOUND, OK, REFUSED
from cli.installation import program_name as program
from cli.local import crashed_parts
from cli.local.crashed_parts import DEFAULT_HOME
from infra import preflight
from infra.config import stack_file
from infra.facts import regions
from localcloud import mending
from localcloud.environment import list_foreign_variables
from localcloud.hosts.ami import MANIFESTS, build
from localcloud.instance import LocalCloud
from localcloud.kubernetes.state import ClusterState
from localcloud.processes import ROOT
from localcloud.stack import LocalStack

Home = Annotated[
    Path,
    typer.Option(
        "--home", resolve_path=True, help="Folder of the local cloud; several can run side by side.", show_default=".local/cloud/"
    ),
]
AMI_MANIFESTS = ROOT / ".local" / MANIFESTS


def print_progress(line: str) -> None:
    """Print a line on stderr, because stdout is reserved for results."""
    make_console(stderr=True).print(line)


def print_progress_line(line: str) -> None:
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
    factor, plugins = delay_factor or 0.0, find_plugins(providers or "emulated")
    crashed_before = cloud.list_crashed_servers()
    crashed_parts.check_account_kind(cloud, account)
    crashed_parts.check_providers(cloud, providers)
    started = cloud.start(
        print_progress_line,
        delay_factor=factor,
        kubernetes=kubernetes,
        hosts=hosts,
        plugins=plugins,
        account=account or "established",
    )
    if not started and delay_factor is not None:
        cloud.control().set_delays(delay_factor)
    crashed = [server.name for server in crashed_before]
    restarted = [] if started else [*crashed, *mending.restart_crashed_processes(cloud)]
    if as_json:
        print_json({"home": str(cloud.folder), "running": True, "started": started, "restarted": restarted})
        return OK
    print_progress("local cloud started" if started else "local cloud is already running")
    for part in restarted:
        print_progress(f"restarted {part}")
    if not started and delay_factor is not None:
        print_progress(f"its delay factor is now {delay_factor:g}")
    local = f"{program()} local"
    option = crashed_parts.make_home_option(cloud)
    print_progress_line(f'next: eval "$({local} env{option})"; pulumi up -s local')
    return OK


def find_plugins(providers: str) -> dict[str, Path]:
    """Return the official plugins to use instead of emulators. Raises NotInstalled."""
    if not crashed_parts.OFFICIAL[providers]:
        return {}
    from localcloud import officials  # imports grpc, which is slow

    plugins = {name: officials.find_provider(name) for name in sorted(crashed_parts.OFFICIAL[providers])}
    for plugin in plugins.values():
        print_progress_line(f"using {plugin.path}, version {plugin.version}")
    return {name: plugin.path for name, plugin in plugins.items()}


def stop(home: Home = DEFAULT_HOME, as_json: options.Json = False) -> int:
    stopped = LocalCloud(home).stop()
    document = {"home": str(home), "running": False, "stopped": stopped}
    text = "local cloud stopped" if stopped else "no local cloud was running"
    return print_result(document, text, as_json=as_json, stderr=True)


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
            state = "running" if server.is_serving() else "starting" if server.find_process() else "ended by itself"
            print(f"{server.name:<20} {state:<16} pid {server.pid:<8} 127.0.0.1:{server.port:<6} log {server.log}")
        for server in cloud.list_crashed_servers():
            print_progress(f"the end of {server.log}:\n{server.read_log_tail()}")
        if cloud.list_crashed_servers():
            emptied = any(server.name == "aws" for server in cloud.list_crashed_servers())
            print_progress_line(
                f"{program()} local start restarts the servers that have stopped{' with an empty account' if emptied else ''}"
            )
        for problem in problems:
            print_progress(f"{problem}; see the log of the aws server for details")
        for cluster in clusters:
            _print_cluster_status(cluster)
        if mending.list_crashed_processes(cloud):
            print_progress_line(f"{program()} local start restarts the processes that have died")
        for host in hosts:
            print(f"host {host.instance_id:<20} {host.phase:<10} {host.hostname} {host.log}".rstrip())
            if host.problem:
                print_progress(f"  {host.problem}")
    if not servers:
        return NOT_FOUND
    is_well = all(part.is_healthy for part in clusters) and all(part.is_healthy for part in hosts)
    return OK if cloud.is_running() and is_well and not problems else FAILED


def _print_cluster_status(cluster: ClusterState) -> None:
    print(f"\ncluster {cluster.name} in {cluster.region}: {cluster.phase} {cluster.endpoint}".rstrip())
    for process in cluster.processes:
        print(f"  {process.name:<40} running          pid {process.pid:<8} log {process.log}")
    for crash in cluster.crashes:
        print(f"  {crash.name:<40} ended by itself  {'':<12} log {crash.log}")
    if cluster.network_policies:
        print(f"  network policies: {cluster.network_policies}")
    for problem in [cluster.problem, *map(str, cluster.crashes)]:
        if problem:
            print_progress(problem)


def reset(home: Home = DEFAULT_HOME, as_json: options.Json = False) -> int:
    LocalCloud(home).reset()
    return print_result({"home": str(home), "empty": True}, "local cloud is empty", as_json=as_json, stderr=True)


def env(home: Home = DEFAULT_HOME, as_json: options.Json = False) -> int:
    """Usage: eval "$(scripts/cluster local env)". After that, run `pulumi up -s STACK` in the same shell."""
    cloud = LocalCloud(home)
    variables = cloud.environment()
    if dead := mending.list_crashed_processes(cloud):
        print_progress(
            f"not running: {', '.join(dead)}. Restart with: {program()} local start{crashed_parts.make_home_option(cloud)}"
        )
    if as_json:
        print_json({"unset": list(list_foreign_variables(os.environ)), "export": dict(variables)})
        return OK
    print(f"unset {' '.join(list_foreign_variables(os.environ))}")
    for name, value in variables.items():
        print(f"export {name}={shlex.quote(value)}")
    return OK


def build_ami(
    openmpi: Annotated[Literal["4", "5"], typer.Option(help="Open MPI series.")] = "4",
    framework: Annotated[
        list[str] | None, typer.Option(help="Framework in amis/frameworks/, such as chainermn; repeatable.", show_default=False)
    ] = None,
    region: Annotated[str, typer.Option(help="Region of the AMI.")] = "us-west-2",
    home: Home = DEFAULT_HOME,
    as_json: options.Json = False,
) -> int:
    """The first build compiles Open MPI, which takes several minutes."""
    regions.require_known_region(region)
    image = build(LocalCloud(home), region, print_progress_line, AMI_MANIFESTS, openmpi, framework or ())
    return print_result({"ami": image}, image, as_json=as_json)


def grant(
    stack: options.Stack,
    home: Home = DEFAULT_HOME,
    config_dir: options.ConfigDir = options.STACK_FILES,
    as_json: options.Json = False,
) -> int:
    local = LocalStack(LocalCloud(home), stack, config_dir)
    source = local.source
    local.cloud.server("aws")
    raw = stack_file.read_stack_file(source)
    examine = preflight.examine_existing_stack if stack_file.uses_existing_cluster(raw.values) else preflight.examine_aws_stack
    examined: preflight.Examined[Any, Any] = examine(raw, offline=True)
    if number := len(examined.problems):
        message = summarize_problems(source.name, number, "created")
        raise CommandError(message, REFUSED, problems=(*examined.warnings, *examined.problems))
    if raw.region:
        regions.require_known_region(raw.region)
    created = local.create_prerequisites()
    text = f"created: {', '.join(created)}" if created else "nothing was missing"
    return print_result({"created": created}, text, as_json=as_json, stderr=True)
