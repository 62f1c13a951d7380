"""`scripts/cluster smoke`: does a pool do what it is for? A job that fails unless it does."""

import io
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, cast, get_args

from cli import job_objects
from cli.cluster_access import Cluster, Failed
from cli.exit_codes import FINE, JOB_FAILED, NOT_FOUND, USAGE
from cli.job_log import Follower
from cli.submit import Where, failed, refused, result
from infra.config.messages import did_you_mean, one_of, shown
from infra.jobs import smoke as smoke_jobs
from infra.jobs.cluster import ClusterDescription, Transport
from infra.jobs.model import Job, Launcher, MpiImplementation
from infra.jobs.reading import JobRefused
from infra.jobs.render import Piece, render
from infra.jobs.smoke_verdict import Expected, Report, failures
from infra.jobs.validation import check


@dataclass(frozen=True)
class Wanted:
    """What to try."""

    pool: str | None = None
    workers: int = 2
    name: str = smoke_jobs.NAME
    image: str | None = None
    launcher: Launcher = "mpijob"
    implementation: MpiImplementation = "OpenMPI"
    transport: Transport | None = None
    keep: bool = False


def wanted(
    pool: str | None,
    workers: int,
    name: str,
    image: str | None,
    launcher: str,
    mpi: str,
    transport: str | None,
    *,
    keep: bool,
) -> Wanted:
    """What was typed. Ends the program with 2 where it is no choice."""
    for option, value, choices in (
        ("--launcher", launcher, ("mpijob", "openmpi")),
        ("--mpi", mpi, get_args(MpiImplementation)),
        ("--transport", transport, (None, *get_args(Transport))),
    ):
        if value not in choices:
            words = one_of([choice for choice in choices if choice])
            print(f"{option}: {shown(value)} is not known; write {words}", file=sys.stderr)
            raise SystemExit(USAGE)
    return Wanted(
        pool,
        workers,
        name,
        image,
        cast(Launcher, launcher),
        cast(MpiImplementation, mpi),
        cast(Transport | None, transport),
        keep,
    )


def run(wanted: Wanted, where: Where, *, as_json: bool) -> int:
    """Submit the smoke job, wait for it, judge what its ranks report, remove it."""
    try:
        cluster = where.connect()
        described = cluster.description()
        job, expected = _job(wanted, described, where.namespace or cluster.namespace)
        return _tried(cluster, job, render(job, described), expected, keep=wanted.keep, as_json=as_json)
    except JobRefused as error:
        return refused("smoke", error, as_json=as_json)
    except Failed as error:
        return failed("smoke", error, as_json=as_json)


def _job(wanted: Wanted, described: ClusterDescription, namespace: str | None) -> tuple[Job, Expected]:
    pool = described.pool(wanted.pool) if wanted.pool else smoke_jobs.smoke_pool(described)
    if pool is None:
        names = [one.name for one in described.pools]
        hint = did_you_mean(wanted.pool or "", names)
        raise Failed(
            f"there is no pool {wanted.pool}{hint}" if wanted.pool else "no pool has GPUs; name one with --pool", NOT_FOUND
        )
    job = smoke_jobs.smoke_job(
        pool.name,
        wanted.workers,
        name=wanted.name,
        image=wanted.image,
        launcher=wanted.launcher,
        implementation=wanted.implementation,
        namespace=namespace,
    )
    problems = check(job, described)
    if problems:
        raise JobRefused(problems)
    expected = smoke_jobs.expected(job, described, wanted.transport)
    return smoke_jobs.with_program(job, expected), expected


def _tried(cluster: Cluster, job: Job, pieces: Sequence[Piece], expected: Expected, *, keep: bool, as_json: bool) -> int:
    namespace = pieces[0].manifest["metadata"]["namespace"]
    job_objects.refuse_existing(cluster, pieces)
    job_objects.create(cluster, pieces)
    log: list[str] = []
    try:
        state, _ = Follower(cluster, job.name, namespace, out=io.StringIO(), keep=log.append).run()
    finally:
        if not keep:
            _remove(cluster, job, namespace)
    reports = smoke_jobs.reports("\n".join(log))
    found = failures(reports, expected)
    if state is not None and state.phase != "Succeeded" and not found:
        found = [result(state)]
    if as_json:
        print(json.dumps(_as_json(expected, reports, found), indent=1))
    else:
        _print(reports, found, expected, log)
    return JOB_FAILED if found else FINE


def _remove(cluster: Cluster, job: Job, namespace: str) -> None:
    try:
        state = job_objects.find(cluster, job.name, namespace)
        cluster.delete(state.kind, state.object_name, namespace)
    except Failed as error:
        print(f"cluster smoke: the job was not removed: {error}", file=sys.stderr)


def _as_json(expected: Expected, reports: list[Report], found: list[str]) -> dict[str, Any]:
    return {"ok": not found, "failures": found, "expected": asdict(expected), "reports": reports}


def _print(reports: list[Report], found: list[str], expected: Expected, log: list[str]) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False, soft_wrap=True)
    if not console.is_terminal:
        console.width = 200  # a pipe has no width to fit
    if not reports:
        for line in log[-20:]:
            console.print(line, markup=False, style="dim")
    else:
        table = Table("rank", "worker", "node", "GPUs", "sum", "transport", box=None, pad_edge=False)
        for report in sorted(reports, key=lambda one: int(one["rank"])):
            told = [str(report[key]) for key in ("rank", "host", "node", "gpus", "sum")]
            table.add_row(*told, ", ".join(report["transports"]))
        console.print(table)
        console.print(str(reports[0].get("library", "")), style="dim", markup=False)
    for sentence in found:
        console.print(sentence, style="red", markup=False)
    if not found:
        text = f"ok: {len(reports)} ranks on {expected.workers} nodes, {expected.gpus} GPUs each, by {expected.transport}"
        console.print(text, style="bold green", markup=False)
