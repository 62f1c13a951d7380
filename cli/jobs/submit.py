"""`submit`: create a job in the cluster from a job file."""

import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
import yaml

from cli import options
from cli.clusters.kubernetes_access import Access, Cluster
from cli.console import print_json
from cli.errors import CommandError, NotFound, format_problem, summarize_problems
from cli.exit_codes import INTERRUPTED, OK, REFUSED
from cli.installation import NAME
from cli.installation import program_name as program
from cli.jobs import assignments, objects
from cli.jobs.follow_log import Follower
from cli.jobs.state import JobState
from cli.jobs.workdir import places
from cli.jobs.workdir.selection import LIMIT_MIB
from cli.jobs.worker_logs import Choice, FollowerOfPods
from cli.stacks.cost import lines
from infra.config.problems import Problem
from infra.jobs import pod_rules
from infra.jobs.model import Job
from infra.jobs.placed import Manifest
from infra.jobs.reading import JobRefused, read_job
from infra.jobs.render import render_job


class WithoutAliases(yaml.SafeDumper):
    """Repeats parts that objects share, such as volume mounts, instead of using YAML anchors."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def command(
    job: Annotated[Path, typer.Argument(metavar="JOB.yaml", help="Job file; `settings --of job` lists its fields.")],
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Print the launcher's log until the job ends.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the objects and create nothing.")] = False,
    assigned: assignments.Set = None,
    variables: assignments.Env = None,
    workdir: options.Workdir = None,
    workdir_limit: options.WorkdirLimit = LIMIT_MIB,
    *,
    access: Access,
    as_json: options.Json = False,
) -> int:
    """With --follow, the exit code shows whether the job succeeded, and --json prints the log on stderr."""
    if not job.is_file():
        raise NotFound(f"there is no job file {job}")
    changes = assignments.split_pairs("--set", assigned), assignments.split_pairs("--env", variables)
    cluster = access.connect()
    described = cluster.description()
    try:
        edit = partial(assignments.apply_assignments, assigned=changes[0], variables=changes[1])
        placed = read_job(job, described, access.namespace, cluster.namespace, on_warning=print_warning, edit=edit)
    except JobRefused as error:
        raise make_refusal_error(job.name, error.problems) from None
    requested = placed.job.model_copy(update={} if workdir is None else {"workdir": str(workdir)})
    if problems := tuple(pod_rules.check_working_dir(requested)):
        raise make_refusal_error(job.name, problems)
    files = places.choose_storage(placed, workdir or resolve_workdir(job, requested), workdir_limit)
    manifests = render_job(replace(placed, storage=files.storage))
    if dry_run:  # a key pair in the output was generated only for this output and is never used
        if as_json:
            print_json(manifests)
        else:
            print(yaml.dump_all(manifests, Dumper=WithoutAliases, sort_keys=False), end="")
        return OK
    if (cost := lines.format_job_cost(requested, described)) is not None:
        print(cost, file=sys.stderr, flush=True)
    return create_job(cluster, requested, manifests, files, follow=follow, as_json=as_json)


def resolve_workdir(file: Path, job: Job) -> Path | None:
    """Return the path of the job's `workdir`, resolved relative to the job file; None if the job has none."""
    return file.parent / job.workdir if job.workdir else None


def print_warning(warning: Problem) -> None:
    print(format_problem(warning), file=sys.stderr, flush=True)


def make_refusal_error(name: str, problems: Sequence[Problem]) -> CommandError:
    return CommandError(summarize_problems(name, len(problems), "submitted"), REFUSED, problems=problems)


def create_job(
    cluster: Cluster, job: Job, manifests: Sequence[Manifest], files: objects.Files | None = None, *, follow: bool, as_json: bool
) -> int:
    """Create the objects of a job; with `follow`, wait until the job ends. Return the exit code."""
    namespace = manifests[0]["metadata"]["namespace"]
    objects.submit_job(cluster, manifests, files)
    if follow:
        print(f"{NAME}: job {job.name} submitted to namespace {namespace}", file=sys.stderr, flush=True)
        return follow_job(cluster, job.name, namespace, as_json=as_json)
    if as_json:
        names = [f"{item['kind']}/{item['metadata']['name']}" for item in manifests]
        print_json({"name": job.name, "namespace": namespace, "objects": names})
    else:
        where = f" --namespace {namespace}" if namespace != cluster.namespace else ""
        print(f"job {job.name} submitted to namespace {namespace}; its log: {program()} logs {job.name} --follow{where}")
    return OK


def follow_job(
    cluster: Cluster, name: str, namespace: str, *, as_json: bool, choose: Choice | None = None, prefixed: bool = False
) -> int:
    """Print the job's log, or the logs of the pods that `choose` selects, and then the job's result.

    With `as_json`, the log goes to stderr.
    """
    out = sys.stderr if as_json else sys.stdout
    follower = Follower(cluster, name, namespace, out)
    if choose:
        follower = FollowerOfPods(cluster, name, namespace, out, choose=choose, prefixed=prefixed)
    try:
        state, code = follower.run()
    except KeyboardInterrupt:
        message = f"job {name} keeps running; to delete it: {program()} cancel {name} --namespace {namespace}"
        raise CommandError(message, INTERRUPTED) from None
    if as_json:
        now = datetime.now(UTC)
        print_json(state.as_json(now) if state else {"name": name, "namespace": namespace, "phase": "Removed"})
    elif state:
        print(f"{NAME}: {describe_result(state)}", file=sys.stderr)
    return code


def describe_result(state: JobState) -> str:
    """Return the result as text, such as `job train succeeded in 12 s`."""
    seconds = state.seconds(datetime.now(UTC))
    after = f", after {state.failures} failed attempt{'' if state.failures == 1 else 's'}" if state.failures else ""
    if state.phase == "Succeeded":
        return f"job {state.name} succeeded in {seconds} s{after}"
    reason = f": {state.reason}" if state.reason else ""
    log = f"{program()} logs {state.name}"
    deadline = "deadline" in state.reason.lower()  # the Job controller's message names the deadline
    cause = "a rank hung, or activeDeadlineSeconds is too short" if deadline else "see its log"
    return f"job {state.name} failed in {seconds} s{reason}; {cause}: {log}"
