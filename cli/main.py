"""`scripts/cluster`: which verbs there are and what they take."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer.core import TyperCommand, TyperGroup

ROOT = Path(__file__).resolve().parents[1]

LOCAL = "local"
LOCAL_HELP = "The local cloud: run stacks on this machine, without an AWS account."

CONTEXT = {"help_option_names": ["-h", "--help"]}


class _Verbs(TyperGroup):
    """The verbs below and `local`, whose own verbs are imported only on use: help must not wait for them."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [*self.commands, *([] if LOCAL in self.commands else [LOCAL])]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name == LOCAL and LOCAL not in self.commands:
            from cli.local import app as local

            return typer.main.get_command(local)
        return super().get_command(ctx, cmd_name)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        self.commands[LOCAL] = TyperCommand(LOCAL, help=LOCAL_HELP)
        super().format_help(ctx, formatter)


app = typer.Typer(
    cls=_Verbs,
    no_args_is_help=True,
    add_completion=False,
    context_settings=CONTEXT,
    pretty_exceptions_enable=False,
    help="GPU clusters for MPI jobs: one YAML file per cluster.",
)


@app.callback()
def _group() -> None:
    """GPU clusters for MPI jobs: one YAML file per cluster."""


Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")]


ForAws = "Targets eks and ec2"
ForExisting = "Target existing"


@app.command()
def init(
    stack: Annotated[str, typer.Option("--stack", "-s", help="Name of the new stack.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not prompt; use the default for anything not given.")] = False,
    target: Annotated[
        Literal["eks", "ec2", "existing"] | None, typer.Option(help="What the stack builds.", show_default=False)
    ] = None,
    storage: Annotated[
        Literal["efs", "none", "nfs", "storage-class"] | None,
        typer.Option(help="Shared volume: efs or none; for target existing nfs, storage-class or none.", show_default=False),
    ] = None,
    size: Annotated[
        str | None, typer.Option(help="Maximum number of nodes; for target existing, how many there are.", show_default=False)
    ] = None,
    offline: Annotated[
        bool, typer.Option("--offline", help="Query neither AWS, nor the cluster, nor your public address.")
    ] = False,
    config_dir: Annotated[Path | None, typer.Option(help="Folder of stack files; stacks/ by default.")] = None,
    region: Annotated[
        str | None, typer.Option(help="AWS region; AWS_REGION by default.", show_default=False, rich_help_panel=ForAws)
    ] = None,
    instance_type: Annotated[
        str | None, typer.Option(help="Instance type of the compute nodes.", show_default=False, rich_help_panel=ForAws)
    ] = None,
    allow: Annotated[
        str | None,
        typer.Option(
            help="CIDRs, separated by commas, that reach the Kubernetes API (eks) or the master's SSH port (ec2), or none. Your "
            "own public address by default, from https://checkip.amazonaws.com (GPUMPI_CHECKIP_URL names another service).",
            show_default=False,
            rich_help_panel=ForAws,
        ),
    ] = None,
    ssh_key: Annotated[
        str | None,
        typer.Option(help="Target ec2: file of your public SSH key.", show_default=False, rich_help_panel=ForAws),
    ] = None,
    kubeconfig: Annotated[
        str | None,
        typer.Option(help="KUBECONFIG or ~/.kube/config by default.", show_default=False, rich_help_panel=ForExisting),
    ] = None,
    context: Annotated[
        str | None, typer.Option(help="The current context by default.", show_default=False, rich_help_panel=ForExisting)
    ] = None,
    pool: Annotated[
        str | None, typer.Option(help="Name of the node pool.", show_default=False, rich_help_panel=ForExisting)
    ] = None,
    node_selector: Annotated[
        str | None,
        typer.Option(
            help="KEY=VALUE, separated by commas: labels that exactly the pool's nodes have.",
            show_default=False,
            rich_help_panel=ForExisting,
        ),
    ] = None,
    gpus: Annotated[str | None, typer.Option(help="GPUs per node.", show_default=False, rich_help_panel=ForExisting)] = None,
    nfs: Annotated[
        str | None, typer.Option(help="NFS export, SERVER:/PATH.", show_default=False, rich_help_panel=ForExisting)
    ] = None,
    storage_class: Annotated[
        str | None,
        typer.Option(help="Storage class with ReadWriteMany volumes.", show_default=False, rich_help_panel=ForExisting),
    ] = None,
    volume_size: Annotated[
        str | None, typer.Option(help="Size of each namespace's volume.", show_default=False, rich_help_panel=ForExisting)
    ] = None,
    mount_path: Annotated[
        str | None, typer.Option(help="Where jobs see the volume.", show_default=False, rich_help_panel=ForExisting)
    ] = None,
) -> None:
    """Ask a few questions and write a stack file. Never overwrites a file.

    Exit code: 0 written, 2 wrong usage, 3 the file exists already or an answer does not pass validation.
    """
    from cli import init as verb

    given = {"target": target, "region": region, "instance-type": instance_type, "size": size, "storage": storage}
    given |= {"allow": allow, "ssh-key": ssh_key, "kubeconfig": kubeconfig, "context": context, "pool": pool}
    given |= {"node-selector": node_selector, "gpus": gpus, "nfs": nfs, "storage-class": storage_class}
    given |= {"volume-size": volume_size, "mount-path": mount_path}
    raise typer.Exit(verb.run(stack, config_dir or ROOT / "stacks", given, yes=yes, offline=offline))


@app.command()
def validate(
    stack: Annotated[str, typer.Option("--stack", "-s", help="Name of the stack: NAME of Pulumi.NAME.yaml.")],
    config_dir: Annotated[Path | None, typer.Option(help="Folder of the stack file; stacks/ by default.")] = None,
    offline: Annotated[bool, typer.Option("--offline", help="Look at the file only; ask AWS nothing.")] = False,
    as_json: Json = False,
) -> None:
    """Print every problem of a stack, or what it will be. Starts nothing.

    Exit code: 0 no problem, 3 problems, 1 AWS cannot be asked, 2 wrong usage.
    """
    from cli import validate as verb

    raise typer.Exit(verb.run(stack, config_dir or ROOT / "stacks", offline=offline, as_json=as_json))


@app.command()
def settings(
    form: Annotated[str, typer.Option("--format", help="table, markdown or json.")] = "table",
    of: Annotated[str, typer.Option(help="stack, existing (a cluster that is there) or job.")] = "stack",
) -> None:
    """Everything a stack file (or a job) may say: meaning, default, and what a change does to a live cluster."""
    from cli import settings as verb

    raise typer.Exit(verb.run(form, of))


@app.command()
def prepare_node(
    check: Annotated[bool, typer.Option("--check", help="Only tell what is there and what is missing.")] = False,
    kubernetes_folder: Annotated[
        Path | None, typer.Option(help="A folder with kubeadm, kubelet and kubectl, for a closed network; else from pkgs.k8s.io.")
    ] = None,
) -> None:
    """On a machine of your own, as root: make it ready for `kubeadm init` or `join` (docs/on-premises.md).

    Exit code: 0 ready, 1 something is missing or failed, 2 it cannot be done here.
    """
    from cli import prepare_node as verb

    raise typer.Exit(verb.run(check=check, kubernetes_folder=kubernetes_folder))


@app.command()
def recover(
    stack: Annotated[str, typer.Option("--stack", "-s", help="Name of the stack.")],
    as_json: Json = False,
) -> None:
    """After `pulumi` was killed: take away its lock and settle what it had begun. Only while nobody works on the stack.

    What AWS made of it goes into the stack's state, so that the next `pulumi up` or `destroy` goes on and nothing is made twice.
    """
    from cli import recover as verb

    raise typer.Exit(verb.run(stack, as_json=as_json))


# --- jobs: a kubeconfig is enough ---------------------------------------------------------------------------------------

Kubeconfig = Annotated[
    Path | None, typer.Option("--kubeconfig", help="The kubeconfig; KUBECONFIG or ~/.kube/config by default.", show_default=False)
]
Context = Annotated[str | None, typer.Option("--context", help="Its context; the current one by default.")]
Namespace = Annotated[str | None, typer.Option("--namespace", "-n", help="The cluster's namespace for jobs by default.")]


@app.command()
def submit(
    job: Annotated[Path, typer.Argument(metavar="JOB.yaml", help="The job.")],
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Print the launcher's log until the job's end.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the objects that would be made, make nothing.")] = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    namespace: Namespace = None,
    as_json: Json = False,
) -> None:
    """Run a job. What it may say: scripts/cluster settings --of job.

    Exit code: 0 submitted (with --follow: succeeded), 1 the job failed, 2 wrong usage, 3 the job has problems or is there
    already, 4 something named is not there, 5 no cluster answers or lets us in.
    """
    from cli import submit as verb

    where = verb.Where(kubeconfig, context, namespace)
    raise typer.Exit(verb.run(job, where, follow=follow, dry_run=dry_run, as_json=as_json))


@app.command()
def jobs(
    everywhere: Annotated[bool, typer.Option("--all-namespaces", "-A", help="Of every namespace.")] = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    namespace: Namespace = None,
    as_json: Json = False,
) -> None:
    """Which jobs there are, and where each stands. Exit codes as with submit."""
    from cli import jobs as verb
    from cli.submit import Where

    raise typer.Exit(verb.run(Where(kubeconfig, context, namespace), everywhere=everywhere, as_json=as_json))


@app.command()
def logs(
    name: Annotated[str, typer.Argument(help="The job.")],
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Until the job's end, through its restarts.")] = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    namespace: Namespace = None,
    as_json: Json = False,
) -> None:
    """The log of a job's launcher. Exit codes as with submit."""
    from cli import logs as verb
    from cli.submit import Where

    raise typer.Exit(verb.run(name, Where(kubeconfig, context, namespace), follow=follow, as_json=as_json))


@app.command()
def cancel(
    name: Annotated[str, typer.Argument(help="The job.")],
    wait: Annotated[bool, typer.Option(help="Wait until its pods are gone.")] = True,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    namespace: Namespace = None,
    as_json: Json = False,
) -> None:
    """Remove a job, running or not, and all that belongs to it. Exit codes as with submit."""
    from cli import cancel as verb
    from cli.submit import Where

    raise typer.Exit(verb.run(name, Where(kubeconfig, context, namespace), wait=wait, as_json=as_json))


@app.command()
def smoke(
    pool: Annotated[str | None, typer.Option(help="The pool; the first one with GPUs by default.")] = None,
    workers: Annotated[int, typer.Option(help="Nodes to use.")] = 2,
    image: Annotated[str | None, typer.Option(help="An image with sshd, MPI, Python and mpi4py; ours by default.")] = None,
    launcher: Annotated[str, typer.Option(help="mpijob or openmpi.")] = "mpijob",
    mpi: Annotated[str, typer.Option(help="OpenMPI, Intel or MPICH.")] = "OpenMPI",
    transport: Annotated[str | None, typer.Option(help="efa or tcp; what the pool is said to have by default.")] = None,
    name: Annotated[str, typer.Option(help="Name of the job.")] = "smoke",
    keep: Annotated[bool, typer.Option("--keep", help="Leave the job there afterwards.")] = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    namespace: Namespace = None,
    as_json: Json = False,
) -> None:
    """Prove that a pool works: ranks on as many nodes as asked for, on all GPUs, with a right sum, over the right network.

    Exit code: 0 all of it holds, 1 something does not; others as with submit.
    """
    from cli import smoke as verb
    from cli.submit import Where

    wanted = verb.wanted(pool, workers, name, image, launcher, mpi, transport, keep=keep)
    raise typer.Exit(verb.run(wanted, Where(kubeconfig, context, namespace), as_json=as_json))


@app.command()
def kubeconfig(
    stack: Annotated[str, typer.Option("--stack", "-s", help="Name of the stack.")],
    config_dir: Annotated[Path | None, typer.Option(help="Folder of the stack file; stacks/ by default.")] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write a file that only you can read.")] = None,
) -> None:
    """Print the kubeconfig of a stack's cluster; your AWS credentials are the key. Exit codes as with submit."""
    from cli import kubeconfig as verb

    raise typer.Exit(verb.run(stack, config_dir or ROOT / "stacks", output))


@app.command()
def status(
    stack: Annotated[
        str | None,
        typer.Option("--stack", "-s", help="Name of the stack; without it, the kubeconfig's cluster.", show_default=False),
    ] = None,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Again and again, until ^C; with --json a document a line.")
    ] = False,
    config_dir: Annotated[Path | None, typer.Option(help="Folder of the stack file; stacks/ by default.")] = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    namespace: Annotated[str | None, typer.Option("--namespace", "-n", help="Only the jobs of this one; all by default.")] = None,
    as_json: Json = False,
) -> None:
    """A cluster on one screen: pools (nodes, GPUs, the last failed launch), queue, jobs that are not over, volumes.

    Of a stack on AWS the kubeconfig is made from AWS's answer, unless one is named. Without AWS, the kubeconfig tells what it
    can. Of a plain EC2 cluster: its master, and workers joined and wanted.

    Exit code: 0 looked, 2 wrong usage, 3 the kubeconfig is of another cluster, 4 no such stack or cluster, 5 no cluster answers
    or lets us in (what AWS knows is printed nevertheless).
    """
    from cli.status import verb
    from cli.submit import Where

    where = Where(kubeconfig, context, namespace)
    raise typer.Exit(verb.run(stack, config_dir or ROOT / "stacks", where, watch=watch, as_json=as_json))


# --- plain EC2 clusters --------------------------------------------------------------------------------------------------

Stack = Annotated[str, typer.Option("--stack", "-s", help="Name of the stack.")]
Folder = Annotated[Path | None, typer.Option("--config-dir", help="Folder of the stack file; stacks/ by default.")]
Identity = Annotated[Path | None, typer.Option("--identity", "-i", help="Your private SSH key; ssh's own choice by default.")]
Minutes = Annotated[float, typer.Option("--minutes", help="How long to wait at most.")]


@app.command("wait")
def wait_for(
    stack: Stack, minutes: Minutes = 20, identity: Identity = None, config_dir: Folder = None, as_json: Json = False
) -> None:
    """Wait until a plain EC2 cluster is ready: all wanted nodes have joined, and the master's hostfile has them and nobody else.

    Prints why one fails. Who may not log in to the master has AWS's word alone for it, and is told so.

    Exit code: 0 ready, 1 not ready in time or never, 4 no such cluster, 5 AWS cannot be asked.
    """
    from cli import wait as verb

    raise typer.Exit(verb.run(stack, config_dir or ROOT / "stacks", minutes=minutes, identity=identity, as_json=as_json))


@app.command()
def hosts(stack: Stack, config_dir: Folder = None, as_json: Json = False) -> None:
    """The nodes of a plain EC2 cluster: addresses, slots, and whether they have joined."""
    from cli import hosts as verb

    raise typer.Exit(verb.run(stack, config_dir or ROOT / "stacks", as_json=as_json))


@app.command(context_settings={"ignore_unknown_options": True})
def run(
    stack: Stack,
    command: Annotated[list[str] | None, typer.Argument(metavar="-- COMMAND", help="The command and its arguments.")] = None,
    workdir: Annotated[str | None, typer.Option(help="Folder there; the shared file system by default.")] = None,
    detach: Annotated[bool, typer.Option("--detach", "-d", help="Print the run's id and return.")] = False,
    attach: Annotated[str | None, typer.Option(help="Look on at a run that was started before, by its id.")] = None,
    identity: Identity = None,
    config_dir: Folder = None,
) -> None:
    """Run a command on the master of a plain EC2 cluster, like `-- mpiexec -n 32 -N 8 python train_mnist.py`.

    It goes on when the connection breaks, and so does its output. Exit code: the command's; 255 where it could not be started or
    its end is not known.
    """
    from cli import run as verb

    folder = config_dir or ROOT / "stacks"
    raise typer.Exit(verb.run(stack, folder, command or [], workdir=workdir, identity=identity, detach=detach, attach=attach))


@app.command()
def ssh(
    stack: Stack,
    command: Annotated[list[str] | None, typer.Argument(metavar="[-- COMMAND]", help="Instead of a shell.")] = None,
    identity: Identity = None,
    config_dir: Folder = None,
) -> None:
    """A shell on the master of a plain EC2 cluster, through Session Manager. Its host key is known from the key bucket."""
    from cli import ssh as verb

    raise typer.Exit(verb.run(stack, config_dir or ROOT / "stacks", command or [], identity=identity))


@app.command()
def scale(
    size: Annotated[int, typer.Argument(metavar="N", help="Workers.")],
    stack: Stack,
    wait: Annotated[bool, typer.Option(help="Wait until they have joined, or are gone, and the master knows it.")] = True,
    minutes: Minutes = 20,
    identity: Identity = None,
    config_dir: Folder = None,
) -> None:
    """Change the number of workers of a plain EC2 cluster; `pulumi up` leaves it so.

    Exit codes as with wait, and 3: less than minSize or more than maxSize.
    """
    from cli import scale as verb

    folder = config_dir or ROOT / "stacks"
    raise typer.Exit(verb.run(size, stack, folder, minutes=minutes, identity=identity, wait_for_it=wait))


@app.command()
def demo(
    ec2: Annotated[bool, typer.Option("--ec2", help="Of a plain EC2 cluster, without Kubernetes.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Print what Pulumi prints.")] = False,
    as_json: Json = False,
) -> None:
    """The whole life of a cluster on a local AWS, step by step."""
    if ec2:
        from cli import demo_ec2 as verb
    else:
        from cli import demo as verb  # type: ignore[no-redef]

    raise typer.Exit(verb.main(verbose=verbose, as_json=as_json))


def main() -> None:
    app(prog_name="cluster")
