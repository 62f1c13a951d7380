"""`python -m localcloud.conformance`: run the same stacks with our programs and with Pulumi's official ones, and compare them.

Without official programs, it compares nothing, prints `not run` with the reasons and exits with 6.
"""

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final

from cli.exit_codes import FAILED, NOT_RUN, OK, REFUSED
from infra.config import stack_file
from localcloud import officials
from localcloud.conformance import bad_inputs
from localcloud.conformance.compare import find_differences
from localcloud.conformance.lifecycle import Side, find_failure, run_side
from localcloud.conformance.report import Report, Result
from localcloud.instance import LocalCloud
from localcloud.officials import NotInstalled, Program
from localcloud.processes import ROOT
from localcloud.stack import LocalStack
from localcloud.tools.build import BuildError
from testkit.control_plane import ControlPlane, NoControlPlane

STACKS = ROOT / "stacks"
ASKED: Final[Mapping[str, Callable[[], Program]]] = {
    officials.CLI: officials.find_cli,
    officials.HOST: officials.find_language_host,
    **{f"{name} provider": partial(officials.find_provider, name) for name in officials.PROVIDERS},
}
"""Maps an official program to the function that finds it and queries its version."""


def find_programs() -> tuple[dict[str, Program], list[str]]:
    """Return the official programs that work, and the reasons why the other official programs are not used."""
    programs, missing = {}, []
    for name, ask in ASKED.items():
        try:
            programs[name] = ask()
        except NotInstalled as error:
            missing.append(f"{name}: {error}")
    return programs, missing


def select_stacks(names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the stacks to run, and the reasons why the other stacks are not run."""
    run, left_out = [], []
    for name in names:
        if stack_file.uses_existing_cluster(stack_file.read_stack_file(stack_file.find_stack_file(name, STACKS)).values):
            left_out.append(f"{name}: would use your own kubeconfig")
        else:
            run.append(name)
    return run, left_out


@contextmanager
def start_cloud(folder: Path, programs: Mapping[str, Program], *, kubernetes: bool) -> Iterator[LocalCloud]:
    """Start a local cloud with these official programs, and with this project's programs in place of the others."""
    cloud = LocalCloud(folder)
    plugins = {name: programs[f"{name} provider"].path for name in officials.PROVIDERS if f"{name} provider" in programs}
    try:
        cloud.start(_print_progress, kubernetes=kubernetes, plugins=plugins, own_cli=officials.CLI not in programs)
        yield cloud
    finally:
        cloud.stop()


def compare_stack(name: str, ours: Side | str, theirs: Side | str) -> Result:
    sides = {"ours": ours, "theirs": theirs}
    failures = {side: reason for side, run in sides.items() if (reason := run if isinstance(run, str) else find_failure(run))}
    if isinstance(ours, str) or isinstance(theirs, str):
        return Result(name, failures=failures)
    all_differences = find_differences(ours.steps, theirs.steps, "steps") + find_differences(
        ours.resources, theirs.resources, "resources"
    )
    return Result(name, all_differences, failures, len(ours.steps), len(ours.resources))


def run_comparisons(programs: Mapping[str, Program], names: Sequence[str], folder: Path, *, kubernetes: bool) -> Iterator[Result]:
    sides: dict[str, dict[str, Side | str]] = {}
    errors: dict[str, dict[str, list[str]]] = {}
    with _start_api_server(folder) as plane:
        for side, used in (("ours", {}), ("theirs", programs)):
            with start_cloud(folder / side / "cloud", used, kubernetes=kubernetes) as cloud:
                sides[side] = {}
                for name in names:
                    _print_progress(f"{side}: {name}")
                    sides[side][name] = run_side(LocalStack(cloud, name, STACKS))
                    cloud.reset()
                errors[side] = bad_inputs.collect_errors(cloud, plane, side, folder) if plane else {}
    for name in names:
        yield compare_stack(name, sides["ours"][name], sides["theirs"][name])
    if plane:
        error_differences = find_differences(errors["ours"], errors["theirs"], "errors")
        silent = {side: f"{name}: no error" for side in errors for name, text in errors[side].items() if not text}
        yield Result("bad inputs", error_differences, silent, len(bad_inputs.CASES))


@contextmanager
def _start_api_server(folder: Path) -> Iterator[ControlPlane | None]:
    """Start an API server for the bad inputs; yield None if this machine cannot run one."""
    plane = ControlPlane(folder / "plane")
    try:
        plane.start()
    except (BuildError, NoControlPlane) as error:
        _print_progress(f"no API server: {error}")
        yield None
        return
    try:
        yield plane
    finally:
        plane.stop()


def _print_progress(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make conformance", description=__doc__)
    parser.add_argument("--stacks", help="comma-separated names (default: all stacks)")
    parser.add_argument(
        "--kubernetes", action=argparse.BooleanOptionalAction, default=True, help="run a Kubernetes cluster for each EKS cluster"
    )
    parser.add_argument("--report", type=Path, default=ROOT / ".local")
    options = parser.parse_args(arguments)
    programs, missing = find_programs()
    if not programs:
        print("\n".join(f"not run: {reason}" for reason in missing))
        return NOT_RUN
    try:
        names, left_out = select_stacks(options.stacks.split(",") if options.stacks else stack_file.list_stack_names(STACKS))
    except stack_file.NoSuchStack as error:
        print(error, file=sys.stderr)
        return REFUSED
    versions = {name: f"{programs[name].version} ({programs[name].path})" if name in programs else "ours" for name in ASKED}
    if not options.kubernetes:
        missing.append("clusters: --no-kubernetes was given")
    with tempfile.TemporaryDirectory() as folder:
        results = tuple(run_comparisons(programs, names, Path(folder), kubernetes=options.kubernetes))
    if len(results) == len(names):
        missing.append("bad inputs: no Kubernetes API server could be started")
    date = datetime.now(UTC).isoformat(timespec="seconds")
    report = Report(date, versions, (*missing, *left_out), results)
    report.write(options.report)
    print(report.as_markdown(), end="")
    if report.has_differences:
        return FAILED
    return NOT_RUN if missing else OK


if __name__ == "__main__":
    sys.exit(main())
