"""`smoke`: test a pool with a job that fails unless the pool works."""

import io
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Annotated

import typer
from rich.text import Text

from cli import job_objects, options
from cli.cluster_access import Access, Cluster
from cli.console import Listing, make_console, print_json
from cli.errors import CommandError, NotFound
from cli.exit_codes import FAILED, OK
from cli.installation import NAME
from cli.job_log import Follower
from cli.submit import refused, result
from infra.config.messages import did_you_mean
from infra.jobs import smoke as smoke_jobs
from infra.jobs.cluster import ClusterDescription, Transport
from infra.jobs.model import Job, Launcher, MpiImplementation
from infra.jobs.render import Piece, render
from infra.jobs.smoke_verdict import Expected, Report, failures
from infra.jobs.validation import check

SHOWN_LINES = 20
"""Number of log lines to print if no rank reported."""


@dataclass(frozen=True)
class Trial:
    """Options of a smoke test."""

    pool: str | None
    workers: int
    image: str | None
    launcher: Launcher
    mpi: MpiImplementation
    transport: Transport | None
    name: str


def command(
    pool: Annotated[str | None, typer.Option(help="Pool to test.", show_default="the first one with GPUs")] = None,
    workers: Annotated[int, typer.Option(help="Number of nodes to use.")] = 2,
    image: Annotated[
        str | None, typer.Option(help="Image with sshd, MPI, Python and mpi4py.", show_default="this project's image")
    ] = None,
    launcher: Annotated[Launcher, typer.Option(help="Launcher of the job.")] = "mpijob",
    mpi: Annotated[MpiImplementation, typer.Option(help="MPI implementation of the image.")] = "OpenMPI",
    transport: Annotated[
        Transport | None, typer.Option(help="Network to expect.", show_default="the network of the pool")
    ] = None,
    name: Annotated[str, typer.Option(help="Name of the job.")] = smoke_jobs.NAME,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the job afterwards.")] = False,
    kubeconfig: options.Kubeconfig = None,
    context: options.Context = None,
    namespace: options.Namespace = None,
    as_json: options.Json = False,
) -> int:
    """Runs one worker on each of the requested nodes and checks all GPUs, a correct sum and the expected network."""
    cluster = Access(kubeconfig, context).connect()
    described = cluster.description()
    trial = Trial(pool, workers, image, launcher, mpi, transport, name)
    job, expected = _job(trial, described, namespace or cluster.namespace)
    return _run(cluster, job, render(job, described), expected, keep=keep, as_json=as_json)


def _job(trial: Trial, described: ClusterDescription, namespace: str | None) -> tuple[Job, Expected]:
    pool = described.pool(trial.pool) if trial.pool else smoke_jobs.smoke_pool(described)
    if pool is None and trial.pool:
        raise NotFound(f"there is no pool {trial.pool}{did_you_mean(trial.pool, [one.name for one in described.pools])}")
    if pool is None:
        raise NotFound("no pool has GPUs; choose a pool with --pool")
    job = smoke_jobs.smoke_job(
        pool.name,
        trial.workers,
        name=trial.name,
        image=trial.image,
        launcher=trial.launcher,
        implementation=trial.mpi,
        namespace=namespace,
    )
    if problems := [problem for problem in check(job, described) if problem.is_error]:
        raise refused("smoke", problems)
    expected = smoke_jobs.expected(job, described, trial.transport)
    return smoke_jobs.with_program(job, expected), expected


def _run(cluster: Cluster, job: Job, pieces: Sequence[Piece], expected: Expected, *, keep: bool, as_json: bool) -> int:
    """Submit the job, wait for it, check what its ranks report, and delete it."""
    namespace = pieces[0].manifest["metadata"]["namespace"]
    job_objects.refuse_existing(cluster, pieces)
    job_objects.create(cluster, pieces)
    log: list[str] = []
    try:
        state, _ = Follower(cluster, job.name, namespace, out=io.StringIO(), keep=log.append).run()
    finally:
        if not keep:
            _delete(cluster, job, namespace)
    reports = smoke_jobs.reports("\n".join(log))
    found = failures(reports, expected)
    if state is not None and state.phase != "Succeeded" and not found:
        found = [result(state)]
    if as_json:
        print_json({"ok": not found, "failures": found, "expected": asdict(expected), "reports": reports})
    else:
        _print(reports, found, expected, log)
    return FAILED if found else OK


def _delete(cluster: Cluster, job: Job, namespace: str) -> None:
    try:
        state = job_objects.find(cluster, job.name, namespace)
        cluster.delete(state.kind, state.object_name, namespace)
    except CommandError as error:
        print(f"{NAME} smoke: the job was not deleted: {error}", file=sys.stderr)


def _print(reports: list[Report], found: list[str], expected: Expected, log: list[str]) -> None:
    console = make_console()
    if not reports:
        for line in log[-SHOWN_LINES:]:
            console.print(line, style="dim")
    else:
        listing = Listing("rank", "worker", "node", "GPUs", "sum", "transport")
        for report in sorted(reports, key=lambda one: int(one["rank"])):
            values = [str(report[key]) for key in ("rank", "host", "node", "gpus", "sum")]
            listing.add_row(*values, ", ".join(report["transports"]))
        console.print(listing)
        console.print(Text(str(reports[0].get("library", "")), "dim"))
    for sentence in found:
        console.print(sentence, style="red")
    if not found:
        text = f"ok: {len(reports)} ranks on {expected.workers} nodes, {expected.gpus} GPUs each, by {expected.transport}"
        console.print(text, style="bold green")
