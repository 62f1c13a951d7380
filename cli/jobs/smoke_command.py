"""`smoke`: test a pool by running jobs that fail if the pool does not work."""

import io
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Annotated, Any

import typer
from rich.text import Text

from cli import options
from cli.clusters.kubernetes_access import Access, Cluster
from cli.console import Listing, make_console, print_result
from cli.errors import CommandError, NotFound
from cli.exit_codes import FAILED, OK
from cli.images.recipes import choose_default_image
from cli.installation import NAME
from cli.installation import program_name as program
from cli.jobs import objects
from cli.jobs.follow_log import Follower
from cli.jobs.state import JobState
from cli.jobs.submit import describe_result, make_refusal_error
from infra.config.problems import Problem
from infra.jobs import nccl_verdict, smoke_verdict
from infra.jobs import smoke as smoke_jobs
from infra.jobs.cluster import ClusterDescription, PoolDescription, Transport
from infra.jobs.model import Job, LauncherName, MpiImplementation
from infra.jobs.render import LAUNCHERS, place_job, render_job
from infra.jobs.smoke_verdict import Check, Expected, Report, join_items
from infra.jobs.validation import check_job
from infra.naming import EMULATED_LABEL

SHOWN_LINES = 20
"""Number of log lines to print if no rank reported a result."""

STYLES = {smoke_verdict.PASSED: "green", smoke_verdict.FAILED: "red"}


@dataclass(frozen=True)
class Trial:
    """Options of a smoke test."""

    level: Annotated[
        smoke_jobs.Level,
        typer.Option(
            help="What to check; each level includes the previous ones. `devices`: ranks, device files, a sum, MPI's network. "
            "`cuda`: a kernel runs on every GPU. `nccl`: network, GPUDirect and bandwidth of NCCL."
        ),
    ] = "devices"
    pool: Annotated[str | None, typer.Option(help="Pool to test.", show_default="the first pool with GPUs")] = None
    workers: Annotated[int, typer.Option(help="Number of nodes to use.")] = 2
    image: Annotated[
        str | None,
        typer.Option(
            help="Image with sshd, MPI, Python and mpi4py; for `--level nccl` also all_reduce_perf.",
            show_default="this project's image",
        ),
    ] = None
    launcher: Annotated[
        LauncherName,
        typer.Option(help="Launcher of the job: `mpijob` or `standalone`."),
    ] = "mpijob"
    mpi: Annotated[MpiImplementation, typer.Option(help="MPI implementation of the image.")] = "OpenMPI"
    transport: Annotated[Transport | None, typer.Option(help="Network to expect.", show_default="the network of the pool")] = None
    name: Annotated[str, typer.Option(help="Name of the job.")] = smoke_jobs.NAME


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
        return [sentence for check in self.checks for sentence in check.failures]

    def add(self, checks: Sequence[Check], state: JobState | None, reported: Sequence[str]) -> None:
        """Add a job's checks. If the job failed but reported no failed check (`reported`), add a failed check for the job."""
        self.checks += checks
        if state is not None and state.phase != "Succeeded" and not reported:
            self.checks.append(smoke_verdict.build_check("job", [describe_result(state)], ""))


def command(
    trial: Trial,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the job afterwards.")] = False,
    *,
    access: Access,
    as_json: options.Json = False,
) -> int:
    """Runs one worker on each of the requested nodes, and prints what it checked. The exit code is 1 if a check failed. A
    check that this hardware does not support neither passes nor fails."""
    cluster = access.connect()
    described = cluster.description()
    job = _build_job(trial, described, access.namespace or cluster.namespace)
    expected = smoke_jobs.compute_expected_results(job, described, trial.transport, trial.level, list_emulated_nodes(cluster))
    outcome = _run_test_jobs(cluster, job, expected, described, keep=keep)
    document = _build_document(outcome, smoke_jobs.compute_expected_nccl_results(job, described))
    return print_result(document, lambda: _print_outcome(outcome), as_json=as_json, code=FAILED if outcome.failures else OK)


def _build_job(trial: Trial, described: ClusterDescription, namespace: str | None) -> Job:
    pool = objects.find_pool(trial.pool, described.pools) if trial.pool else smoke_jobs.choose_smoke_pool(described)
    if pool is None:
        raise NotFound("no pool has GPUs; choose a pool with --pool")
    if problems := find_unsupported_options(trial, pool):
        raise make_refusal_error("smoke", problems)
    job = smoke_jobs.build_smoke_job(
        pool.name,
        trial.workers,
        name=trial.name,
        image=trial.image or choose_default_image(pool, trial.mpi),
        launcher=trial.launcher,
        implementation=trial.mpi,
        namespace=namespace,
    )
    jobs = [job, smoke_jobs.build_nccl_job(job, described)] if trial.level == "nccl" and not check_job(job, described) else [job]
    if problems := [problem for job in jobs for problem in check_job(job, described) if problem.is_error]:
        raise make_refusal_error("smoke", problems)
    return job


def find_unsupported_options(trial: Trial, pool: PoolDescription) -> list[Problem]:
    problems = []
    if not LAUNCHERS[trial.launcher].uses_ssh:
        fix = f"Use mpijob or standalone, with an image that has MPI ({program()} image build mpi)."
        problems.append(
            Problem("--launcher", f"{trial.launcher} does not start MPI ranks, which every level of smoke needs. {fix}")
        )
    if trial.level != "devices" and not pool.gpus:
        fix = "Use --level devices, or a pool with GPUs."
        problems.append(Problem("--level", f"pool {pool.name} has no GPUs for level {trial.level}. {fix}"))
    return problems


def list_emulated_nodes(cluster: Cluster) -> list[str]:
    """Return the nodes that are labeled as having emulated devices; empty if the caller may not list nodes."""
    try:
        nodes = cluster.list("Node", selector={EMULATED_LABEL: "true"})
    except CommandError:
        return []
    return sorted(node["metadata"]["name"] for node in nodes)


def _run_test_jobs(cluster: Cluster, job: Job, expected: Expected, described: ClusterDescription, *, keep: bool) -> Outcome:
    """Run the jobs of the test's level. Devices count as emulated if their node has the label EMULATED_LABEL."""
    log, state = _run_job(cluster, smoke_jobs.add_program(job, expected), described, keep=keep)
    reports = smoke_jobs.parse_reports("\n".join(log))
    reported = smoke_verdict.list_failures(reports, expected)
    outcome = Outcome(replace(expected, emulated=tuple(list_emulated_nodes(cluster))), reports=reports, log=log)
    outcome.add(smoke_verdict.run_checks(reports, outcome.expected), state, reported)
    if expected.level != "nccl":
        return outcome
    failed = [check.name for check in outcome.checks if check.failures]
    emulated = smoke_verdict.emulated_nodes(reports, outcome.expected)
    if failed:
        outcome.checks += nccl_verdict.build_skipped_checks(smoke_verdict.NOT_RUN, f"failed before: {join_items(failed)}")
    elif emulated:
        why = f"the GPUs of {join_items(emulated)} are emulated, and NCCL needs real ones"
        outcome.checks += nccl_verdict.build_skipped_checks(smoke_verdict.NOT_HERE, why)
    else:
        outcome.log, state = _run_job(cluster, smoke_jobs.build_nccl_job(job, described), described, keep=keep)
        outcome.nccl = smoke_jobs.parse_nccl_reports("\n".join(outcome.log))
        checks = nccl_verdict.evaluate_reports(outcome.nccl, smoke_jobs.compute_expected_nccl_results(job, described))
        outcome.add(checks, state, [sentence for check in checks for sentence in check.failures])
    return outcome


def _run_job(cluster: Cluster, job: Job, described: ClusterDescription, *, keep: bool) -> tuple[list[str], JobState | None]:
    """Submit a job, wait for it and delete it; return its log and its last state."""
    manifests = render_job(place_job(job, described))
    namespace = manifests[0]["metadata"]["namespace"]
    objects.submit_job(cluster, manifests)
    log: list[str] = []
    try:
        state, _ = Follower(cluster, job.name, namespace, out=io.StringIO(), keep=log.append).run()
    finally:
        if not keep:
            _delete_job(cluster, job, namespace)
    return log, state


def _delete_job(cluster: Cluster, job: Job, namespace: str) -> None:
    try:
        state = objects.find_job(cluster, job.name, namespace)
        cluster.delete(state.kind, state.object_name, namespace)
    except CommandError as error:
        print(f"{NAME} smoke: the job was not deleted: {error}", file=sys.stderr)


def _build_document(outcome: Outcome, nccl: nccl_verdict.NcclExpected) -> dict[str, Any]:
    expected = asdict(outcome.expected)
    if outcome.expected.level == "nccl":
        expected["nccl"] = asdict(nccl)
    return {
        "ok": not outcome.failures,
        "level": outcome.expected.level,
        "failures": outcome.failures,
        "checks": [{key: getattr(check, key) for key in ("name", "result", "detail")} for check in outcome.checks],
        "expected": expected,
        "reports": outcome.reports,
        "nccl": outcome.nccl,
    }


def _print_outcome(outcome: Outcome) -> None:
    console = make_console()
    if "no rank reported" in outcome.failures:
        for line in outcome.log[-SHOWN_LINES:]:
            console.print(line, style="dim")
    if outcome.reports:
        rows = [
            (*(str(report[key]) for key in ("rank", "host", "node", "gpus", "sum")), ", ".join(report["transports"]))
            for report in sorted(outcome.reports, key=lambda report: int(report["rank"]))
        ]
        console.print(Listing("rank", "worker", "node", "GPUs", "sum", "transport", rows=rows))
        console.print(Text(str(outcome.reports[0].get("library", "")), "dim"))
    results = [(check.name, Text(check.result, STYLES.get(check.result, "yellow")), check.detail) for check in outcome.checks]
    console.print(Listing("check", "result", "detail", rows=results))
    console.print(Text(_summarize_outcome(outcome), "bold red" if outcome.failures else "bold green"))


def _summarize_outcome(outcome: Outcome) -> str:
    """Return the last line of the output: names of the passed checks, and the number of checks with other results."""
    number: Callable[[str], int] = lambda verdict: sum(check.result == verdict for check in outcome.checks)  # noqa: E731
    names = [check.name for check in outcome.checks if check.result == smoke_verdict.PASSED]
    parts = [f"{number(smoke_verdict.PASSED)} passed" + (f" ({', '.join(names)})" if names else "")]
    for verdict in (smoke_verdict.FAILED, smoke_verdict.NOT_HERE, smoke_verdict.NOT_RUN):
        if number(verdict):
            parts.append(f"{number(verdict)} {verdict}")
    return f"{'FAILED' if outcome.failures else 'ok'}: {'; '.join(parts)}"
