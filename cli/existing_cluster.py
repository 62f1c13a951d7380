"""`scripts/cluster validate` for a stack of a cluster that is there already."""

import json
from pathlib import Path

from rich.console import Console
from rich.table import Table

from cli import validate as aws
from infra.existing import preflight
from infra.existing.description import describe
from infra.existing.facts import ClusterFacts
from infra.existing.rules import unsaid_gpus
from infra.existing.settings import ExistingSettings
from infra.jobs.cluster import PoolDescription
from infra.stack_file import RawStack

OFFLINE = "not checked: the cluster itself: its version, nodes, labels, GPUs and storage classes"


def validate(path: Path, raw: RawStack, *, offline: bool, as_json: bool) -> int:
    """Print what is wrong with a stack, or what it will be; the exit code says which."""
    examined = preflight.examine(raw, offline=offline)
    settings, facts = examined.settings, examined.facts
    code = aws.PROBLEMS if examined.problems else aws.FINE if offline or facts else aws.NOT_ASKED
    pools = describe(settings, facts).pools if settings and facts and code == aws.FINE else ()
    unchecked = _unchecked(settings, facts) if settings and facts else []
    if as_json:
        print(
            json.dumps(
                {
                    "file": str(path),
                    "ok": code == aws.FINE,
                    "problems": [{"path": one.path, "message": one.message} for one in examined.problems],
                    "notAsked": examined.not_asked,
                    "unchecked": unchecked,
                    "pools": [_row(pool) for pool in pools],
                },
                indent=1,
            )
        )
        return code
    console = Console(highlight=False, soft_wrap=True, markup=False)
    if examined.problems:
        aws.print_problems(console, path, examined.problems)
    elif settings and (offline or facts):
        _show(console, settings, facts, pools)
        console.print(f"{path.name}: no problems found", style="bold green")
    if offline:
        console.print(OFFLINE, style="yellow")
    elif examined.not_asked:
        found = "" if examined.problems else " and is fine"
        console.print(f"only the file was checked{found}: {examined.not_asked}", style="yellow")
    for sentence in unchecked:
        console.print(f"not checked: {sentence}", style="yellow")
    return code


def _unchecked(settings: ExistingSettings, facts: ClusterFacts) -> list[str]:
    silent = unsaid_gpus(settings, facts)
    return [f"GPUs of {', '.join(silent)}: no device plugin has said yet how many there are"] if silent else []


def _row(pool: PoolDescription) -> dict[str, object]:
    return {"name": pool.name, "gpus": pool.gpus, "nodes": pool.max_size, "nodeSelector": pool.labels}


def _show(console: Console, settings: ExistingSettings, facts: ClusterFacts | None, pools: tuple[PoolDescription, ...]) -> None:
    where = f"Kubernetes {facts.version} at {facts.server}" if facts else "a Kubernetes cluster"
    console.print(f"{settings.cluster_name}: {where}")
    table = Table(box=None, header_style="bold", pad_edge=False)
    for heading in ("pool", "GPUs", "nodes", "labels"):
        table.add_column(heading, justify="right" if heading in ("GPUs", "nodes") else "left", no_wrap=True)
    for pool in pools:
        labels = ", ".join(f"{key}={value}" for key, value in pool.labels.items()) or "any node"
        table.add_row(pool.name, str(pool.gpus), str(pool.max_size), labels)
    if pools:
        console.print(table)
        console.print(f"at most {sum(pool.gpus * pool.max_size for pool in pools)} GPUs")
