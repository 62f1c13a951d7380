"""`scripts/cluster validate`: every problem of a stack, or a summary of what it will be."""

import json
import sys
from pathlib import Path

from cli import existing_summary, summary
from cli.verdict import USAGE, Verdict
from infra.config import preflight, stack_file
from infra.config.stack_file import RawStack

AWS_LEFT_OUT = (
    "whether AWS offers the types, zones, versions and add-ons, whether what the file names by id exists and fits, "
    "quotas, addresses of existing subnets"
)
CLUSTER_LEFT_OUT = "the cluster itself: its version, nodes, labels, GPUs and storage classes"


def run(stack: str, folder: Path, *, offline: bool, as_json: bool) -> int:
    """Print what is wrong with a stack, or what it will be; the exit code says which."""
    try:
        path = stack_file.find(stack, folder)
    except stack_file.NoSuchStack as error:
        print(f"cluster validate: {error}", file=sys.stderr)
        return USAGE
    raw = stack_file.read(path)
    judged = _of_existing(path, raw, offline) if stack_file.is_existing(raw.values) else _of_aws(path, raw, offline)
    if as_json:
        print(json.dumps(judged.as_json(), indent=1))
    else:
        judged.print()
    return judged.code


def _of_aws(path: Path, raw: RawStack, offline: bool) -> Verdict:
    examined = preflight.examine_aws(raw, offline=offline)
    settings, facts = examined.settings, examined.facts
    return Verdict(
        path,
        examined,
        offline,
        AWS_LEFT_OUT,
        unchecked=facts.unchecked if facts else (),
        pools=lambda: [row.as_json() for row in summary.rows(settings, facts)] if settings else [],
        show=lambda console: summary.show(console, settings, facts) if settings else None,
    )


def _of_existing(path: Path, raw: RawStack, offline: bool) -> Verdict:
    examined = preflight.examine_existing(raw, offline=offline)
    settings, facts = examined.settings, examined.facts
    return Verdict(
        path,
        examined,
        offline,
        CLUSTER_LEFT_OUT,
        unchecked=existing_summary.unchecked(settings, facts) if settings and facts else (),
        pools=lambda: existing_summary.rows(settings, facts) if settings and facts else [],
        show=lambda console: existing_summary.show(console, settings, facts) if settings else None,
    )
