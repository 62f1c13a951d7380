"""Run the verb `smoke` and turn each of its checks into a row."""

import io
import json
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from typing import Any

from cli.clusters.acceptance.report import Notebook
from cli.main import load_verb
from infra.jobs import nccl_verdict
from infra.jobs.cluster import PoolDescription
from infra.jobs.nccl_verdict import requires_gpudirect
from infra.jobs.smoke import Level
from infra.jobs.smoke_verdict import FAILED, LEVELS, NOT_HERE, NOT_RUN, PASSED, Check


def list_levels_up_to(level: Level) -> tuple[str, ...]:
    return LEVELS[: LEVELS.index(level) + 1]


def run_smoke(options: Sequence[str]) -> Mapping[str, Any]:
    """Run `smoke --json` and return its document. Raises CommandError."""
    command = load_verb("smoke")
    output = io.StringIO()
    # do not use `main`, which would turn ^C into an exit code
    with redirect_stdout(output), command.make_context("smoke", [*options, "--json"]) as context:
        command.invoke(context)
    document: Mapping[str, Any] = json.loads(output.getvalue())
    return document


def record_smoke_run(notes: Notebook, document: Mapping[str, Any], source: str, pool: PoolDescription) -> None:
    """Record a smoke run, and each of its checks as a separate row. A check with an unknown result counts as failed.
    Performs no I/O.

    Leaves out checks that smoke could not judge although nothing failed, such as a slow node if there are only two
    nodes.
    """
    ranks, expected = document.get("reports", ()), document.get("expected", {})
    nodes = ", ".join(sorted({rank["node"] for rank in ranks}))
    notes.record_evidence(
        f"{source}: reports", f"{len(ranks)} ranks on {nodes or 'no node'}, expected transport {expected.get('transport')}"
    )
    for check in document.get("checks", ()):
        absent = explain_absence(pool, check["name"])
        record_check(
            notes, source, check["name"], check["result"], check["detail"], absent=absent, failed=bool(document.get("failures"))
        )
    for sentence in document.get("failures", ()):
        notes.record_failure(str(sentence))
    if not document.get("ok") and not notes.failures:
        notes.record_failure(f"{source} is not ok and gives no reason")
    if not notes.parts:
        notes.record_failure(f"{source} has checked nothing")


def record_nccl_checks(notes: Notebook, checks: Sequence[Check], instance_type: str) -> None:
    """Record each NCCL check as a separate row. `instance_type`: type of the tested nodes. Performs no I/O."""
    failed = any(check.failures for check in checks)
    for check in checks:
        absent = explain_missing_gpudirect(instance_type) if check.name == nccl_verdict.GPUDIRECT else ""
        record_check(notes, "all_reduce_perf", check.name, check.result, check.detail, absent=absent, failed=failed)


def record_check(notes: Notebook, source: str, name: str, result: str, detail: str, *, absent: str, failed: bool) -> None:
    """Record one check. `absent`: why the tested feature may be absent from this hardware. `failed`: whether any check
    failed.
    """
    part, detail = notes.create_part(f"smoke: {name}"), detail or result
    part.record_evidence(f"{source}: {name}", f"{result}: {detail}")
    if result == NOT_HERE:
        part.left_out = absent
        part.record_missing_hardware(detail)
    elif result == NOT_RUN and failed:
        part.not_run = detail
    elif result == NOT_RUN:
        part.left_out = detail
    elif result != PASSED:
        part.record_failure(detail if result == FAILED else f"{result}: {detail}")


def explain_absence(pool: PoolDescription, check: str) -> str:
    """Return why the pool lacks the tested feature, according to its description; empty if the pool must have the
    feature.
    """
    if check in ("GPU devices", "CUDA kernel") and not pool.gpus:
        return f"pool {pool.name} has no GPUs"
    if check == "EFA devices" and not pool.efa:
        return f"pool {pool.name} has no EFA"
    return explain_missing_gpudirect(pool.instance_type) if check == nccl_verdict.GPUDIRECT else ""


def explain_missing_gpudirect(instance_type: str) -> str:
    return f"{instance_type} has no GPUDirect RDMA" if instance_type and not requires_gpudirect(instance_type) else ""
