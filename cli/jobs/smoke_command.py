"""`smoke`: test a pool by running jobs that fail if the pool does not work."""

import io
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Annotated, Any, Literal

import typer
from rich.text import Text

from cli import options
from cli.clusters.kubernetes_access import Access, Cluster
from cli.console import Listing, make_console, print_json
from cli.errors import CommandError, NotFound
from cli.exit_codes import FAILED, OK
from cli.images.recipes import default_image
from cli.installation import NAME
from cli.installation import command as program
from cli.jobs import objects, pool_choice
from cli.jobs.follow_log import Follower
from cli.jobs.state import JobState
from cli.jobs.submit import refused, result, warn
from infra.config.problems import Problem, warning
from infra.jobs import nccl_verdict, smoke_verdict
from infra.jobs import smoke as smoke_jobs
from infra.jobs.cluster import ClusterDescription, PoolDescription, Transport
from infra.jobs.model import Job, Launcher, MpiImplementation
from infra.jobs.render import render
from infra.jobs.smoke_verdict import Check, Expected, Report, listed
from infra.jobs.validation import check
from infra.naming import EMULATED_LABEL

SHOWN_LINES = 20
"""Number of log lines to print if no rank reported a result."""

STYLES = {smoke_verdict.PASSED: "green", smoke_verdict.FAILED: "red"}


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
    level: smoke_jobs.Level


@dataclass
class Outcome:
    """Results of a smoke test."""

    expected: Expected
    checks: list[Check] = field(default_factory=list)
    reports: list[Report] = field(default_factory=list)
    nccl: list[nccl_verdict.NetworkReport] = field(default_factory=list)
    log: Sequence[str] = ()
    """Log of the last job."""

    @property
    def failures(self) -> list[str]:
        return [sentence for one in self.checks for sentence in one.failures]

    def add(self, checks: Sequence[Check], state: JobState | None, told: Sequence[str]) -> None:
        """Add a job's checks. If the job failed without reporting a failure (`told`), add a failed check for it."""
        self.checks += checks
        if state is not None and state.phase != "Succeeded" and not told:
            self.checks.append(smoke_verdict.judged("job", [result(state)], ""))


def command(
    level: Annotated[
        smoke_jobs.Level,
        typer.Option(
            help="What to check; each level includes the ones before it. `devices`: ranks, device files, a sum, MPI's network. "
            "`cuda`: a kernel runs on every GPU. `nccl`: network, GPUDirect and bandwidth of NCCL."
        ),
    ] = "devices",
    pool: Annotated[str | None, typer.Option(help="Pool to test.", show_default="the first pool with GPUs")] = None,
    workers: Annotated[int, typer.Option(help="Number of nodes to use.")] = 2,
    image: Annotated[
        str | None,
        typer.Option(
            help="Image with sshd, MPI, Python and mpi4py; for `--level nccl` also all_reduce_perf.",
            show_default="this project's image",
        ),
    ] = None,
    launcher: Annotated[
        Literal["mpijob", "standalone", "torchrun", "openmpi"],
        typer.Option(help="Launcher of the job: `mpijob` or `standalone`; `openmpi` is the old name of `standalone`."),
    ] = "mpijob",
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
    """Runs one worker on each of the requested nodes, and prints what it checked. The exit code is 1 if a check failed. A
    check that this hardware does not support neither passes nor fails."""
    cluster = Access(kubeconfig, context).connect()
    described = cluster.description()
    if launcher == "openmpi":
        warn(warning("--launcher", "openmpi is the old name of standalone. Use standalone."))
        launcher = "standalone"
    trial = Trial(pool, workers, image, launcher, mpi, transport, name, level)
    job = _job(trial, described, namespace or cluster.namespace)
    expected = smoke_jobs.expected(job, described, transport, level, _emulated(cluster))
    outcome = _test(cluster, job, expected, described, keep=keep)
    if as_json:
        print_json(_document(outcome, smoke_jobs.nccl_expected(job, described)))
    else:
        _print(outcome)
    return FAILED if outcome.failures else OK


def _job(trial: Trial, described: ClusterDescription, namespace: str | None) -> Job:
    pool = pool_choice.named(trial.pool, described.pools) if trial.pool else smoke_jobs.smoke_pool(described)
    if pool is None:
        raise NotFound("no pool has GPUs; choose a pool with --pool")
    if problems := _unsupported(trial, pool):
        raise refused("smoke", problems)
    job = smoke_jobs.smoke_job(
        pool.name,
        trial.workers,
        name=trial.name,
        image=trial.image or default_image(pool, trial.mpi),
        launcher=trial.launcher,
        implementation=trial.mpi,
        namespace=namespace,
    )
    jobs = [job, smoke_jobs.nccl_job(job, described)] if trial.level == "nccl" and not check(job, described) else [job]
    if problems := [problem for one in jobs for problem in check(one, described) if problem.is_error]:
        raise refused("smoke", problems)
    return job


def _unsupported(trial: Trial, pool: PoolDescription) -> list[Problem]:
    found = []
    if trial.launcher == "torchrun":
        fix = f"Use mpijob or standalone, with an image that has MPI ({program()} image build mpi)."
        found.append(Problem("--launcher", f"torchrun does not start MPI ranks, which every level of smoke needs. {fix}"))
    if trial.level != "devices" and not pool.gpus:
        fix = "Use --level devices, or a pool with GPUs."
        found.append(Problem("--level", f"pool {pool.name} has no GPUs for level {trial.level}. {fix}"))
    return found


def _emulated(cluster: Cluster) -> list[str]:
    """Return the nodes that are labeled as having emulated devices; empty if the caller may not list nodes."""
    try:
        nodes = cluster.list("Node", selector={EMULATED_LABEL: "true"})
    except CommandError:
        return []
    return sorted(node["metadata"]["name"] for node in nodes)


def _test(cluster: Cluster, job: Job, expected: Expected, described: ClusterDescription, *, keep: bool) -> Outcome:
    """Run the jobs of the test's level. Devices count as emulated if their node has the label EMULATED_LABEL."""
    log, state = _run(cluster, smoke_jobs.with_program(job, expected), described, keep=keep)
    reports = smoke_jobs.reports("\n".join(log))
    told = smoke_verdict.failures(reports, expected)
    outcome = Outcome(replace(expected, emulated=tuple(_emulated(cluster))), reports=reports, log=log)
    outcome.add(smoke_verdict.checks(reports, outcome.expected), state, told)
    if expected.level != "nccl":
        return outcome
    failed = [one.name for one in outcome.checks if one.failures]
    emulated = smoke_verdict.emulated_nodes(reports, outcome.expected)
    if failed:
        outcome.checks += nccl_verdict.not_checked(smoke_verdict.NOT_RUN, f"failed before: {listed(failed)}")
    elif emulated:
        why = f"the GPUs of {listed(emulated)} are emulated, and NCCL needs real ones"
        outcome.checks += nccl_verdict.not_checked(smoke_verdict.NOT_HERE, why)
    else:
        outcome.log, state = _run(cluster, smoke_jobs.nccl_job(job, described), described, keep=keep)
        outcome.nccl = smoke_jobs.nccl_reports("\n".join(outcome.log))
        checks = nccl_verdict.checks(outcome.nccl, smoke_jobs.nccl_expected(job, described))
        outcome.add(checks, state, [sentence for one in checks for sentence in one.failures])
    return outcome


def _run(cluster: Cluster, job: Job, described: ClusterDescription, *, keep: bool) -> tuple[list[str], JobState | None]:
    """Submit a job, wait for it and delete it; return its log and its last state."""
    pieces = render(job, described)
    namespace = pieces[0].manifest["metadata"]["namespace"]
    objects.submit(cluster, pieces)
    log: list[str] = []
    try:
        state, _ = Follower(cluster, job.name, namespace, out=io.StringIO(), keep=log.append).run()
    finally:
        if not keep:
            _delete(cluster, job, namespace)
    return log, state


def _delete(cluster: Cluster, job: Job, namespace: str) -> None:
    try:
        state = objects.find(cluster, job.name, namespace)
        cluster.delete(state.kind, state.object_name, namespace)
    except CommandError as error:
        print(f"{NAME} smoke: the job was not deleted: {error}", file=sys.stderr)


def _document(outcome: Outcome, nccl: nccl_verdict.NcclExpected) -> dict[str, Any]:
    expected = asdict(outcome.expected)
    if outcome.expected.level == "nccl":
        expected["nccl"] = asdict(nccl)
    return {
        "ok": not outcome.failures,
        "level": outcome.expected.level,
        "failures": outcome.failures,
        "checks": [{"name": one.name, "result": one.result, "detail": one.detail} for one in outcome.checks],
        "expected": expected,
        "reports": outcome.reports,
        "nccl": outcome.nccl,
    }


def _print(outcome: Outcome) -> None:
    console = make_console()
    if "no rank reported" in outcome.failures:
        for line in outcome.log[-SHOWN_LINES:]:
            console.print(line, style="dim")
    if outcome.reports:
        listing = Listing("rank", "worker", "node", "GPUs", "sum", "transport")
        for report in sorted(outcome.reports, key=lambda one: int(one["rank"])):
            values = [str(report[key]) for key in ("rank", "host", "node", "gpus", "sum")]
            listing.add_row(*values, ", ".join(report["transports"]))
        console.print(listing)
        console.print(Text(str(outcome.reports[0].get("library", "")), "dim"))
    listing = Listing("check", "result", "detail")
    for one in outcome.checks:
        listing.add_row(one.name, Text(one.result, STYLES.get(one.result, "yellow")), one.detail)
    console.print(listing)
    console.print(Text(_summary(outcome), "bold red" if outcome.failures else "bold green"))


def _summary(outcome: Outcome) -> str:
    """Return the last line of the output: names of the passed checks, and the number of checks with other results."""
    number: Callable[[str], int] = lambda wanted: sum(one.result == wanted for one in outcome.checks)  # noqa: E731
    names = [one.name for one in outcome.checks if one.result == smoke_verdict.PASSED]
    parts = [f"{number(smoke_verdict.PASSED)} passed" + (f" ({', '.join(names)})" if names else "")]
    for wanted in (smoke_verdict.FAILED, smoke_verdict.NOT_HERE, smoke_verdict.NOT_RUN):
        if number(wanted):
            parts.append(f"{number(wanted)} {wanted}")
    return f"{'FAILED' if outcome.failures else 'ok'}: {'; '.join(parts)}"
