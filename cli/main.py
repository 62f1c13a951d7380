"""Table of all `scripts/cluster` verbs. A new verb needs a line in this table and a function; see CONTRIBUTING.md."""

import atexit
import gc
import sys
from collections.abc import Iterator
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from cli import errors, lazy, output
from cli.exit_codes import FAILED
from cli.installation import NAME, program_version
from cli.lazy import Verb

OBJECTS_PER_COLLECTION: Final = 100_000
"""Number of newly allocated objects that triggers Python's garbage collector."""


LOCAL: Final = {
    "start": Verb("local.local_commands", "Start the local cloud. It keeps running between commands.", "start", needs_clone=True),
    "stop": Verb("local.local_commands", "Stop the local cloud and delete everything in it.", "stop", needs_clone=True),
    "status": Verb("local.local_commands", "Show the running servers, clusters and hosts.", "status", needs_clone=True),
    "reset": Verb(
        "local.local_commands", "Empty the account and delete all stacks. The servers keep running.", "reset", needs_clone=True
    ),
    "env": Verb("local.local_commands", "Print environment variables for `pulumi` and AWS clients.", "env", needs_clone=True),
    "ami": Verb(
        "local.local_commands", "Build the AMI of EC2 clusters with Packer and print its ID.", "build_ami", needs_clone=True
    ),
    "break": Verb("local.faults", "Break a local node or job: a GPU, kubelet, link, instance or rank.", needs_clone=True),
    "grant": Verb(
        "local.local_commands",
        "Create what the stack references but does not create: VPC, reservations, AMI, users.",
        "grant",
        needs_clone=True,
    ),
    "scarce": Verb("local.account", "Make a zone run out of capacity for an instance type.", "set_scarcity", needs_clone=True),
    "quota": Verb("local.account", "Show or set a quota of the account.", "set_quota", needs_clone=True),
    "deny": Verb("local.account", "Deny an action to everyone in the account.", "deny_action", needs_clone=True),
    "clock": Verb("local.account", "Show the date of the local AWS, or advance it.", "advance_clock", needs_clone=True),
}

CAPACITY: Final = {
    "find": Verb(
        "capacity.capacity_commands", "Find GPU capacity: reservations, Capacity Blocks, Spot, offerings by zone.", "find"
    ),
    "reserve": Verb("capacity.capacity_commands", "Buy a Capacity Block and write it into the stack file.", "reserve"),
}

IMAGE: Final = {
    "build": Verb("images.image_commands", "Build a job image, and push it if requested.", "build", needs_clone=True),
    "list": Verb("images.image_commands", "List the recipes of job images.", "list_recipes", needs_clone=True),
}

VERBS: Final = {
    "Stacks": {
        "init": Verb("stacks.init.init_command", "Ask a few questions and write a stack file."),
        "validate": Verb("stacks.validate.validate_command", "Check a stack file or a job file and report every problem."),
        "plan": Verb("stacks.plan.plan_command", "Show what `pulumi up` will do, whether AWS allows it, and what it costs."),
        "cost": Verb("stacks.cost.cost_command", "Show what a stack has cost so far: pools, namespaces, jobs, idle GPUs."),
        "settings": Verb("stacks.settings", "List all settings of a stack file or a job file."),
        "kubeconfig": Verb("stacks.kubeconfig_command", "Print the kubeconfig of a stack's EKS cluster."),
        "recover": Verb("stacks.recover", "Repair a stack after `pulumi` was killed.", needs_clone=True),
    },
    "Capacity": {
        "capacity": Verb("", "Find and reserve GPU capacity.", verbs=CAPACITY),
    },
    "All clusters": {
        "status": Verb("clusters.status.status_command", "Show a cluster on one screen: pools, queues, jobs, volumes."),
        "health": Verb("nodes.health.health_command", "Show faults of nodes, their consequences, and the history of a node."),
        "dashboard": Verb(
            "clusters.dashboard.dashboard_command", "Serve a live page about a cluster on this machine, for a browser."
        ),
        "acceptance": Verb(
            "clusters.acceptance.acceptance_command", "Check a running stack row by row and write a report.", needs_clone=True
        ),
    },
    "EKS and existing Kubernetes clusters": {
        "submit": Verb("jobs.submit", "Run a job."),
        "import": Verb("jobs.importing.import_command", "Turn a job of Kubeflow, Kubernetes or Slurm into a job file."),
        "jobs": Verb("jobs.list_jobs", "List jobs and their phases; with --all, also deleted ones."),
        "goodput": Verb("jobs.goodput.goodput_command", "Show how jobs spent their time: training, lost, recovering and more."),
        "logs": Verb("jobs.logs_command", "Print a job's log, or the logs of its workers."),
        "exec": Verb("jobs.exec", "Run a command in a pod of a job.", context={"ignore_unknown_options": True}),
        "port-forward": Verb(
            "jobs.port_forward", "Forward a port of this machine to a job's pod, for example to open TensorBoard."
        ),
        "cancel": Verb("jobs.cancel", "End a job and delete everything that belongs to it, except its record."),
        "delete": Verb("jobs.cancel", "Delete a job and its record.", "delete"),
        "smoke": Verb(
            "jobs.smoke_command", "Test a pool with a job: ranks, GPUs, an allreduce, the network; on request CUDA and NCCL."
        ),
    },
    "EC2 clusters": {
        "wait": Verb("ec2.wait", "Wait until all nodes of an EC2 cluster have joined."),
        "hosts": Verb("ec2.list_hosts", "List the nodes of an EC2 cluster."),
        "run": Verb("ec2.run", "Run a command on the head node.", context={"ignore_unknown_options": True}),
        "ssh": Verb("ec2.run", "Open a shell on the head node, or run a command.", "ssh"),
        "scale": Verb("ec2.wait", "Change the number of workers.", "scale"),
    },
    "Job images": {
        "image": Verb("", "Build job images and push them to a registry.", verbs=IMAGE),
    },
    "Local cloud": {
        "local": Verb("", "Run stacks on this machine, without an AWS account.", verbs=LOCAL),
        "demo": Verb("demo.demo_command", "Show the lifecycle of a cluster in a local AWS, step by step.", needs_clone=True),
    },
    "On-premises nodes": {
        "prepare-node": Verb("nodes.prepare_node", "Prepare this machine for `kubeadm init` or `join`.", needs_clone=True),
    },
}
"""Verbs, grouped by their heading in `--help`."""


class _Cluster(lazy.Program):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        for panel, verbs in VERBS.items():
            self.commands.update(lazy.build_commands(verbs, panel))


app = typer.Typer(
    cls=_Cluster,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)


def _print_version(is_set: bool) -> None:
    if is_set:
        print(program_version())
        raise typer.Exit()


@app.callback()
def _define_root_options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """GPU clusters for MPI jobs: one YAML file per cluster."""


def load_verb(name: str) -> Any:
    """Load and return the command of a verb, such as `smoke`."""
    root: Any = typer.main.get_command(app)
    return root.commands[name].load()


def list_commands() -> Iterator[tuple[str, Any]]:
    """Yield each verb (`validate`, `local start`) with its loaded command. Imports all modules."""
    root: Any = typer.main.get_command(app)
    for name, entry in root.commands.items():
        if isinstance(entry, TyperGroup):
            for inner, command in entry.commands.items():
                yield f"{name} {inner}", command.load()  # type: ignore[attr-defined]
        else:
            yield name, entry.load()


def render_verb_table() -> str:
    """Return the Markdown table of verbs for docs/reference/command-line.md."""
    lines = ["| verb | what it does |", "|---|---|"]
    for panel, verbs in VERBS.items():
        lines.append(f"| **{panel}** | |")
        for name, verb in verbs.items():
            lines.append(f"| `{name}` | {verb.summary} |")
            lines += [f"| `{name} {inner}` | {inner_verb.summary} |" for inner, inner_verb in verb.verbs.items()]
    return "\n".join(lines) + "\n"


def main() -> None:
    # Garbage collection took a quarter of the CPU time of short verbs (docs/measurements/tests.md).
    gc.set_threshold(OBJECTS_PER_COLLECTION)
    atexit.register(gc.freeze)  # skip garbage collection at exit
    if sys.stdout is not None:
        sys.stdout = output.wrap_stdout(sys.stdout)
    if sys.stderr is not None:
        sys.stderr = output.wrap_stderr(sys.stderr)
    try:
        try:
            app(prog_name=NAME)
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise SystemExit(FAILED) from None
        if errors.find_exit_code(error) is None:
            raise
        errors.print_error(error, FAILED, "", as_json=False)
        raise SystemExit(FAILED) from None
