"""Report the last hang in a job's record: the last lines of the log, and the ranks' stacks."""

from collections.abc import Iterator, Mapping
from typing import Any

from cli.clusters.kubernetes_access import Cluster
from cli.errors import NotFound
from cli.jobs.records import all_records
from infra.platform.job_controller.in_pod.stacks import listed


def last_hang(cluster: Cluster, namespace: str, name: str) -> Mapping[str, Any]:
    """Return the last hung attempt of the newest job with this name, even if the job was deleted. Raises NotFound."""
    found = sorted((one for one in all_records(cluster, namespace) if one.content["name"] == name), key=lambda one: one.key)
    if not found:
        raise NotFound(f"there is no record of job {name} in namespace {namespace}")
    hung = [one for one in found[-1].content["attempts"] if one.get("hang")]
    if not hung:
        raise NotFound(f"no attempt of {name} ended because of a hang")
    attempt: Mapping[str, Any] = hung[-1]
    return attempt


def lines(attempt: Mapping[str, Any]) -> Iterator[str]:
    """Yield a readable report of a hang."""
    hang = attempt["hang"]
    yield f"attempt {attempt['number']}, {hang['at']}: {attempt['cause']}"
    yield ""
    yield "last lines of the log:"
    yield from (f"    {line}" for line in hang.get("log") or ["none"])
    if not hang.get("ranks"):
        yield ""
        yield "the ranks' stacks are unknown: no pod answered in time"
    yield from (f"    {line}" for line in hang.get("unknown", ()))
    for group in hang.get("ranks", ()):
        numbers = listed(group["ranks"])
        yield ""
        yield f"rank{'' if numbers.isdigit() else 's'} {numbers}{': ' if group['at'] else ''}{group['at']}"
        yield from (f"    {line}" for line in group["lines"])
    if hang.get("nccl"):
        yield ""
        yield "NCCL:"
        yield from (f"    {line}" for line in hang["nccl"])
